"""The observer's state of one example: all topics, sessions and clients."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from model.applications.tracker import Applications
from model.chunking.state import Chunking
from model.deduplication.topic_observer import TopicView
from model.events import Answer, Duplicate, Stored
from model.example.remote import NOTHING, Remote
from model.example.step import Step
from model.failpoints import AnyFailpoint, FailpointKind
from model.holes import Holes
from model.judgement import Allowed, Broken
from model.readers import Reader
from model.replication.tracked import Replication
from model.service import confirmed
from model.service.confirmed import ConfirmedLog
from model.service.state import ServiceState
from model.sessions import Pending, Session
from model.subscriptions.state import Consumption


@dataclass(frozen=True, slots=True)
class Past:
    """A step that was judged: the state before it, and the state after it.

    ``right``: the state after it by the documents alone, if a deviation changed something silently. ``met``: the
    deviations that explained what was wrong at once.
    """

    before: Example
    step: Step
    after: Example
    right: Example | None = None
    met: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Example:
    """The topics and sessions of one example, its active failpoints, the known deviations.

    ``lingering``: topics on which a failpoint was active and may still delay a write. A later confirmed write ends
    that, because the log has one order. ``severed``: topics on which a failpoint cuts the connections of producers,
    until a later write is confirmed. ``is_disturbed``: the network may have faults. ``remote``: what producers at
    another cluster published to each topic. ``ttls``: by topic, the TTL of each level where one is set, in seconds.
    ``holes``: by topic, what is beside it. ``past``: the step that led here.
    """

    known: frozenset[str] = frozenset()
    topics: Mapping[str, TopicView] = field(default_factory=dict)
    sessions: Mapping[str, Session] = field(default_factory=dict)
    failpoints: frozenset[tuple[str, FailpointKind]] = frozenset()
    lingering: frozenset[str] = frozenset()
    severed: frozenset[str] = frozenset()
    applications: Applications = field(default_factory=Applications)
    consumption: Consumption = field(default_factory=Consumption)
    replication: Replication = field(default_factory=Replication)
    is_disturbed: bool = False
    chunking: Chunking = field(default_factory=Chunking)
    service: ServiceState = field(default_factory=ServiceState)
    remote: Mapping[str, Remote] = field(default_factory=dict)
    ttls: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    readers: Mapping[str, Reader] = field(default_factory=dict)
    holes: Mapping[str, Holes] = field(default_factory=dict)
    past: Past | None = field(default=None, compare=False, repr=False)

    @property
    def trace(self) -> Iterator[Past]:
        """The steps that led here, the last one first."""
        past = self.past
        while past is not None:
            yield past
            past = past.before.past

    @property
    def size(self) -> int:
        """The number of possible states, over all topics and subscriptions."""
        return sum(view.size for view in self.topics.values()) + self.consumption.size + self.replication.size

    def with_known(self, known: frozenset[str]) -> Example:
        """The same if these deviations are the known ones."""
        return self if self.known == known else replace(self, known=known)

    def topics_with(self, kinds: frozenset[AnyFailpoint]) -> frozenset[str]:
        """The topics on which a failpoint of one of these kinds is active."""
        return frozenset(topic for topic, kind in self.failpoints if kind in kinds)

    def may_fail_on(self, topic: str) -> bool:
        """Whether a failpoint is active on a topic, or may still delay a write of it."""
        return topic in self.lingering or any(name == topic for name, _ in self.failpoints)

    def with_lingering(self, topics: AbstractSet[str], severed: AbstractSet[str] = frozenset()) -> Example:
        """Writes on these topics may still fail, and on the ``severed`` ones still cut connections."""
        if not (concerned := topics | severed):
            return self
        sessions = {name: one.before_fault() for name, one in self.sessions.items() if one.topic in concerned}
        return replace(
            self,
            lingering=self.lingering | topics,
            severed=self.severed | severed,
            sessions={**self.sessions, **sessions},
        )

    def written(self, topic: str, sent: Pending, answers: Sequence[Answer]) -> Example:
        """The same after these answers. A fault is over once a later write succeeds, and none after that fails."""
        if sent.is_before_fault or not answers or not isinstance(answers[-1], Stored | Duplicate):
            return self
        return replace(self, lingering=self.lingering - {topic}, severed=self.severed - {topic})

    def remote_of(self, topic: str | None) -> Remote:
        """What producers at another cluster published to a topic."""
        return self.remote.get(topic or "", NOTHING)

    def with_remote(self, topic: str, remote: Remote) -> Example:
        return replace(self, remote={**self.remote, topic: remote})

    def ttl_of(self, topic: str) -> int | None:
        """The TTL in force: that of the topic before that of its namespace."""
        set_at = self.ttls.get(topic, {})
        return set_at.get("topic", set_at.get("namespace"))

    def with_ttl(self, topic: str, scope: str, seconds: int | None) -> Example:
        kept = {level: one for level, one in self.ttls.get(topic, {}).items() if level != scope}
        return replace(self, ttls={**self.ttls, topic: kept if seconds is None else {**kept, scope: seconds}})

    def with_reader(self, name: str, reader: Reader) -> Example:
        return replace(self, readers={**self.readers, name: reader})

    def with_holes(self, topic: str, holes: Holes) -> Example:
        return replace(self, holes={**self.holes, topic: holes})

    def with_topic(self, name: str, view: TopicView) -> Example:
        return replace(self, topics={**self.topics, name: view})

    def with_session(self, name: str, session: Session) -> Example:
        return replace(self, sessions={**self.sessions, name: session})

    def with_confirmed(self, topic: str, change: Callable[[ConfirmedLog], ConfirmedLog]) -> Example:
        logs = self.service.confirmed
        log = change(logs.get(topic, confirmed.EMPTY))
        return replace(self, service=replace(self.service, confirmed=logs.set(topic, log)))


Judgement = Allowed[Example] | Broken
