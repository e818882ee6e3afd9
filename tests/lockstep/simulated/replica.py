"""The other cluster of topics that are replicated from home, and the links between the two."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from model.cluster_events import LinkCut, LinkHealed
from model.cluster_operations import CutLink, HealLink, HoldLink, LinkOperation, ReleaseLink, SlowLink
from model.events import AllReceived, AnyOutcome, Delivery, Done, LoggedEntry, LogRead, Opened, Sent, Skipped, Stored
from model.log import EARLIEST, Position
from model.operations import CloseProducer, CrashProducer, CreateTopic, OpenProducer, Send
from model.subscription_operations import ReceiveAll
from model.vocabulary import Entry

Log = list[LoggedEntry]
Replicate = Callable[[Log], Log]
"""What the other cluster has of a log."""


def as_it_is(log: Log) -> Log:
    return log


REMOTE_LEDGER: Final = 1_000_000
"""The ledger of what was published at the other cluster."""
UPDATES = 0.5
"""How often an update follows when mark-delete has advanced."""


@dataclass(slots=True)
class RemoteSession:
    """A session of a producer at the other cluster."""

    topic: str
    producer: str


class SimulatedReplica:
    """Replicates with ``replicate`` when it is read, and to home with ``replicate_home``.

    Subscriptions follow with some of the updates, which acknowledge ``updates_skip`` entries too many.
    After a replicator has reconnected, it may have sent again what was in flight, unless the topic is deduplicated.
    """

    def __init__(
        self, chance: random.Random, replicate: Replicate, updates_skip: int, replicate_home: Replicate = as_it_is
    ) -> None:
        self._chance = chance
        self._replicate = replicate
        self._replicate_home = replicate_home
        self._sessions: dict[str, RemoteSession] = {}
        self._published: dict[str, Log] = {}
        self._in_flight: dict[str, Log] = {}
        self._updates_skip = updates_skip
        self._passed: dict[tuple[str, str], Position] = {}
        self._deduplicated: set[str] = set()
        self._has_reconnected = False
        self._cut: set[tuple[str, str]] = set()

    def create(self, operation: CreateTopic) -> None:
        """A topic is created, in a namespace that has the same policy in both clusters."""
        if operation.persistence is None and operation.deduplication in (
            "broker",
            "namespace-on",
            "topic-off",
            "own-namespace-on",
        ):
            self._deduplicated.add(operation.topic)

    def has(self, session: str | None) -> bool:
        """Whether a producer at the other cluster has this session."""
        return session in self._sessions

    def perform(self, operation: OpenProducer | Send | CloseProducer | CrashProducer) -> AnyOutcome:
        """What a producer at the other cluster does."""
        match operation:
            case OpenProducer(session, topic, producer):
                self._sessions[session] = RemoteSession(topic, producer)
                return Opened(-1)
            case Send(session, entries):
                return self._send(self._sessions[session], entries)
            case CloseProducer(session) | CrashProducer(session):
                del self._sessions[session]
                return Done()

    def _send(self, session: RemoteSession, entries: Sequence[Entry]) -> Sent:
        log = self._published.setdefault(session.topic, [])
        first = len(log)
        log += (
            LoggedEntry(Position(REMOTE_LEDGER, number), session.producer, entry)
            for number, entry in enumerate(entries, start=first)
        )
        self._in_flight.setdefault(session.topic, []).extend(log[first:])
        return Sent(tuple(Stored(one.position) for one in log[first:]))

    def arriving(self, topic: str) -> Log:
        """What the replicator to home sends now, of the other cluster's producers."""
        return self._replicate_home(self._in_flight.pop(topic, []))

    def update(self, mark_deletes: Iterable[tuple[tuple[str, str], Position]]) -> None:
        """Subscriptions at home are at these positions, which some updates have."""
        for key, position in mark_deletes:
            if position > self._passed.get(key, EARLIEST) and self._chance.random() < UPDATES:
                self._passed[key] = position

    def fail_over(self, operation: ReceiveAll, log: Log) -> AllReceived | Skipped:
        passed = self._passed.get((operation.topic, operation.subscription))
        if passed is None:
            return Skipped("the other cluster has no such subscription")
        left = [logged for logged in log if logged.position > passed][self._updates_skip :]
        published = list(self._published.get(operation.topic, ()))
        producers = {one.producer for one in published}
        there = {one.position: one for one in log}
        own = [one for one in log if one.producer in producers]
        there |= {mine.position: one for mine, one in zip(own, published, strict=False)}
        return AllReceived(tuple(given for logged in left for given in _dispatched(there[logged.position])))

    def reconnect(self) -> None:
        """The replicators reconnect."""
        self._has_reconnected = True

    def change_link(self, operation: LinkOperation) -> AnyOutcome:
        link = (operation.source, operation.target)
        match operation:
            case CutLink() if link in self._cut:
                return Skipped("the link is cut already")
            case CutLink():
                self._cut.add(link)
                self.reconnect()
                return LinkCut(0)
            case HealLink() if link not in self._cut:
                return Skipped("the link is not cut")
            case HealLink():
                self._cut.remove(link)
                return LinkHealed(0)
            case HoldLink() | SlowLink() | ReleaseLink():
                return Skipped("the link is cut") if link in self._cut else Done()

    def read_log(self, topic: str, log: Log) -> LogRead:
        is_deduplicated = topic in self._deduplicated
        published = list(self._published.get(topic, ()))
        producers = {one.producer for one in published}
        replicated = self._replicate([one for one in log if one.producer not in producers])
        if self._has_reconnected and not is_deduplicated:
            replicated = self._repeated(replicated)
        self._cut.clear()
        for one in published:  # each among the others, in this order
            there = max((n + 1 for n, other in enumerate(replicated) if other.producer in producers), default=0)
            replicated.insert(self._chance.randint(there, len(replicated)), one)
        return LogRead(tuple(replicated), is_deduplicated=is_deduplicated, has_reconnected=self._has_reconnected)

    def _repeated(self, log: Log) -> Log:
        """Some time on the way, the replicator sent everything from an earlier entry on."""
        sent = self._chance.randint(0, len(log))
        return log[:sent] + log[self._chance.randint(0, sent) :]


def _dispatched(logged: LoggedEntry) -> Iterator[Delivery]:
    for index, message in enumerate(logged.entry.messages):
        yield Delivery(logged.position, index if logged.entry.is_batch else -1, 0, message.business_id)
