"""A performer on reference topics: the machines run on it without a broker.

It does what :class:`conformance.lockstep.real.RealPerformer` does, and waits and skips in the same cases, so that a
history means the same on both. Both kinds of client are treated alike, except that a session of pulsar-client
reconnects by itself, and sends batches without highest id if so configured.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, assert_never

import msgspec

from conformance.lockstep.performer import Performed
from model.administrator_operations import AdministratorRequest, ClearBacklog
from model.cluster_operations import HOME, LinkOperation, ReplicationOperation
from model.deduplication.answers import could_be_for
from model.deduplication.producer_state import NONE
from model.deduplication.reference import BUSY
from model.deduplication.variants import DOCUMENT, Variant
from model.events import (
    Answer,
    AnyOutcome,
    BookiesLeft,
    Cleared,
    DeduplicationSet,
    Done,
    Duplicate,
    Fired,
    Late,
    LoggedEntry,
    LogRead,
    NetworkFaultsCleared,
    Opened,
    PowerFailed,
    Refused,
    Sent,
    Skipped,
    SnapshotRead,
    Stored,
    TakenOver,
    Unknown,
)
from model.expiry_operations import ExpiryRequest
from model.hole_operations import HoleOperation
from model.key_shared.variants import DOCUMENT as KEYS_AS_DOCUMENTED
from model.key_shared.variants import KeysVariant
from model.log import Position
from model.operations import (
    AcknowledgeAtFrozen,
    AnyOperation,
    ApplicationOperation,
    ClearFailpoints,
    ClearNetworkFaults,
    CloseProducer,
    CrashProducer,
    CreateTopic,
    CursorOperation,
    DisturbMetadataStore,
    FreezeOwner,
    InjectNetworkFault,
    Kill,
    LoseBookie,
    NetworkOperation,
    OfTwo,
    OpenProducer,
    ReadChunkRate,
    ReadLog,
    ReadSnapshot,
    Restart,
    RestoreBookies,
    Send,
    SendToFrozen,
    SetDeduplication,
    SetFailpoint,
    TakeOver,
    Terminate,
    ThawOwners,
    Unload,
    UseProxy,
)
from model.policy_operations import PolicyRequest
from model.producer_operations import (
    Activated,
    AwaitProducers,
    ProducersPurged,
    ProducersRead,
    PurgeProducers,
    Queued,
)
from model.read_operations import AnalyzeBacklog, ReadRequest
from model.reader_operations import ReaderOperation
from model.service.unexpected import Closed
from model.subscription_operations import (
    CreateSubscription,
    DeleteSubscription,
    KeyOperation,
    ReceiveAll,
    SkipAll,
    Subscribe,
)
from model.vocabulary import Client, Entry, Persistence, SnapshotSchedule, partition_name
from tests.lockstep.simulated.broker import PURGING_AS_DOCUMENTED, Connection, Purging, SimulatedBroker
from tests.lockstep.simulated.contenders import SimulatedAccess
from tests.lockstep.simulated.cursors import SimulatedCursors
from tests.lockstep.simulated.policies import AS_DOCUMENTED as POLICIES_AS_DOCUMENTED
from tests.lockstep.simulated.policies import PoliciesVariant, SimulatedPolicies
from tests.lockstep.simulated.reads import perform_read
from tests.lockstep.simulated.replica import Replicate, SimulatedReplica, as_it_is
from tests.lockstep.simulated.subscription import Clock
from tests.lockstep.simulated.variants import AS_DOCUMENTED, SimulatedVariant

ProducerAccount = Literal["highest", "lowest", "latest"]
"""What producers take for their last sequence id: the highest that was confirmed; of a batch, the lowest; or, with
pulsar-client, the latest, as if the ids of a batch were consecutive."""
MOMENTS_S = (0.0005, 0.001, 0.005)
"""How long an operation takes before and after it takes effect."""
START_S = 4.0
"""How long a broker takes to start."""
SNAPSHOT_ENTRIES, SNAPSHOT_PERIOD_S = 5, 2.0
"""When a deduplication snapshot is due, as on the brokers that the suite starts."""
BEFORE_THE_FIRST = Position(0, -1)
"""The position of a cursor at the beginning."""


class BatchWithoutHighestId(Entry, frozen=True):
    """A batch without highest id, as pulsar-client sends it: the broker can only count the lowest."""

    @property
    def highest(self) -> int:
        """The highest sequence id that the broker knows of."""
        return self.lowest


@dataclass(slots=True)
class Session:
    """A producer session: its connection, its last sequence id, and the sends whose answers it has not collected."""

    topic: str
    producer: str
    client: Client
    connection: Connection
    last_sequence_id: int
    sends: list[Sequence[Entry]] = field(default_factory=list)
    is_reported: bool = False
    """Its closing was reported."""


WIDE: Final = (Unload, SkipAll, DeleteSubscription, ClearBacklog)
"""Requests that may be for a namespace."""


@dataclass(slots=True)
class Policies:
    """Where deduplication of a topic can be switched, and the topic's own policy, if it has one."""

    has_own_namespace: bool
    of_topic: bool | None = None
    are_of_broker: bool = False


class SimulatedPerformer:
    """Performs the operations of one example on a broker of reference topics."""

    def __init__(
        self,
        chance: random.Random,
        *,
        variant: Variant = DOCUMENT,
        recovery_races: bool = False,
        ends_of_batches: bool = True,
        heeds_settings: bool = True,
        snapshot_room: int = 5,
        takes_snapshots: bool = True,
        purging: Purging = PURGING_AS_DOCUMENTED,
        account: ProducerAccount = "highest",
        cursors: SimulatedVariant = AS_DOCUMENTED,
        keys: KeysVariant = KEYS_AS_DOCUMENTED,
        replicate: Replicate = as_it_is,
        updates_skip: int = 0,
        replicate_home: Replicate = as_it_is,
        policies: PoliciesVariant = POLICIES_AS_DOCUMENTED,
        unread_release: OfTwo | None = None,
    ) -> None:
        """``unread_release``: what its brokers store when they close a topic is not read by those of the other one."""
        self.clock = Clock()
        self.broker = SimulatedBroker(
            chance,
            variant=variant,
            recovery_races=recovery_races,
            snapshot_room=snapshot_room,
            takes_snapshots=takes_snapshots,
            purging=purging,
        )
        self._account = account
        self._replica = SimulatedReplica(chance, replicate, updates_skip, replicate_home)
        self._chance = chance
        self._cursors = SimulatedCursors(chance, self.clock, cursors, keys, fires=self.broker.fires)
        self._ends_of_batches = ends_of_batches
        self._heeds_settings = heeds_settings
        self._policies: dict[str, Policies] = {}
        self._broker_default = True
        self._sessions: dict[str, Session] = {}
        self._access = SimulatedAccess()
        self._limits = SimulatedPolicies(policies)
        self._disturbed: set[str] = set()
        self._release: OfTwo = "older"
        """That of the broker that owns the topics."""
        self._unread_release = unread_release

    def perform(self, operation: AnyOperation) -> Performed:
        """Perform one operation, and return its outcome."""
        self.broker.drift()
        self.clock.advance(self._chance.choice(MOMENTS_S))
        performed = self._perform(operation)
        for name in self._cursors.topics:
            topic = self.broker.topic(name)
            self._cursors.learn(name, topic.log, topic.ledgers)
        self._replica.update(self._cursors.mark_deletes())
        self.clock.advance(self._chance.choice(MOMENTS_S))
        return performed._replace(unexpected=tuple(self._closed()))

    def _closed(self) -> Iterator[Closed]:
        """The sessions of the wire client that the broker has closed, each once."""
        for name, session in self._sessions.items():
            if session.client == "wire" and session.connection.is_closed and not session.is_reported:
                session.is_reported = True
                yield Closed(name, "the broker closed the producer", session.topic)

    def _perform(self, operation: AnyOperation) -> Performed:
        if isinstance(operation, ReadRequest):
            return Performed(self._read(operation), self._collect(list(self._sessions)))
        if isinstance(operation, ExpiryRequest | PolicyRequest | ReaderOperation | HoleOperation):
            return Performed(self._requested(operation), self._collect(list(self._sessions)))
        if isinstance(operation, ApplicationOperation):
            return Performed(Skipped("there are no applications here"))
        if isinstance(operation, KeyOperation):
            return Performed(self._cursors.keys.perform(operation), self._collect(list(self._sessions)))
        if isinstance(operation, LinkOperation):
            return Performed(self._replica.change_link(operation))
        if isinstance(operation, ReceiveAll) and operation.cluster is not None:
            log = [_plain(logged) for logged in self.broker.topic(operation.topic).log]
            return Performed(self._replica.fail_over(operation, log))
        if isinstance(operation, ReplicationOperation):
            return Performed(Skipped("there is one cluster here"))
        if isinstance(operation, NetworkOperation):
            return Performed(self._on_network(operation))
        if isinstance(operation, Terminate) and operation.topic in self._cursors.topics:
            self.broker.terminate(operation.topic)
            ended = self.broker.topic(operation.topic)
            self._cursors.learn(operation.topic, ended.log, ended.ledgers)
        if self._is_for_shared_namespace(operation):
            return Performed(Skipped("the topic shares its namespace"))
        if isinstance(operation, CursorOperation | AdministratorRequest):
            late = self._collect(list(self._sessions))
            return Performed(self._refused(operation) or self._cursors.perform(operation), late)
        if isinstance(operation, OpenProducer | Send | CloseProducer | CrashProducer) and (
            operation.cluster is not None or self._replica.has(operation.actor)
        ):
            return Performed(self._replica.perform(operation))
        match operation:
            case ReadChunkRate() | CreateTopic(is_chunked=True):
                return Performed(Skipped("chunks are not simulated"))
            case CreateTopic():
                return self._create_topic(operation)
            case OpenProducer():
                return self._open(operation)
            case AwaitProducers(topic):
                return self._await_producers(topic)
            case CloseProducer(session) | CrashProducer(session) if self._access.left(session):
                return Performed(Done())
            case CloseProducer(session) | CrashProducer(session) if session not in self._sessions:
                return Performed(Skipped("there is no such session"))
            case CloseProducer(session):
                return self._close(session)
            case CrashProducer(session):
                return self._crash(session)
            case Send(session):
                return self._send(operation) if session in self._sessions else Performed(Skipped("no such session"))
            case Restart() | Kill():
                return self._bounce(operation)
            case TakeOver():
                return self._take_over(operation)
            case FreezeOwner() | SendToFrozen() | AcknowledgeAtFrozen() | ThawOwners():
                return Performed(Skipped("no process is frozen here"))
            case DisturbMetadataStore():
                return Performed(Done())
            case LoseBookie():
                return Performed(BookiesLeft(2))
            case RestoreBookies():
                return Performed(BookiesLeft(3))
            case ClearFailpoints():
                return self._clear_failpoints()
            case _ if operation.topic not in self._policies:
                return Performed(Skipped("there is no such topic"))
            case _:
                return self._on_topic(operation)

    def _is_for_shared_namespace(self, operation: AnyOperation) -> bool:
        """Whether a request is for the namespace of a topic that shares it."""
        policies = self._policies.get(operation.topic or "")
        default = "namespace" if isinstance(operation, ClearBacklog) else "topic"
        scope = getattr(operation, "scope", default) if isinstance(operation, WIDE) else "topic"
        return scope != "topic" and policies is not None and not policies.has_own_namespace

    def _read(self, operation: ReadRequest) -> AnyOutcome:
        if operation.topic not in self._cursors.topics:
            return Skipped("there is no such topic")
        if isinstance(operation, AnalyzeBacklog):
            return self._cursors.analyze(operation.topic, operation.subscription)
        return perform_read(operation, self.broker.topic(operation.topic).log)

    def _refused(self, operation: AnyOperation) -> Refused | None:
        """Why a policy refuses a consumer or a subscription."""
        if isinstance(operation, Subscribe) and not self._cursors.has_consumer(operation.consumer):
            topic, name = operation.topic, operation.subscription
            if not self._limits.allows_type(topic, operation.kind):
                return Refused("NotAllowedError", "the type is not enabled")
            is_full = not self._limits.allows(topic, "consumers", self._cursors.consumers_on(topic))
            if is_full or not self._limits.allows(
                topic, "consumers of a subscription", self._cursors.consumers_on(topic, name)
            ):
                return Refused("ConsumerBusy", "there are as many consumers as may be")
        if isinstance(operation, Subscribe | CreateSubscription):
            there = self._cursors.subscriptions_on(operation.topic)
            is_new = operation.subscription not in there
            if is_new and not self._limits.allows(operation.topic, "subscriptions", len(there)):
                return Refused("NotAllowedError" if isinstance(operation, Subscribe) else "409", "too many")
        return None

    def _requested(self, operation: ExpiryRequest | PolicyRequest | ReaderOperation | HoleOperation) -> AnyOutcome:
        if operation.topic is not None and operation.topic not in self._cursors.topics:
            return Skipped("there is no such topic")
        if isinstance(operation, PolicyRequest):
            return self._limits.perform(operation)
        if isinstance(operation, HoleOperation):
            return self._cursors.holes.perform(operation)
        for name in self._cursors.topics:  # what was collected just now
            self._cursors.learn(name, self.broker.topic(name).log, self.broker.topic(name).ledgers)
        if isinstance(operation, ReaderOperation):
            return self._cursors.readers.perform(operation)
        return self._cursors.expiry.perform(operation)

    def _on_network(self, operation: NetworkOperation) -> AnyOutcome:
        """All faults are of one kind here: some time after the next send to the topic its connection is cut."""
        match operation:
            case UseProxy():
                return Done()
            case InjectNetworkFault(topic):
                self._disturbed.add(topic)
                return Done()
            case ClearNetworkFaults():
                self._disturbed.clear()
                return NetworkFaultsCleared(0)
            case _:
                assert_never(operation)

    def _on_topic(
        self, operation: SetDeduplication | PurgeProducers | Unload | SetFailpoint | ReadSnapshot | ReadLog
    ) -> Performed:
        name = operation.topic
        match operation:
            case SetDeduplication():
                return self._switch(operation)
            case PurgeProducers(minutes=minutes):
                late = self._collect(self._sessions_on(name))
                self.broker.purge(name, minutes)
                return Performed(ProducersPurged(PURGING_AS_DOCUMENTED.timeout_min), late)
            case Unload():
                self.broker.unload(name)
                self._replica.reconnect()
                self._access.reloaded(name)
                self._limits.reloaded(name)
                self._cursors.moved([name])
                if operation.classic is not None:
                    self._cursors.keys.switch(name, classic=operation.classic)
                return Performed(Done(), self._drop(self._sessions_on(name)))
            case SetFailpoint():
                late = self._collect(self._sessions_on(name))
                self.broker.arm(name, operation.kind, count=operation.count, spared=operation.spared)
                return Performed(Done(), late)
            case ReadSnapshot(due=due):
                return self._read_snapshot(name, due=due)
            case ReadLog():
                late = self._collect(self._sessions_on(name))
                if operation.cluster == HOME:
                    self._replicate_home(name)
                log = [_plain(logged) for logged in self.broker.topic(name).log]
                is_away = operation.cluster not in (None, HOME)
                read = self._replica.read_log(name, log) if is_away else LogRead(tuple(log))
                return Performed(read, late)
            case _:
                assert_never(operation)

    def _replicate_home(self, topic: str) -> None:
        """The replicator of the other cluster sends what its producers have published."""
        for logged in self._replica.arriving(topic):
            opened = self._connect(topic, logged.producer)
            assert not isinstance(opened, Refused), "no producer at home has its name"
            connection, _ = opened
            self.broker.send(connection, [logged.entry])
            self.broker.work_until(lambda one=connection: one.is_answered)  # type: ignore[misc]
            self.broker.close(connection)

    def close(self) -> None:
        """End all sessions of the example."""
        self._sessions.clear()

    # ------------------------------------------------------------------------------------------- topics and policies

    def _create_topic(self, operation: CreateTopic) -> Performed:
        self._replica.create(operation)
        if operation.persistence is not None:
            return self._create_topic_for_cursors(operation, operation.persistence)
        by_broker = operation.deduplication == "broker"
        on = self._broker_default if by_broker else operation.deduplication.endswith("-on")
        of_topic = on if operation.deduplication.startswith("topic-") else None
        has_markers = operation.home is not None
        self.broker.create(operation.topic, deduplication=on, has_policy=of_topic is not None, has_markers=has_markers)
        self._policies[operation.topic] = Policies(operation.deduplication.startswith("own-"), of_topic, by_broker)
        created = self._cursors.create(
            operation.topic, "shipped", (), self.broker.snapshot_room, has_markers=has_markers
        )
        snapshots = SnapshotSchedule(SNAPSHOT_ENTRIES, SNAPSHOT_PERIOD_S if operation.is_timed else None)
        return Performed(msgspec.structs.replace(created, deduplication=on, snapshots=snapshots))

    def _create_topic_for_cursors(self, operation: CreateTopic, persistence: Persistence) -> Performed:
        if operation.limits is not None:
            return Performed(Skipped("limits are not simulated"))
        has_markers = operation.home is not None
        partitions = [partition_name(operation.topic, number) for number in range(operation.partitions)]
        for name in partitions or [operation.topic]:
            self.broker.create(name, deduplication=False, has_policy=False, has_markers=has_markers)
            self._policies[name] = Policies(has_own_namespace=operation.deduplication.startswith("own-"))
            self._limits.created(name, has_own_namespace=operation.deduplication.startswith("own-"))
        room = self.broker.snapshot_room
        created = self._cursors.create(
            operation.topic,
            persistence,
            partitions,
            room,
            has_markers=has_markers,
            is_trimmed=operation.is_trimmed,
        )
        return Performed(created)

    def _switch(self, operation: SetDeduplication) -> Performed:
        late = () if operation.on and operation.in_flight else self._collect(self._sessions_on(operation.topic))
        policies = self._policies[operation.topic]
        if operation.scope == "topic":
            policies.of_topic = operation.on
        elif not policies.has_own_namespace:
            return Performed(Skipped("the topic shares its namespace"), late)
        on = operation.on if policies.of_topic is None else policies.of_topic
        self.broker.switch(operation.topic, on=on, by_its_own_policy=operation.scope == "topic")
        return Performed(DeduplicationSet(on), late)

    def _bounce(self, operation: Restart | Kill) -> Performed:
        if isinstance(operation, Kill):
            self.broker.kill()
        else:
            self.broker.restart()
        self._replica.reconnect()
        for topic in self._policies:
            self._access.reloaded(topic)
            self._limits.reloaded(topic)
        self._cursors.moved(self._cursors.topics, killed=isinstance(operation, Kill))
        self.clock.advance(START_S)
        late = self._drop(list(self._sessions))
        if isinstance(operation, Kill) or operation.deduplication is None:
            power_fails = isinstance(operation, Kill) and operation.power_fails
            return Performed(PowerFailed() if power_fails else Done(), late)
        self._broker_default = operation.deduplication
        for name, policies in self._policies.items():
            if policies.are_of_broker and policies.of_topic is None and self._heeds_settings:
                self.broker.switch(name, on=self._broker_default, by_its_own_policy=False)
        return Performed(DeduplicationSet(self._broker_default), late)

    def _take_over(self, operation: TakeOver) -> Performed:
        former = self._release
        self._release = operation.release or ("newer" if former == "older" else "older")
        is_unread = former == self._unread_release != self._release
        late = self._bounce(Kill() if operation.how == "kill" or is_unread else Restart()).late
        return Performed(TakenOver(tuple(self._policies), releases=(former, self._release)), late)

    def _clear_failpoints(self) -> Performed:
        late = self._collect(list(self._sessions))
        fired = tuple(Fired(topic, kind, times) for (topic, kind), times in self.broker.disarm().items())
        return Performed(Cleared(fired), late)

    # ------------------------------------------------------------------------------------------------------ sessions

    def _open(self, operation: OpenProducer) -> Performed:
        if operation.topic not in self._policies:
            return Performed(Skipped("there is no such topic"))
        late = self._collect([operation.session]) if operation.session in self._sessions else ()
        if operation.session in self._sessions:
            self.broker.close(self._sessions.pop(operation.session).connection)
        for name, session in self._sessions.items():
            if session.topic == operation.topic and session.connection.is_closed:
                self._access.left(name)
        asked = self._access.ask(operation)
        if isinstance(asked, Refused):
            return Performed(asked, late)
        if not asked:
            return Performed(Queued(), late)
        others = [name for name in self._sessions_on(operation.topic) if not self._is_closed(name)]
        is_alone = operation.access == "ExclusiveWithFencing"
        if not (is_alone or self._limits.allows(operation.topic, "producers", len(others))):
            return Performed(Refused(BUSY, "there are as many producers as may be"), late)
        for name in self._access.fenced_by(operation):
            self.broker.close(self._sessions[name].connection)
        return Performed(self._opened(operation), late)

    def _opened(self, operation: OpenProducer) -> Opened | Refused:
        if self._cursors.is_terminated(operation.topic):
            return Refused("TopicTerminatedError", "the topic was terminated")
        opened = self._connect(operation.topic, operation.producer)
        if isinstance(opened, Refused):
            return opened
        connection, answer = opened
        last = NONE if answer.last_sequence_id is None else answer.last_sequence_id
        session = Session(operation.topic, operation.producer, operation.client, connection, last)
        self._sessions[operation.session] = session
        return msgspec.structs.replace(answer, epoch=self._access.opened(operation))

    def _await_producers(self, topic: str) -> Performed:
        if topic not in self._policies:
            return Performed(Skipped("there is no such topic"))
        late = self._collect(self._sessions_on(topic))
        there = self._access.of(topic)
        for name in [name for name in there.open if name not in self._sessions or self._is_closed(name)]:
            del there.open[name]
        activated: list[Activated] = []
        if (given := self._access.next_of(topic)) is not None:
            opened = self._opened(given)
            assert isinstance(opened, Opened), "nobody else has its name"
            activated.append(Activated(given.session, self._sessions[given.session].last_sequence_id, opened.epoch))
        return Performed(ProducersRead(tuple(there.waiting), tuple(there.open), tuple(activated)), late)

    def _is_closed(self, name: str) -> bool:
        return self._sessions[name].connection.is_closed

    def _connect(self, topic: str, producer: str) -> tuple[Connection, Opened] | Refused:
        """Open a producer, with as many attempts as needed; a refusal is final only if one of our sessions has it."""
        is_taken = any((s.topic, s.producer) == (topic, producer) for s in self._sessions.values())
        answers: list[tuple[Connection, Opened] | Refused] = []

        def is_through() -> bool:
            answers[:] = [self.broker.open(topic, producer)]
            return not isinstance(answers[0], Refused) or (answers[0].code == BUSY and is_taken)

        self.broker.work_until(is_through)
        return answers[0]

    def _close(self, name: str) -> Performed:
        late = self._collect([name])
        self.broker.close(self._sessions.pop(name).connection)
        return Performed(Done(), late)

    def _crash(self, name: str) -> Performed:
        session = self._sessions[name]
        self.broker.cut(session.connection)
        late = self._collect_now(name)
        del self._sessions[name]
        return Performed(Done(), late)

    def _send(self, operation: Send) -> Performed:
        session = self._sessions[operation.session]
        late = self._collect([operation.session]) if operation.wait else ()
        has_heard = self._chance.random() < 0.5
        if session.connection.is_closed and not session.sends and has_heard:
            return Performed(Skipped("the session was closed from the other side"), late)
        entries = operation.entries
        if session.client == "official" and not self._ends_of_batches:
            entries = tuple(BatchWithoutHighestId(entry.messages) if entry.is_batch else entry for entry in entries)
        session.sends.append(entries)
        self.clock.sending(entries, operation.age_s)
        too_large = [one for one in entries if not self._limits.allows_size(session.topic, one)]
        self.broker.send(session.connection, [one for one in entries if one not in too_large])
        session.connection.told += [(one, Refused("NotAllowedError", "too large")) for one in too_large]
        self._disturb(session)
        if not operation.wait:
            return Performed(Sent(()), late)
        (collected,) = self._collect([operation.session])
        return Performed(Sent(collected.answers, last_sequence_id=session.last_sequence_id), late)

    def _disturb(self, session: Session) -> None:
        """The network cuts a connection after its broker read some of the sent commands."""
        if session.topic in self._disturbed and session.client == "wire":
            self._disturbed.discard(session.topic)
            self.broker.drift()
            if not session.connection.is_closed:
                self.broker.lose(session.connection)

    def _collect(self, names: Iterable[str]) -> tuple[Late, ...]:
        """Wait for all answers to the sends of these sessions."""
        late: list[Late] = []
        for name in names:
            connection = self._sessions[name].connection
            if self._sessions[name].sends:
                self.broker.work_until(lambda c=connection: c.is_answered)  # type: ignore[misc]
            late += self._collect_now(name)
        return tuple(late)

    def _collect_now(self, name: str) -> tuple[Late, ...]:
        """The answers that arrived; none of the others will."""
        session = self._sessions[name]
        entries = [entry for send in session.sends for entry in send]
        answers = iter(self._handed_out(entries, session.connection.told))
        late = tuple(Late(name, tuple(next(answers) for _ in send)) for send in session.sends)
        told = [entry for entry, answer in session.connection.told if isinstance(answer, Stored | Duplicate)]
        session.last_sequence_id = self._account_of(session, told)
        session.sends.clear()
        session.connection.told.clear()
        session.connection.awaited = session.connection.arrived = 0
        return late

    def _account_of(self, session: Session, confirmed: Sequence[Entry]) -> int:
        """The producer's own account of its last sequence id, after these entries were confirmed."""
        if self._account == "latest" and session.client == "official":
            return confirmed[-1].lowest + len(confirmed[-1].messages) - 1 if confirmed else session.last_sequence_id
        ids = (entry.messages[0 if self._account == "lowest" else -1].sequence_id for entry in confirmed)
        return max([session.last_sequence_id, *ids])

    def _handed_out(self, entries: Sequence[Entry], told: Sequence[tuple[Entry, Answer]]) -> tuple[Answer, ...]:
        """One of the ways in which a client may assign answers that name only one id of an entry.

        The chunks of one message are answered in their order.
        """
        if len(entries) > 1 and all(entry.chunk is not None for entry in entries):
            given = {chunk.chunk: answer for chunk, answer in told}
            return tuple(given.get(entry.chunk, Unknown("the connection was lost")) for entry in entries)
        ways = self._ways(entries, self._chance.sample(told, len(told)))
        way = next(ways)
        return tuple(way.get(place, Unknown("the connection was lost")) for place in range(len(entries)))

    def _ways(self, entries: Sequence[Entry], told: Sequence[tuple[Entry, Answer]]) -> Iterator[dict[int, Answer]]:
        if not told:
            yield {}
            return
        (named, answer), *rest = told
        for way in self._ways(entries, rest):
            places = [p for p, e in enumerate(entries) if p not in way and could_be_for(answer, named, e)]
            for place in self._chance.sample(places, len(places)):
                yield {**way, place: answer}

    def _drop(self, names: Iterable[str]) -> tuple[Late, ...]:
        """The sessions' connections ended: collect the answers; pulsar-client reconnects, the wire client does not."""
        late: list[Late] = []
        for name in names:
            session = self._sessions[name]
            late += self._collect_now(name)
            del self._sessions[name]
            if session.client == "official":
                opened = self._connect(session.topic, session.producer)
                assert not isinstance(opened, Refused), "no session has its name, and none may have it"
                session.connection, _ = opened
                self._sessions[name] = session
        return tuple(late)

    def _sessions_on(self, topic: str) -> list[str]:
        return [name for name, session in self._sessions.items() if session.topic == topic]

    # ------------------------------------------------------------------------------------------------------- reading

    def _read_snapshot(self, topic: str, *, due: bool) -> Performed:
        late = self._collect(self._sessions_on(topic))
        if due:
            self.broker.take_due_snapshot(topic)
        stored = self.broker.topic(topic)
        if stored.snapshot is None:
            return Performed(Skipped("there is no snapshot cursor"), late)
        last = stored.log[-1].position if due and stored.log else None
        position = stored.snapshot.position or BEFORE_THE_FIRST
        return Performed(SnapshotRead(position, dict(stored.snapshot.highest.ids), last), late)


def _plain(logged: LoggedEntry) -> LoggedEntry:
    """The entry as it is read back: its messages, without how it was sent."""
    return LoggedEntry(logged.position, logged.producer, Entry(logged.entry.messages))
