"""A broker made of reference topics, that does its work in any order in which a real one might.

Nothing in it happens by itself: :meth:`SimulatedBroker.work` takes one possible next step, chosen by its random number
generator. So a run repeats from its seed. It knows what is in flight on each connection;
:mod:`tests.lockstep.simulated.world` is the clients' side.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from msgspec.structs import replace

from model.deduplication import reference
from model.deduplication.reference import NOT_READY, WRITE_FAILED, Topic
from model.deduplication.variants import DOCUMENT, Variant
from model.events import Answer, Opened, Refused, Stored
from model.failpoints import FailpointKind
from model.vocabulary import Entry

WRITE_FAILURES: tuple[FailpointKind, ...] = ("write-fails", "write-fails-late")
LEDGER_ROOM = 5
"""Entries in a ledger, as on the brokers that the suite starts."""
PATIENCE = 10_000
"""How many steps may pass before a condition that must become true is given up: far more than any example needs."""


@dataclass(frozen=True, slots=True)
class Purging:
    """After how long a broker forgets inactive producers, and the defects of that.

    ``spares_connected``: it does not forget producers that are connected. ``notices_return``: a producer that opens
    again is active.
    """

    timeout_min: int = 360
    spares_connected: bool = True
    notices_return: bool = True


PURGING_AS_DOCUMENTED = Purging()


@dataclass(slots=True)
class Connection:
    """A producer's connection: the commands that the broker has not read yet, and the answers it sent.

    ``arrived``: this many first answers can no longer be lost. ``is_cut``: its client is gone, and the broker does not
    know yet. ``is_closed``: the broker has closed it.
    """

    name: str
    topic: str
    unread: deque[Entry] = field(default_factory=deque)
    told: list[tuple[Entry, Answer]] = field(default_factory=list)
    arrived: int = 0
    awaited: int = 0
    is_cut: bool = False
    is_closed: bool = False

    @property
    def is_answered(self) -> bool:
        """Whether no more answers will arrive: all arrived, or the connection is closed."""
        return self.is_closed or len(self.told) >= self.awaited


@dataclass(slots=True)
class Hosted:
    """A topic in its broker: its state, and for each write in flight whether it will fail."""

    topic: Topic
    dooms: deque[bool] = field(default_factory=deque)
    has_policy: bool = False
    has_markers: bool = False
    inactive_min: Counter[str] = field(default_factory=Counter)
    """How long its disconnected producers are inactive."""
    is_behind: bool = False
    """Its recovery still runs while the topic serves clients already."""

    @property
    def forgettable(self) -> list[str]:
        """The disconnected producers, if the broker forgets those."""
        if not self.topic.variant.inactive_forgotten:
            return []
        here = dict(self.topic.sessions).values()
        return [producer for producer in self.topic.persisted.producers if producer not in here]

    @property
    def may_reach(self) -> int:
        """How many of the writes in flight can still reach the log."""
        sound = next((n for n, is_doomed in enumerate(self.dooms) if is_doomed), len(self.dooms))
        return min(sound, reference.may_reach(self.topic))


@dataclass(slots=True)
class Armed:
    """A failpoint that is on: how many occasions it spares, and how many fail then."""

    spared: int
    left: int


class SimulatedBroker:
    """The topics, the connections, the failpoints, and the possible next steps.

    ``recovery_races``: topics with their own policy serve clients before they have recovered.
    """

    def __init__(
        self,
        chance: random.Random,
        *,
        variant: Variant = DOCUMENT,
        recovery_races: bool = False,
        snapshot_room: int = 5,
        takes_snapshots: bool = True,
        purging: Purging = PURGING_AS_DOCUMENTED,
    ) -> None:
        self._purging = purging
        self.snapshot_room = snapshot_room
        self._takes_snapshots = takes_snapshots
        self._chance = chance
        self._variant = variant
        self._recovery_races = recovery_races
        self._topics: dict[str, Hosted] = {}
        self._connections: list[Connection] = []
        self._armed: dict[tuple[str, FailpointKind], Armed] = {}
        self._fired: Counter[tuple[str, FailpointKind]] = Counter()
        self._opened = 0
        # Some brokers write slowly, some read slowly, some take snapshots all the time.
        self._reads, self._writes, self._snapshots = (chance.choice((0.2, 1.0, 4.0)) for _ in range(3))

    # ---------------------------------------------------------------------------------------- requests of clients

    def create(self, topic: str, *, deduplication: bool, has_policy: bool, has_markers: bool = False) -> None:
        """A new topic; it may have its own policy, and clusters may write markers into its log."""
        fresh = reference.new_topic(
            deduplication=deduplication,
            entries_per_ledger=LEDGER_ROOM,
            max_producers=self.snapshot_room,
            variant=self._variant,
        )
        self._topics[topic] = Hosted(fresh, has_policy=has_policy, has_markers=has_markers)

    def topic(self, name: str) -> Topic:
        """The topic as it is now."""
        return self._topics[name].topic

    def open(self, topic: str, producer: str) -> tuple[Connection, Opened] | Refused:
        """Open a producer on a new connection, or refuse it."""
        hosted = self._topics[topic]
        if not self._variant.pushed_id_in_producer_success and any(
            w.producer == producer for w in hosted.topic.in_flight
        ):
            return Refused(NOT_READY, "writes of this producer are in flight")
        self._opened += 1
        connection = Connection(f"c{self._opened}", topic)
        hosted.topic, answer = reference.open_producer(hosted.topic, connection.name, producer)
        if isinstance(answer, Refused):
            return answer
        if self._purging.notices_return:
            hosted.inactive_min.pop(producer, None)
        self._connections.append(connection)
        return connection, answer

    def send(self, connection: Connection, entries: Sequence[Entry]) -> None:
        """Send entries to the broker."""
        connection.awaited += len(entries)
        if not connection.is_closed:
            connection.unread.extend(entries)

    def switch(self, topic: str, *, on: bool, by_its_own_policy: bool) -> None:
        """Switch deduplication of a topic; meanwhile only entries of open connections may be in flight."""
        hosted = self._topics[topic]
        hosted.has_policy = hosted.has_policy or by_its_own_policy
        self.work_until(lambda: not self._is_haunted(topic))
        hosted.topic = reference.switch_deduplication(hosted.topic, on=on)

    def _is_haunted(self, topic: str) -> bool:
        """Whether anything is in flight for which nobody waits."""
        in_flight = self._topics[topic].topic.in_flight
        return any(write.session is None for write in in_flight) or any(
            connection.topic == topic and connection.is_cut for connection in self._connections
        )

    def arm(self, topic: str, kind: FailpointKind, *, count: int, spared: int) -> None:
        """The next ``count`` occasions fail, after the spared ones."""
        self._armed[topic, kind] = Armed(spared, count)
        self._fired[topic, kind] += 0

    def disarm(self) -> dict[tuple[str, FailpointKind], int]:
        """Stop all failpoints, and return how often each fired."""
        fired = dict(self._fired)
        self._armed.clear()
        self._fired.clear()
        return fired

    def fires(self, topic: str, kind: FailpointKind) -> bool:
        """Whether a failpoint takes effect on this occasion."""
        armed = self._armed.get((topic, kind))
        if armed is None or not armed.left:
            return False
        if armed.spared:
            armed.spared -= 1
            return False
        armed.left -= 1
        self._fired[topic, kind] += 1
        return True

    # ------------------------------------------------------------------------------------------------- next steps

    def work(self) -> bool:
        """Take one of the possible next steps; False if there is none."""
        todo = self._todo()
        if not todo:
            return False
        (act,) = self._chance.choices([act for _, act in todo], [weight for weight, _ in todo])
        act()
        return True

    def drift(self) -> None:
        """Let some time pass."""
        for _ in range(self._chance.choice((0, 0, 1, 3, 10))):
            self.work()

    def work_until(self, good: Callable[[], bool]) -> None:
        """Work until a condition is true, which must become true in the end."""
        for _ in range(PATIENCE):
            if good():
                return
            self.work()
        raise AssertionError("what should come in the simulated broker does not come")

    def _todo(self) -> list[tuple[float, Callable[[], None]]]:
        todo: list[tuple[float, Callable[[], None]]] = []
        for connection in self._connections:
            if connection.unread:
                todo.append((self._reads, partial(self._read, connection)))
            if connection.is_cut:
                todo.append((1.0, partial(self._notice, connection)))
        for name, hosted in self._topics.items():
            if hosted.topic.in_flight:
                todo.append((self._writes, partial(self._finish_write, name)))
            for producer in hosted.forgettable:
                todo.append((0.1, partial(self._forget, hosted, producer)))
            if hosted.is_behind:
                todo.append((1.0, partial(self._catch_up, hosted)))
            if hosted.topic.snapshot is not None and self._takes_snapshots:
                todo.append((0.2 * self._snapshots, partial(self._take_snapshot, name)))
        return todo

    def _read(self, connection: Connection) -> None:
        hosted = self._topics[connection.topic]
        before = len(hosted.topic.in_flight)
        hosted.topic, told = reference.send(hosted.topic, connection.name, connection.unread.popleft())
        if len(hosted.topic.in_flight) > before:
            hosted.dooms.append(any(self.fires(connection.topic, kind) for kind in WRITE_FAILURES))
        self._tell(told)

    def _tell(self, told: reference.SessionAnswers, *, for_certain: bool = False) -> None:
        for message in told:
            for connection in self._connections:
                if connection.name == message.session:
                    connection.told.append((message.entry, message.answer))
                    connection.arrived = len(connection.told) if for_certain else connection.arrived

    def _finish_write(self, name: str) -> None:
        hosted = self._topics[name]
        while hosted.has_markers and self._chance.random() < 0.4:
            hosted.topic = replace(hosted.topic, ledgers=hosted.topic.ledgers.after_append())
        fails = hosted.dooms.popleft() or (hosted.topic.failing and not hosted.topic.variant.later_writes_succeed)
        is_overtaken = not fails and self._is_overtaken_by_a_snapshot(hosted)
        finish = reference.fail_next_write if fails else reference.complete_next_write
        if is_overtaken:
            finish = reference.complete_next_write_during_snapshot
        hosted.topic, told = finish(hosted.topic)
        if any(isinstance(t.answer, Stored) for t in told) and self.fires(name, "confirmation-lost"):
            for connection in [c for c in self._connections if c.name == told[0].session]:
                self.lose(connection)
        else:
            self._tell(told, for_certain=is_overtaken)
        self._close_disconnected(name)

    def _is_overtaken_by_a_snapshot(self, hosted: Hosted) -> bool:
        """Whether a snapshot is taken between a write and the raising of persisted, if the ledger is full after it.

        Only if its producer is connected: the observer cannot judge an entry whose outcome nobody learned.
        """
        if not hosted.topic.variant.snapshot_position_ahead or hosted.topic.snapshot is None:
            return False
        is_last = hosted.topic.ledgers.next_position.entry + 1 == LEDGER_ROOM
        return is_last and hosted.topic.in_flight[0].session is not None and self._chance.random() < 0.5

    def purge(self, name: str, minutes: int) -> None:
        """So many minutes pass for deduplication; then it forgets inactive producers, and takes a snapshot, or not."""
        hosted = self._topics[name]
        connected = set(dict(hosted.topic.sessions).values()) if self._purging.spares_connected else set()
        for producer in hosted.topic.persisted.producers:
            if producer in connected:
                continue
            hosted.inactive_min[producer] += minutes
            if hosted.inactive_min[producer] > self._purging.timeout_min:
                snapshot = hosted.topic.snapshot
                self._forget(hosted, producer)
                if self._chance.random() < 0.3:
                    hosted.topic = replace(hosted.topic, snapshot=snapshot)

    def _forget(self, hosted: Hosted, producer: str) -> None:
        hosted.topic = reference.forget_producer(hosted.topic, producer)

    def take_due_snapshot(self, name: str) -> None:
        """Take a snapshot when nothing of the topic is in flight, unless the broker takes none or it is to fail."""
        self.work_until(lambda: not self._topics[name].topic.in_flight)
        if self._topics[name].topic.snapshot is not None and self._takes_snapshots:
            self._take_snapshot(name)

    def _take_snapshot(self, name: str) -> None:
        hosted = self._topics[name]
        if self.fires(name, "snapshot-write-fails"):
            hosted.topic = reference.fail_snapshot(hosted.topic)
            return
        room = reference.snapshot_room(hosted.topic)
        kept = self._chance.sample(reference.to_snapshot(hosted.topic).producers, room)
        hosted.topic = reference.take_snapshot(hosted.topic, kept)

    # ---------------------------------------------------------------------------------------- ends of connections

    def cut(self, connection: Connection) -> None:
        """Its client resets it: answers in flight are lost, and the broker may read some of the remaining commands."""
        self._lose_answers(connection)
        connection.is_cut = not connection.is_closed

    def close(self, connection: Connection) -> None:
        """Its client, which has all awaited answers, closes it gracefully."""
        if not connection.is_closed:
            self.lose(connection)

    def _notice(self, connection: Connection) -> None:
        self._end(connection)
        hosted = self._topics[connection.topic]
        hosted.topic = reference.cut(hosted.topic, connection.name)

    def lose(self, connection: Connection) -> None:
        """The connection is gone at once; any of the answers may have arrived."""
        self._lose_answers(connection)
        self._notice(connection)

    def _lose_answers(self, connection: Connection) -> None:
        arrived = self._chance.choice((0.0, 0.5, 1.0))
        connection.told = [
            told for n, told in enumerate(connection.told) if n < connection.arrived or self._chance.random() < arrived
        ]

    def _end(self, connection: Connection) -> None:
        connection.unread.clear()
        connection.is_closed, connection.is_cut = True, False
        self._connections.remove(connection)

    def _close_disconnected(self, topic: str) -> None:
        """The topic disconnected some of its producers: all their earlier answers arrive."""
        there = dict(self._topics[topic].topic.sessions)
        for connection in [c for c in self._connections if c.topic == topic and c.name not in there]:
            self._end(connection)

    # --------------------------------------------------------------------------------------------------- unloads

    def unload(self, name: str) -> None:
        """Unload a topic: some writes in flight complete first, the others fail or are lost."""
        hosted = self._topics[name]
        for connection in [c for c in self._connections if c.topic == name]:
            while connection.unread and self._chance.random() < 0.5:
                connection.told.append((connection.unread.popleft(), Refused(NOT_READY, "the topic is being closed")))
        for _ in range(self._chance.randint(0, hosted.may_reach)):
            self._finish_write(name)
        reached = self._chance.randint(0, hosted.may_reach)
        for write in hosted.topic.in_flight[reached:]:
            for connection in self._connections:
                if connection.name == write.session and self._chance.random() < 0.5:
                    connection.told.append((write.entry, Refused(WRITE_FAILED)))
        self._recover(hosted, reached)
        self._close_disconnected(name)

    def terminate(self, name: str) -> None:
        """Terminate a topic: some writes in flight complete first, the others fail, and its producers are closed."""
        hosted = self._topics[name]
        for _ in range(self._chance.randint(0, hosted.may_reach)):
            self._finish_write(name)
        for write in hosted.topic.in_flight:
            for connection in self._connections:
                if connection.name == write.session and self._chance.random() < 0.5:
                    connection.told.append((write.entry, Refused(WRITE_FAILED)))
        hosted.topic = replace(hosted.topic, in_flight=(), sessions=())
        hosted.dooms.clear()
        self._close_disconnected(name)

    def kill(self) -> None:
        """The process is killed and started again, without its failpoints."""
        for connection in list(self._connections):
            self._lose_answers(connection)
            self._end(connection)
        for hosted in self._topics.values():
            self._recover(hosted, self._chance.randint(0, hosted.may_reach))
        self._armed.clear()
        self._fired.clear()

    def restart(self) -> None:
        """The process ends gracefully and is started again."""
        for name in self._topics:
            self.unload(name)
        self.kill()

    def _recover(self, hosted: Hosted, reached: int) -> None:
        hosted.topic = reference.recover(reference.crash(hosted.topic, reached=reached))
        hosted.dooms.clear()
        hosted.is_behind = self._recovery_races and hosted.has_policy and self._chance.random() < 0.5
        snapshot = hosted.topic.snapshot
        if hosted.is_behind and snapshot is not None:
            replayed = self._chance.randint(0, len(reference.to_replay(hosted.topic, snapshot)))
            known = reference.replayed(
                hosted.topic, snapshot.highest, reference.to_replay(hosted.topic, snapshot)[:replayed]
            )
            hosted.topic = replace(hosted.topic, pushed=known, persisted=known)

    def _catch_up(self, hosted: Hosted) -> None:
        """The recovery ends: the ids that it found in the log are known at last."""
        hosted.is_behind = False
        pushed, persisted = hosted.topic.pushed, hosted.topic.persisted
        for producer, highest in reference.recovered_ids(hosted.topic).ids:
            pushed, persisted = pushed.raised(producer, highest), persisted.raised(producer, highest)
        hosted.topic = replace(hosted.topic, pushed=pushed, persisted=persisted)
