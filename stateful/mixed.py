"""The mixed machine: a random subset of the other machines runs on one topic.

A topic has the features, settings and faults that its example drew (swarm testing): producers that repeat themselves,
whose writes or connections fail; subscriptions of all types, and what administrators do to them; a Key_Shared
subscription whose dispatch is exact. Each of these is a machine of one document, a *part*
here, which goes on choosing what it performs. Only which part acts next, and with which of its rules, is chosen here,
and parts learn when another one disconnected their clients. So a rule that is added to a machine is in this one, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Final

from hypothesis import strategies as st
from hypothesis.stateful import Rule, initialize, precondition, rule
from msgspec import structs

from conformance.coverage.guide import Guide
from model.cluster_operations import (
    AWAY,
    HOME,
    CutLink,
    HealLink,
    HoldLink,
    LinkOperation,
    ReleaseLink,
    SlowLink,
)
from model.failpoints import WRITE_FAILURES
from model.operations import (
    AnyOperation,
    CloseProducer,
    CrashProducer,
    CreateTopic,
    InjectNetworkFault,
    Kill,
    OpenProducer,
    ReadLog,
    Restart,
    Send,
    SetDeduplication,
    SetFailpoint,
    Switch,
    Unload,
)
from model.producer_operations import AwaitProducers
from model.subscription_operations import Acknowledge, Receive, Subscribe
from model.vocabulary import Entry, Persistence
from stateful.crashes import IN_PLACE
from stateful.cursors.base import OnSubscriptions
from stateful.cursors.chunks import AcknowledgmentChunksMachine, KeysChunksMachine
from stateful.cursors.machines import PERSISTENCE, AcknowledgmentClientsMachine, AcknowledgmentMachine
from stateful.cursors.network import (
    AcknowledgmentClientsNetworkMachine,
    AcknowledgmentNetworkMachine,
    KeysNetworkMachine,
)
from stateful.deduplication.inactivity import InactivityMachine
from stateful.deduplication.machines import SWITCHES, DeduplicationMachine, FailuresMachine, OnTopics
from stateful.deduplication.network import NetworkMachine
from stateful.deduplication.plan import DeduplicationPlan, Pick, PlannedSession
from stateful.key_shared.machines import KeysAgainMachine, OnKeys
from stateful.key_shared.plan import KEYS
from stateful.key_shared.variations import (
    KeysClaimedMachine,
    KeysClientsMachine,
    KeysRacesMachine,
    KeysSwitchedMachine,
)
from stateful.lockstep_machine import LockstepMachine, Performing, name_of, preferred

TOPIC: Final = "t0"
Part = OnTopics | OnSubscriptions | OnKeys
PRODUCING: Final[tuple[type[OnTopics], ...]] = (
    DeduplicationMachine,
    DeduplicationMachine,
    FailuresMachine,
    InactivityMachine,
    NetworkMachine,
)
CONSUMING: Final[tuple[type[OnSubscriptions], ...]] = (
    AcknowledgmentMachine,
    AcknowledgmentMachine,
    AcknowledgmentNetworkMachine,
    AcknowledgmentClientsMachine,
    AcknowledgmentClientsNetworkMachine,
)
ON_KEYS: Final[tuple[type[OnKeys], ...]] = (
    KeysAgainMachine,
    KeysNetworkMachine,
    KeysClaimedMachine,
    KeysRacesMachine,
    KeysSwitchedMachine,
    KeysClientsMachine,
)
KINDS: Final = st.tuples(
    st.none() | st.sampled_from(PRODUCING), st.none() | st.sampled_from(CONSUMING), st.none() | st.sampled_from(ON_KEYS)
).filter(lambda kinds: sum(kind is not None for kind in kinds) > 1)
"""The parts of an example: two or three, each about another side of the topic."""
CHUNKED: Final = (AcknowledgmentChunksMachine, KeysChunksMachine)
CHUNKED_KINDS: Final = st.tuples(
    st.none() | st.sampled_from(PRODUCING),
    st.sampled_from((AcknowledgmentChunksMachine, AcknowledgmentMachine, AcknowledgmentNetworkMachine)),
    st.sampled_from((KeysChunksMachine, *(kind for kind in ON_KEYS if kind is not KeysClientsMachine))),
).filter(lambda kinds: not set(CHUNKED).isdisjoint(kinds))
"""The same with chunked messages of both clients. Consumers are the wire client's, as pulsar-client assembles them."""
KILL: Final = "MixedMachine.kill"
"""The name of a kill in a run's coverage, as if it were a rule."""
UNLOADING: Final = (Unload, Kill, Restart)
LINKS: Final = st.sampled_from(((HOME, AWAY), (HOME, AWAY), (AWAY, HOME)))
LINK_FAULTS: Final = st.sampled_from(
    (
        CutLink,
        CutLink,
        partial(HoldLink, what="messages"),
        partial(HoldLink, what="receipts"),
        partial(SlowLink, delay_ms=400),
    )
)
"""What can happen to a link: it is cut, it is frozen in one direction, or it is slow."""
REMOTE_PRODUCERS: Final = st.sampled_from(["r0", "r0", "r1"])
"""The producers at the other cluster: no producer at home has one of these names."""
REMOTE_PICKS: Final = st.lists(
    st.tuples(
        st.sampled_from([Pick(), Pick(), Pick(offset=3), Pick(about_old=True), Pick(size=2), Pick(size=3, step=3)]),
        st.none() | st.sampled_from(KEYS),
    ),
    min_size=1,
    max_size=3,
)
"""What they send: new messages, with rising ids."""


@dataclass(slots=True)
class Shared:
    """The example that the parts share: its topic exists, and each part learns what the others did."""

    example: Performing
    noted: list[AnyOperation] = field(default_factory=list)
    producers: dict[str, str] = field(default_factory=dict)
    """The producer of each session."""
    are_replicated: bool = False
    """Whether subscriptions are replicated."""

    def do(self, operation: AnyOperation) -> None:
        """Perform and judge an operation of a part."""
        if isinstance(operation, CreateTopic) and operation.topic == TOPIC:
            return
        if isinstance(operation, Subscribe) and operation.durable:
            operation = structs.replace(operation, is_replicated=self.are_replicated)
        self.example.do(operation)
        self.noted.append(operation)
        if isinstance(operation, OpenProducer):
            self.producers[operation.session] = operation.producer

    def end(self) -> None:
        """The machine ends the example; a part does not."""

    @property
    def guide(self) -> Guide | None:
        """Counts the choices of the example."""
        return self.example.guide

    @property
    def libraries_for(self) -> Callable[[AnyOperation], tuple[str, ...]]:
        """Those of the example."""
        return self.example.libraries_for


class MixedMachine(LockstepMachine):
    """Machines of several documents on one topic."""

    given: ClassVar[Mapping[str, Any]] = {}
    """Further arguments that no part chooses."""
    killed_after: ClassVar[st.SearchStrategy[frozenset[int]]] = st.just(frozenset())
    """The steps of an example after which the broker is killed or restarted."""
    may_contend: ClassVar[bool] = True
    """Whether producers may contend for the topic: a replicator is a producer, too."""
    kills: frozenset[int] = frozenset()
    is_killed_next = False
    steps = 0
    is_trimmed = False

    def __init__(self, example: Performing) -> None:
        super().__init__(example)
        self.shared = Shared(example)
        self.parts: list[Part] = []
        self.acts: list[tuple[Part, Sequence[Rule]]] = []
        self.plan = DeduplicationPlan(mark="m")
        self.unsettled: tuple[OnTopics, set[str]] | None = None
        """The part that left writes which may still be stored, and their producers."""

    @initialize(
        data=st.data(),
        kinds=KINDS | CHUNKED_KINDS,
        switch=SWITCHES,
        persistence=st.none() | PERSISTENCE,
        is_trimmed=st.sampled_from([False, False, False, True]),
        is_deduplicated=st.booleans(),
    )
    def begin(
        self,
        data: st.DataObject,
        kinds: tuple[type[OnTopics] | None, type[OnSubscriptions] | None, type[OnKeys] | None],
        switch: Switch,
        persistence: Persistence | None,
        is_trimmed: bool,
        is_deduplicated: bool,
    ) -> None:
        """A topic, and machines on it, of whose rules each is on or off in this example."""
        self.kills = data.draw(self.killed_after)
        # Without a subscription there is nothing that keeps messages; only this part creates its own before it sends.
        keeps = kinds[2] is None and kinds[1] is not None and issubclass(kinds[1], AcknowledgmentMachine)
        self.is_trimmed = is_trimmed = is_trimmed and keeps and persistence is not None
        made = CreateTopic(TOPIC, switch, persistence=persistence, is_trimmed=is_trimmed)
        self.do(self.placed(made, data))
        if persistence is not None and is_deduplicated:
            self.do(SetDeduplication(topic=TOPIC, scope="topic", on=True))
        given = {
            "second": None,
            "timed": (True, False),
            "is_deduplicated": False,  # it was enabled already, or not
            "partitions": 0,
            "ends": False,
            "contends": kinds[0] is None and self.may_contend,
            "ages": (),  # others send messages that have none
            "is_trimmed": is_trimmed,
            "persistence": persistence or "shipped",
            **self.given,
        }
        for kind in kinds:
            if kind is not None:
                self.add(kind, data, given)

    def placed(self, made: CreateTopic, data: st.DataObject) -> CreateTopic:  # noqa: ARG002
        """The topic at this machine's cluster."""
        return made

    def add(self, kind: type[Part], data: st.DataObject, given: Mapping[str, Any]) -> None:
        """Add a machine on the topic; it does not choose what is ``given``."""
        part = kind(self.shared)
        if not isinstance(part, OnKeys):
            part.plan.mark = "d" if isinstance(part, OnTopics) else "a"
        self.parts.append(part)
        setup = kind.setup_state()
        for initializer in setup.initializers:
            self.act(part, initializer, data, given)
        rules = [one for one in setup.rules if data.draw(st.booleans())] or setup.rules
        self.acts.append((part, rules))

    def act(self, part: Part, chosen: Rule, data: st.DataObject, given: Mapping[str, Any]) -> None:
        """A part performs one of its rules; then the other parts learn whether their clients were disconnected."""
        arguments = {
            name: given[name] if name in given else data.draw(strategy)
            for name, strategy in chosen.arguments_strategies.items()
        }
        self.shared.noted.clear()
        chosen.function(part, **arguments)
        noted = list(self.shared.noted)
        for other in self.parts:
            if other is part:
                continue
            if any(isinstance(operation, UNLOADING) for operation in noted):
                other.disconnected()
            elif any(_closes_producers(operation) for operation in noted):
                other.producers_closed()
        if isinstance(part, OnTopics) and not self.is_trimmed:
            unawaited = [one.session for one in noted if isinstance(one, Send) and not one.wait]
            if unawaited or any(_closes_producers(operation) for operation in noted):
                self.unsettled = part, {self.shared.producers[session] for session in unawaited}
        if self.steps and self.kills and self.guide is not None and self.guide.lacks(KILL):
            self.is_killed_next = True
        if not self.is_killed_next:
            self.settle_writes()

    def settle_writes(self) -> None:
        """Wait for what the last rule left in flight."""
        if self.unsettled is not None:
            self.settle(*self.unsettled)
            self.unsettled = None

    def settle(self, part: OnTopics, producers: set[str]) -> None:
        """Read the log back once nothing is in flight, because subscriptions are judged by it.

        A producer that opens again shows that the broker has closed its former connection; an entry that is stored then
        shows that all earlier writes have ended.
        """
        for producer in sorted(producers):
            if not part.plan.is_taken(TOPIC, producer):
                self.do(OpenProducer(session="again", topic=TOPIC, producer=producer))
                self.do(CloseProducer(session="again"))
        session = PlannedSession("last", TOPIC, "last", "wire")
        self.do(OpenProducer(session=session.name, topic=TOPIC, producer=session.producer))
        self.do(Send(session=session.name, entries=self.plan.entries(session, [Pick()])))
        self.do(ReadLog(topic=TOPIC))

    @rule(data=st.data())
    def step(self, data: st.DataObject) -> None:
        """One of the parts performs one of its rules."""
        able = [
            (part, one) for part, rules in self.acts for one in rules if all(holds(part) for holds in one.preconditions)
        ]
        if not able:
            return
        self.steps += 1
        self.is_killed_next = self.steps in self.kills
        part, chosen = preferred(
            lambda: data.draw(st.sampled_from(able)), lambda drawn: name_of(type(drawn[0]), drawn[1]), self.guide
        )
        self.act(part, chosen, data, {})
        if self.is_killed_next:
            if self.guide is not None:
                self.guide.begins(KILL)
            self.kills = self.kills - {min(self.kills)}
            self.do(data.draw(st.sampled_from(IN_PLACE)))
            self.disconnected()
            self.settle_writes()

    def disconnected(self) -> None:
        """The topic was unloaded, which disconnected the clients of all parts."""
        for part in self.parts:
            part.disconnected()


class MixedKillsMachine(MixedMachine):
    """The mixed machine with kills and restarts of the broker, after any operation, also with messages in flight."""

    killed_after = st.sets(st.integers(1, 6), min_size=1, max_size=2).map(frozenset)


class MixedClustersMachine(MixedMachine):
    """The same where the topic is replicated to another cluster, and subscriptions are replicated or not.

    All parts are at the topic's home. In half of the examples producers at the other cluster send, too, and home has
    their messages between those of its own. Clusters write markers into its log meanwhile. Links between the clusters
    are cut, frozen or slow for some steps, or until the end. The broker at home is seldom killed.
    """

    given: ClassVar[Mapping[str, Any]] = {"delays": ()}
    may_contend = False
    killed_after = st.sampled_from([frozenset[int]()] * 19 + [frozenset({5})])

    def __init__(self, example: Performing) -> None:
        super().__init__(example)
        self.follows = False
        """Whether the other cluster follows a subscription of this machine."""
        self.consumer: str | None = None
        self.subscribed = 0
        self.publishes_there = False
        """Whether producers at the other cluster send, too."""
        self.remote: dict[str, PlannedSession] = {}
        self.opened_there = 0
        self.faults = 0
        """How many faults of links are still to be."""
        self.faulty: tuple[str, str] | None = None
        self.steps_left = 0
        """After how many steps the link heals."""

    def placed(self, made: CreateTopic, data: st.DataObject) -> CreateTopic:
        """The topic in two clusters."""
        self.shared.are_replicated = data.draw(st.sampled_from([True, True, True, False]))
        self.follows = data.draw(st.booleans()) and not made.is_trimmed
        self.faults = data.draw(st.sampled_from([0, 1, 2]))
        self.publishes_there = data.draw(st.booleans()) and not made.is_trimmed
        return structs.replace(made, clusters=2, home=HOME)

    def act(self, part: Part, chosen: Rule, data: st.DataObject, given: Mapping[str, Any]) -> None:
        """A part performs one of its rules."""
        self.steps_left -= 1
        super().act(part, chosen, data, given)
        if any(isinstance(operation, UNLOADING) for operation in self.shared.noted):
            self.consumer = None
        if self.follows and data.draw(st.booleans()):
            self.pass_on()

    def pass_on(self) -> None:
        """A consumer receives and acknowledges everything. The snapshots since the last time are before these messages,
        so an update has one of them, and the other cluster follows."""
        if self.consumer is None:
            self.subscribed += 1
            self.consumer = f"followed{self.subscribed}"
            self.shared.do(Subscribe(self.consumer, TOPIC, "followed", kind="Exclusive"))
        self.shared.do(Receive(self.consumer, 100))
        self.shared.do(Acknowledge(self.consumer, (-1,), cumulative=True))

    def disconnected(self) -> None:
        """The topic was unloaded, which also disconnected this machine's own consumer."""
        super().disconnected()
        self.consumer = None

    @precondition(lambda self: self.publishes_there)
    @rule(producer=REMOTE_PRODUCERS, picks=REMOTE_PICKS, leaves=st.sampled_from(["no", "no", "closes", "crashes"]))
    def publish_there(self, producer: str, picks: list[tuple[Pick, str | None]], leaves: str) -> None:
        """A producer at the other cluster sends messages; then the machine reads the home cluster's log back.

        They come over a link without a fault: while they may be stored at any time, no subscription can be judged.
        """
        if self.faulty == (AWAY, HOME):
            self.heal_link()
        if producer not in self.remote:
            self.opened_there += 1
            session = PlannedSession(f"there{self.opened_there}", TOPIC, producer, "wire")
            self.remote[producer] = session
            self.do(OpenProducer(session.name, TOPIC, producer, cluster=AWAY))
        session = self.remote[producer]
        entries = self.plan.entries(session, [pick for pick, _ in picks])
        keyed = (with_key(entry, key) for entry, (_, key) in zip(entries, picks, strict=True))
        self.do(Send(session.name, tuple(keyed)))
        self.do(ReadLog(TOPIC, cluster=HOME))
        if leaves != "no":
            self.do(CloseProducer(session.name) if leaves == "closes" else CrashProducer(session.name))
            del self.remote[producer]

    @precondition(lambda self: self.faults and self.faulty is None)
    @rule(link=LINKS, fault=LINK_FAULTS, steps=st.integers(1, 4))
    def disturb_link(self, link: tuple[str, str], fault: Callable[[str, str], LinkOperation], steps: int) -> None:
        """Cut, freeze or slow down a link in one direction."""
        self.faults, self.faulty, self.steps_left = self.faults - 1, link, steps
        self.do(fault(*link))

    @precondition(lambda self: self.faulty is not None and self.steps_left <= 0)
    @rule()
    def heal_link(self) -> None:
        """The link is as it was. If it was cut, its replicator reconnects when it retries."""
        if self.faulty is not None:
            self.do(HealLink(*self.faulty))
            self.do(ReleaseLink(*self.faulty))
            self.faulty = None


def with_key(entry: Entry, key: str | None) -> Entry:
    """An entry whose messages have a key."""
    return Entry(tuple(structs.replace(message, key=key) for message in entry.messages))


def _closes_producers(operation: AnyOperation) -> bool:
    """Whether the broker, or the network, may have closed producers of the topic because of an operation."""
    is_failure = isinstance(operation, SetFailpoint) and operation.kind in WRITE_FAILURES
    return is_failure or isinstance(operation, InjectNetworkFault | AwaitProducers)
