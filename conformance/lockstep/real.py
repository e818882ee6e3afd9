"""Carries out the operations of one example on a real broker.

It maps a history's names (``t0``, ``s1``) to real ones. An operation whose session or topic does not exist is skipped
with the reason: shortening leaves operations out of a history, and the others must still make sense.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final, assert_never

from msgspec import structs

from conformance.brokers.deployment import has_others
from conformance.brokers.interface import Capability
from conformance.clients.admin.client import NO_SUCH_REQUEST
from conformance.clients.admin.http import AdminError, namespace_of
from conformance.clients.outcomes import ConnectionLost, NoAnswer, ServerRefused
from conformance.clients.wire.pump import pump_of_this_thread
from conformance.harness_error import HarnessError
from conformance.lockstep.answers import (
    BROKER_ERRORS,
    LATE,
    Answers,
    expected_back,
    may_be_repeated,
    request_of,
)
from conformance.lockstep.applications.performer import ApplicationPerformer
from conformance.lockstep.chunking.performer import Chunks
from conformance.lockstep.chunking.producers import CLOSED, session_of, why_not_sent
from conformance.lockstep.contenders import ACTIVATION_TIMEOUT_S, Contenders
from conformance.lockstep.cursors.admin import CursorAdmin
from conformance.lockstep.cursors.administrators import SHARED_NAMESPACE, unload_widely
from conformance.lockstep.cursors.performer import Cursors
from conformance.lockstep.log_reader import Snapshots, read_whole_log
from conformance.lockstep.network import Network
from conformance.lockstep.owners import Owners
from conformance.lockstep.performer import Performed
from conformance.lockstep.policies import Policies
from conformance.lockstep.positions import Positions
from conformance.lockstep.reads import Reads
from conformance.lockstep.replication.performer import ReplicationPerformer
from conformance.lockstep.replication.replica import Replica
from conformance.lockstep.sessions import ProducerSession, WireSession
from conformance.lockstep.world import World
from conformance.wait import Deadline, wait_until
from model.administrator_operations import AdministratorRequest
from model.cluster_operations import HOME, ReplicationOperation
from model.deduplication.policies import STATUS
from model.events import (
    Abandoned,
    AnyOutcome,
    Cleared,
    Created,
    DeduplicationSet,
    Done,
    Fired,
    Late,
    LogRead,
    Opened,
    PolicyIgnored,
    PowerFailed,
    Refused,
    Sent,
    Skipped,
    StillConnected,
    Trimmed,
)
from model.expiry_operations import ExpiryRequest
from model.hole_operations import HoleOperation
from model.operations import (
    AnyOperation,
    ApplicationOperation,
    ClearFailpoints,
    CloseProducer,
    CrashProducer,
    CreateTopic,
    CursorOperation,
    DeploymentOperation,
    FreezeOwner,
    InjectNetworkFault,
    Kill,
    NetworkOperation,
    OpenProducer,
    ReadChunkRate,
    ReadLog,
    ReadSnapshot,
    Restart,
    Send,
    SetDeduplication,
    SetFailpoint,
    StartSource,
    TakeOver,
    Terminate,
    Trim,
    Unload,
    UseProxy,
)
from model.policy_operations import PolicyRequest
from model.producer_operations import AwaitProducers, ProducersPurged, PurgeProducers, Queued
from model.read_operations import ReadRequest
from model.reader_operations import ReaderOperation
from model.service.policies import PRODUCERS_LIMIT
from model.subscription_operations import KeyOperation
from model.vocabulary import Persistence, RequestScope, partition_name

BACK_TIMEOUT_S: Final = 30.0
"""How long a topic may take to accept producers again after an unload, a restart or a failed write."""
CLOSED_TIMEOUT_S: Final = 5.0
"""How long a broker may take to close the clients of a namespace that it has unloaded."""
OF_POLICIES: Final = frozenset({"ConsumerBusy", "NotAllowedError"})
"""The errors with which brokers refuse a reader whose topic has as many consumers as a policy allows."""
AfterSends = ReadRequest | ExpiryRequest | PolicyRequest | ReaderOperation | HoleOperation
"""The operations that begin when all sends are answered, and whose performers are found by their type."""
UNHURRIED: Final = (UseProxy, InjectNetworkFault, StartSource, Unload, Kill, Restart)
"""Operations that do not wait for frames that the network holds."""


class RealPerformer:
    """The performer of one example on a world's broker."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._example = world.fresh()
        self._topics: dict[str, str] = {}
        self._answers = world.answers = Answers(self._topics, is_of_several=has_others(world.broker))
        world.is_storage_disturbed = False
        self._topic_policies: dict[str, bool] = {}
        self._of_broker: set[str] = set()
        self._snapshots = Snapshots(world.admin, has_markers=world.is_home)
        self._sessions: dict[str, ProducerSession] = {}
        self._contenders = Contenders(self._sessions)
        self._names: dict[str, tuple[str, str]] = {}
        self._network = Network(lambda: world.service, self._topics)
        self._applications = ApplicationPerformer(world, self._example, self._topics, self._network)
        self._positions = Positions(delay_tick_ms=world.traits.delay_tick_ms)
        self._cursors = Cursors(world, self._topics, self._positions)
        self._limits = Policies(world, self._topics, self._cursors.expiry)
        self._reads = Reads(world.admin, lambda: world.service, self._topics, self._positions)
        self._chunks = Chunks(world, self._topics, self._unload)
        self._owners = Owners(world, self._topics, self._answers)
        self._replication_performer: ReplicationPerformer | None = None
        self._at_home: RealPerformer | None = None
        self._replica = Replica(world.replication, self._topics) if world.is_home else None
        pump_of_this_thread().take_second_answers()  # those to an earlier example

    @property
    def _replication(self) -> ReplicationPerformer:
        """The performer at several clusters, which are started on first use."""
        if self._replication_performer is None:
            self._replication_performer = ReplicationPerformer(self._world.replication, example=self._example)
        return self._replication_performer

    def _is_at_clusters(self, operation: AnyOperation) -> bool:
        """Whether an operation is about a topic that several clusters have."""
        if operation.cluster is not None:
            return not self._world.is_home
        if isinstance(operation, CreateTopic):
            return operation.clusters > 1 and operation.home is None
        return self._replication_performer is not None and self._replication_performer.performs(operation)

    def perform(self, operation: AnyOperation) -> Performed:
        """Carry out one operation and return the outcome."""
        if isinstance(operation, CreateTopic) and operation.home is not None and not self._world.is_home:
            self._at_home = RealPerformer(self._world.home)
        if self._at_home is not None:
            return self._at_home.perform(operation)
        if (why := self._world.capabilities.why_not(operation)) is not None:
            return Performed(Skipped(why))
        self._answers.begin()
        try:
            performed = self._perform(operation)
        except (*BROKER_ERRORS, *LATE) as error:
            cause = self._world.carried(error)
            self._answers.notice_excesses(self._cursors.excesses())
            self._answers.notice_closed((*self._closed_sessions(), *self._cursors.closed()))
            self._answers.gave_up(cause, request_of(operation), self._topic_of(operation))
            performed = Performed(Abandoned(str(cause)))
        self._answers.notice_closed((*self._closed_sessions(), *self._cursors.closed()))
        self._answers.notice_excesses(self._cursors.excesses())
        self._answers.notice_second(pump_of_this_thread().take_second_answers())
        return performed._replace(unexpected=self._answers.take())

    def _closed_sessions(self) -> Iterator[tuple[str, str, str]]:
        """The wire client's producers that the broker has closed: session, real topic, why."""
        for session, live in self._sessions.items():
            if isinstance(live, WireSession) and live.why_closed is not None:
                yield session, live.topic, live.why_closed

    def _topic_of(self, operation: AnyOperation) -> str | None:
        """The topic that an operation is about, by its name in the history."""
        if operation.topic is not None:
            return operation.topic
        real = self._names.get(operation.actor or "", (None, ""))[0] or self._cursors.topic_of(operation.actor or "")
        return next((name for name, one in self._topics.items() if one == real), None)

    def _perform(self, operation: AnyOperation) -> Performed:
        if not isinstance(operation, UNHURRIED) and not (isinstance(operation, Send) and not operation.wait):
            self._network.release()
        if isinstance(operation, AfterSends):
            late = self._collect(list(self._sessions))
            return Performed(self._after_sends(operation), late)
        if self._chunks.concerns(operation):
            return Performed(self._chunks.perform(operation))
        if self._replica is not None and isinstance(operation, ReadLog) and operation.cluster == HOME:
            return self._replica.with_replicated(operation.topic, self._read_log)
        if self._replica is not None and self._replica.performs(operation):
            return Performed(self._replica.perform(operation))
        if isinstance(operation, ReplicationOperation) or self._is_at_clusters(operation):
            return Performed(self._replication.perform(operation))
        if isinstance(operation, ApplicationOperation):
            return Performed(self._applications.perform(operation))
        if isinstance(operation, Terminate | Trim):
            return self._during_sends(operation)
        if isinstance(operation, CursorOperation | AdministratorRequest):
            # Collect the answers to earlier sends first: they locate the messages that this operation names.
            late = self._collect(list(self._sessions))
            return Performed(self._cursors.perform(operation), late)
        if isinstance(operation, KeyOperation):
            late = self._collect(list(self._sessions))
            return Performed(self._cursors.keys.perform(operation), late)
        if isinstance(operation, NetworkOperation):
            return Performed(self._network.perform(operation))
        if isinstance(operation, DeploymentOperation):
            return self._on_deployment(operation)
        match operation:
            case CreateTopic():
                return self._create_topic(operation)
            case OpenProducer():
                return self._open(operation)
            case CloseProducer(session):
                return self._leave(session, lambda live: live.close(), wait=True)
            case CrashProducer(session):
                return self._leave(session, lambda live: live.crash(), wait=False)
            case Send():
                return self._send(operation)
            case SetDeduplication():
                return self._switch(operation)
            case Unload(topic, classic, scope=scope):
                return self._unload(topic, classic=classic, scope=scope)
            case Restart(deduplication):
                return self._restart(deduplication)
            case Kill(power_fails=power_fails):
                return self._kill(power_fails=power_fails)
            case SetFailpoint():
                return self._set_failpoint(operation)
            case ClearFailpoints():
                return self._clear_failpoints()
            case ReadSnapshot(topic, due):
                return self._read_snapshot(topic, due=due)
            case ReadLog(topic):
                return self._read_log(topic)
            case AwaitProducers(topic):
                return self._await_producers(topic)
            case PurgeProducers():
                return self._purge_producers(operation)
            case ReadChunkRate():
                return Performed(Skipped("there is no such chunked topic"))
            case _:
                assert_never(operation)

    def _after_sends(self, operation: AfterSends) -> AnyOutcome:
        """Perform an operation that begins when all sends are answered."""
        if isinstance(operation, ReadRequest):
            return self._reads.perform(operation)
        if isinstance(operation, ExpiryRequest):
            return self._cursors.expiry.perform(operation)
        if isinstance(operation, HoleOperation):
            return self._cursors.holes.perform(operation)
        if isinstance(operation, PolicyRequest):
            return self._limits.perform(operation)
        return self._cursors.readers.perform(operation)

    # ------------------------------------------------------------------------------------------- topics and policies

    def _create_topic(self, operation: CreateTopic) -> Performed:
        if not self._topics:
            self._world.restore_default()
        if operation.persistence is not None:
            return self._create_topic_for_cursors(operation, operation.persistence)
        if operation.is_chunked and operation.deduplication not in ("namespace-on", "namespace-off"):
            return Performed(Skipped("deduplication of chunked topics is that of a namespace"))
        namespace = self._world.namespaces.of_switch(operation.deduplication, is_timed=operation.is_timed)
        name = f"persistent://{namespace}/e{self._example}-{operation.topic}"
        self._world.spread(name, beside=self._topics)
        self._world.admin.create_topic(name)
        self._topics[operation.topic] = name
        on, is_shown = self._world.is_on(operation.deduplication), True
        if operation.deduplication == "broker":
            self._of_broker.add(name)
        self._world.await_replicators([name])
        if operation.deduplication.startswith("topic-"):
            self._world.admin.set_topic_deduplication(name, on)
            self._topic_policies[name] = on
        if operation.deduplication not in ("namespace-on", "namespace-off"):
            status = self._world.status_when_switched(name, on=on)
            if name in self._topic_policies and status == STATUS[not on]:
                is_shown, on = self._world.admin.topic_deduplication(name) is on, not on
            if status != STATUS[on]:
                return Performed(PolicyIgnored(status))
        self._snapshots.created(name, self._world.snapshots, is_timed=operation.is_timed)
        created = self._created([name], deduplication=on, persistence="shipped", in_all=0)
        if operation.is_chunked:
            created = structs.replace(created, limit_bytes=self._chunks.created(name))
        return Performed(structs.replace(created, is_policy_shown=is_shown))

    def _create_topic_for_cursors(self, operation: CreateTopic, persistence: Persistence) -> Performed:
        try:
            namespace = self._world.namespaces.of_cursors(
                persistence,
                is_trimmed=operation.is_trimmed,
                limits=operation.limits,
                quorum=operation.quorum,
                is_of_one_topic=operation.deduplication.startswith("own-"),
            )
        except AdminError as error:
            if operation.limits is None or error.status not in NO_SUCH_REQUEST:
                raise
            return Performed(Skipped("this release has no such limits in the policies of a namespace"))
        name = f"persistent://{namespace}/e{self._example}-{operation.topic}"
        self._world.spread(name, beside=self._topics)
        self._world.admin.create_topic(name, partitions=operation.partitions or None)
        parts = range(operation.partitions)
        if operation.partitions:
            self._cursors.add_partitioned(operation.topic, name, tuple(partition_name(name, n) for n in parts))
            made = {partition_name(operation.topic, number): partition_name(name, number) for number in parts}
        else:
            made = {operation.topic: name}
        self._topics.update(made)
        self._world.await_replicators(made.values())
        in_all = self._world.traits.unacknowledged_in_all if operation.limits is None else operation.limits.in_all
        return Performed(self._created(made.values(), deduplication=False, persistence=persistence, in_all=in_all))

    def _created(self, made: Iterable[str], *, deduplication: bool, persistence: Persistence, in_all: int) -> Created:
        world = self._world
        if (limit := world.persisted_per_s(persistence)) is not None:
            for name in made:
                self._cursors.set_limit(name, limit)
        return Created(
            deduplication=deduplication,
            snapshot_room=world.snapshot_room,
            ledger_room=world.ledger_room,
            persisted_per_s=limit,
            flush_s=world.flush_interval_s,
            stored_ranges=world.stored_ranges,
            persisted_ranges=world.persisted_ranges,
            has_draining_hashes=world.key_shared.has_draining_hashes,
            look_ahead=(world.traits.look_ahead.per_consumer, world.traits.look_ahead.per_subscription),
            unacknowledged_in_all=in_all,
            snapshots=next((self._snapshots.due(name) for name in made), None),
            limit_bytes=world.max_message_bytes if world.is_home else None,
            delay_tick_ms=world.traits.delay_tick_ms,
        )

    def _switch(self, operation: SetDeduplication) -> Performed:
        name = self._topics.get(operation.topic)
        if name is None:
            return Performed(Skipped("there is no such topic"))
        late, is_shown = () if operation.on and operation.in_flight else self._collect(self._sessions_on(name)), True
        if operation.scope == "topic":
            self._world.admin.set_topic_deduplication(name, operation.on)
            self._topic_policies[name] = operation.on
            is_shown = self._world.shows_topic_policy(name, on=operation.on)
        elif self._world.namespaces.is_of_one_topic(namespace_of(name)):
            self._world.admin.set_namespace_deduplication(namespace_of(name), operation.on)
        else:
            return Performed(SHARED_NAMESPACE, late)
        on = self._topic_policies.get(name, operation.on)
        status = self._world.status_when_switched(name, on=on)
        return Performed(DeduplicationSet(on) if status == STATUS[on] else PolicyIgnored(status, is_shown), late)

    def _unload(self, topic: str, *, classic: bool | None = None, scope: RequestScope = "topic") -> Performed:
        name = self._topics.get(topic)
        if name is None:
            return Performed(Skipped("there is no such topic"))
        if classic is not None and not self._world.key_shared.use_classic(classic):
            return Performed(Skipped("this broker cannot change the implementation while it runs"))
        if scope != "topic" and not self._world.namespaces.is_of_one_topic(namespace_of(name)):
            return Performed(SHARED_NAMESPACE)
        self._chunks.before_unload(name)
        # A topic that is being reloaded after an earlier unload may refuse another one for a moment.
        unload = partial(unload_widely, self._world.admin, name, scope)
        self._answers.retry(unload, BACK_TIMEOUT_S, what="an unload", topic=name)
        for beside in self._cursors.holes.beside(name):
            self._answers.retry(
                partial(self._world.admin.unload, beside), BACK_TIMEOUT_S, what="an unload", topic=beside
            )
            self._cursors.reloaded(beside)
        connected: tuple[str, ...] = ()
        if scope != "topic" and not wait_until(lambda: not self._connected_to(name), CLOSED_TIMEOUT_S):
            connected = self._connected_to(name)
        self._cursors.reloaded(name)
        self._chunks.reloaded(name)
        self._contenders.reloaded(name)
        sessions = self._sessions_on(name)
        late = self._collect(sessions)
        for session in sessions:
            self._drop_if_wire(session)
        return Performed(StillConnected(connected) if connected else Done(), late)

    def _connected_to(self, name: str) -> tuple[str, ...]:
        """The wire client's producers and consumers that are connected to a topic."""
        producers = (one for one, live in self._sessions.items() if isinstance(live, WireSession) and live.is_open)
        return (*(one for one in producers if self._sessions[one].topic == name), *self._cursors.connected_to(name))

    def _during_sends(self, operation: Terminate | Trim) -> Performed:
        """Answers to sends of the topic are collected afterwards; those sends may have begun further ledgers."""
        outcome = self._cursors.perform(operation)
        late = self._collect(list(self._sessions))
        if late and isinstance(outcome, Trimmed):
            outcome = CursorAdmin(self._world.admin).ledgers(self._topics[operation.topic])
        return Performed(outcome, late)

    def _bounce(self, capability: Capability, bounce: Callable[[], None]) -> Performed:
        if capability not in self._world.broker.capabilities:
            return Performed(Skipped(f"this broker cannot be asked to {capability.value}"))
        self._chunks.before_unload()
        with expected_back():
            bounce()
        self._world.broker_came_back()
        self._cursors.reloaded()
        self._chunks.reloaded()
        self._contenders.reloaded()
        late = self._collect(list(self._sessions))
        for session in list(self._sessions):
            self._drop_if_wire(session)
        return Performed(Done(), late)

    def _restart(self, deduplication: bool | None) -> Performed:
        if deduplication is None:
            return self._bounce(Capability.RESTART, self._world.broker.restart)
        bounced = self._bounce(Capability.RESTART, lambda: self._world.restart(deduplication=deduplication))
        if not isinstance(bounced.outcome, Done):
            return bounced
        for name in self._of_broker - self._topic_policies.keys():
            status = self._world.status_when_switched(name, on=deduplication)
            if status != STATUS[deduplication]:
                return Performed(PolicyIgnored(status), bounced.late)
        return Performed(DeduplicationSet(deduplication), bounced.late)

    def _kill(self, *, power_fails: bool) -> Performed:
        power_fails = power_fails and self._world.can_fail_power
        killed = self._bounce(Capability.KILL, lambda: self._world.kill(power_fails=power_fails))
        return killed._replace(outcome=PowerFailed()) if power_fails and isinstance(killed.outcome, Done) else killed

    def _on_deployment(self, operation: DeploymentOperation) -> Performed:
        if not isinstance(operation, TakeOver | FreezeOwner):
            return Performed(self._owners.perform(operation))
        taken = self._owners.leave(operation)
        if isinstance(taken, Skipped):
            return Performed(taken)
        late: tuple[Late, ...] = ()
        for name in [self._topics[topic] for topic in taken.topics]:
            sessions = self._sessions_on(name)
            if isinstance(operation, FreezeOwner):
                late += self._keep_at_frozen(name, sessions)
            else:
                late += self._collect(sessions)
                for session in sessions:
                    self._drop_if_wire(session)
            self._cursors.reloaded(name)
            self._chunks.reloaded(name)
            self._contenders.reloaded(name)
        return Performed(taken, late)

    def _keep_at_frozen(self, name: str, sessions: Iterable[str]) -> tuple[Late, ...]:
        """Keep the wire client's connections to a frozen broker; sends without an answer are unknown."""
        late: list[Late] = []
        kept: dict[str, WireSession] = {}
        for session in sessions:
            live = self._sessions[session]
            if isinstance(live, WireSession):
                while live.pending:
                    answers = live.answers_so_far()
                    self._positions.answered(session, answers)
                    late.append(Late(session, answers))
                live.forget_answered()
                kept[session] = live
                del self._sessions[session]
        self._owners.keep(kept, self._cursors.keep(name))
        return (*late, *self._collect(self._sessions_on(name)))

    # ------------------------------------------------------------------------------------------------------ sessions

    def _open(self, operation: OpenProducer) -> Performed:
        name = self._topics.get(operation.topic)
        if name is None:
            return Performed(Skipped("there is no such topic"))
        late = self._collect([operation.session]) if operation.session in self._sessions else ()
        if operation.session in self._sessions:
            self._sessions.pop(operation.session).close()
        if (waiting := self._contenders.pop(operation.session)) is not None:
            waiting.close()

        def may_pass(error: HarnessError) -> bool:
            if isinstance(error, ServerRefused):  # the broker removes a producer that it closed a little later
                open_ones = [self._names[session] for session, live in self._sessions.items() if live.is_open]
                is_taken = (name, operation.producer) in open_ones
                is_gone = self._contenders.may_be_gone(error, operation, name, in_time)
                return error.may_pass or (not is_taken and is_gone and not self._is_limited(error, name))
            return self._network.is_proxied and isinstance(error, ConnectionLost | NoAnswer)

        epoch, in_time = self._contenders.epoch_of(operation), Deadline.after(ACTIVATION_TIMEOUT_S)
        try:
            live = self._answers.retry(
                lambda: session_of(operation, name, self._world.service, self._network.service, epoch),
                BACK_TIMEOUT_S,
                what=f"opening producer {operation.producer}",
                topic=name,
                may_pass=may_pass,
            )
        except ServerRefused as refused:
            return Performed(Refused(refused.code, refused.message), late)
        self._names[operation.session] = (name, operation.producer)
        if isinstance(live, WireSession) and live.is_queued:
            self._contenders.queued(operation.session, live)
            return Performed(Queued(), late)
        late += self._collect(self._wire_sessions_of(name, operation.producer))
        self._is_open(operation.session, live)
        return Performed(Opened(live.last_sequence_id, live.epoch if isinstance(live, WireSession) else None), late)

    def _is_limited(self, error: ServerRefused, topic: str) -> bool:
        """Whether a policy refuses a producer, and the broker has none that it will remove."""
        if PRODUCERS_LIMIT not in error.message:
            return False
        there = [session for session in self._sessions_on(topic) if self._sessions[session].is_open]
        return 0 < len(self._world.admin.stats(topic).publishers) <= len(there)

    def _is_open(self, session: str, live: ProducerSession) -> None:
        self._sessions[session] = live
        self._answers.opened(session, live.topic)
        self._contenders.opened(session, live)

    def _await_producers(self, topic: str) -> Performed:
        name = self._topics.get(topic)
        if name is None:
            return Performed(Skipped("there is no such topic"))
        late = self._collect(self._sessions_on(name))
        return Performed(self._contenders.settle(name, self._is_open), late)

    def _wire_sessions_of(self, topic: str, producer: str) -> list[str]:
        """The producer's sessions; after it is opened again, the broker has closed the former ones."""
        return [
            session
            for session, live in self._sessions.items()
            if isinstance(live, WireSession) and self._names[session] == (topic, producer)
        ]

    def _leave(self, session: str, leave: Callable[[ProducerSession], None], *, wait: bool) -> Performed:
        if (waiting := self._contenders.pop(session)) is not None:
            leave(waiting)
            return Performed(Done())
        live = self._sessions.get(session)
        if live is None:
            return Performed(Skipped("there is no such session"))
        late = self._collect([session]) if wait else ()
        leave(live)
        late += self._collect([session])
        del self._sessions[session]
        return Performed(Done(), late)

    def _send(self, operation: Send) -> Performed:
        live = self._sessions.get(operation.session)
        if live is None:
            return Performed(Skipped("there is no such session"))
        if (why := why_not_sent(live, operation.entries)) is not None:
            return Performed(Skipped(why))
        late = self._collect([operation.session]) if operation.wait else ()
        if operation.wait and not live.is_open:
            return Performed(Skipped(CLOSED), late)
        self._positions.sending(operation.session, *self._names[operation.session], operation.entries)
        if isinstance(live, WireSession):
            live.send(operation.entries, age_s=operation.age_s)
        else:
            live.send(operation.entries)
        if not operation.wait:
            return Performed(Sent(()))
        answers = live.collect()
        self._positions.answered(operation.session, answers)
        return Performed(Sent(answers, last_sequence_id=live.last_sequence_id), late)

    def _collect(self, sessions: Iterable[str]) -> tuple[Late, ...]:
        self._network.release()
        late: list[Late] = []
        for session in sessions:
            live = self._sessions[session]
            while live.pending:
                answers = live.collect()
                self._positions.answered(session, answers)
                late.append(Late(session, answers))
        return tuple(late)

    def _sessions_on(self, topic: str) -> list[str]:
        return [session for session, live in self._sessions.items() if live.topic == topic]

    def _drop_if_wire(self, session: str) -> None:
        """End a session of the wire client, which does not reopen its producer after an unload."""
        if isinstance(live := self._sessions[session], WireSession):
            live.crash()
            del self._sessions[session]

    # ---------------------------------------------------------------------------------------------------- failpoints

    def _set_failpoint(self, operation: SetFailpoint) -> Performed:
        name = self._topics.get(operation.topic)
        if name is None:
            return Performed(Skipped("there is no such topic"))
        if self._world.failpoints is None:
            return Performed(Skipped("this broker has no agent"))
        late = self._collect(self._sessions_on(name))
        self._world.failpoints.set(
            name, operation.kind, count=operation.count, delay_ms=operation.delay_ms, spared=operation.spared
        )
        return Performed(Done(), late)

    def _clear_failpoints(self) -> Performed:
        if self._world.failpoints is None:
            return Performed(Skipped("this broker has no agent"))
        late = self._collect(list(self._sessions))
        names = {real: name for name, real in self._topics.items()}
        fired = self._world.failpoints.clear()
        return Performed(Cleared(tuple(Fired(names[topic], kind, times) for topic, kind, times in fired)), late)

    def _purge_producers(self, operation: PurgeProducers) -> Performed:
        name = self._topics.get(operation.topic)
        if name is None:
            return Performed(Skipped("there is no such topic"))
        if self._world.failpoints is None:
            return Performed(Skipped("this broker has no agent"))
        late = self._collect(self._sessions_on(name))
        look = partial(self._world.admin.internal_stats, name)
        if not self._world.failpoints.purge(name, operation.minutes, look):
            return Performed(Skipped("no broker has the topic"), late)
        return Performed(ProducersPurged(self._world.traits.inactivity_timeout_min), late)

    # ------------------------------------------------------------------------------------------------------- reading

    def _read_snapshot(self, topic: str, *, due: bool) -> Performed:
        name = self._topics.get(topic)
        if name is None:
            return Performed(Skipped("there is no such topic"))
        late = self._collect(self._sessions_on(name))
        return Performed(self._snapshots.read(name, due=due), late)

    def _read_log(self, topic: str) -> Performed:
        name = self._topics.get(topic)
        if name is None:
            return Performed(Skipped("there is no such topic"))
        late = self._collect(self._sessions_on(name))
        world = self._world
        read = partial(read_whole_log, world.admin, world.reader, name, has_markers=world.is_home)
        try:
            log = self._answers.retry(
                read, BACK_TIMEOUT_S, what="reading the log", topic=name, may_pass=may_be_repeated
            )
        except ServerRefused as refused:
            if refused.code not in OF_POLICIES:
                raise
            return Performed(Refused(refused.code, refused.message), late)
        self._positions.read_back(name, log)
        return Performed(LogRead(log), late)

    def close(self) -> None:
        """End all sessions, disarm all failpoints, and have the topics deleted."""
        if self._world.failpoints is not None:
            self._world.failpoints.end()
        self._owners.close()
        for live in self._sessions.values():
            live.crash()
        self._sessions.clear()
        self._contenders.close()
        self._applications.close()
        self._cursors.close()
        self._network.close()
        self._chunks.close()
        for elsewhere in (one for one in (self._at_home, self._replication_performer, self._replica) if one):
            elsewhere.close()
        if not self._world.is_home:  # there they are replicated
            self._world.ended_topics.delete([*self._topics.values(), *self._cursors.holes.names])
