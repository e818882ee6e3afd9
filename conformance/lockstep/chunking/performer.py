"""Carries out the operations of document 002 on a real broker: chunked messages, watched on the wire.

Gathering waits until everything due according to the model has arrived: the entries that the broker must send
(:func:`model.chunking.dispatch.due`), and the messages that a client must deliver from them. The model judges what
is missing at the deadline.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final, TypeVar, assert_never

from msgspec.structs import replace

from conformance.clients import protocol_pb2 as pb
from conformance.clients.admin.backlog import unacknowledged
from conformance.clients.admin.http import AdminError
from conformance.clients.admin.stored_log import last_stored
from conformance.clients.outcomes import ServerRefused
from conformance.clients.security.service import Service
from conformance.clients.wire import read_log as logs
from conformance.lockstep.chunking.consumers import ChunkConsumer
from conformance.lockstep.chunking.producers import CraftingSession, WatchedSession
from conformance.lockstep.settings.client_features import lacking
from conformance.lockstep.world import World
from conformance.wait import Deadline, Patience, wait_until
from model.chunking import dispatch
from model.chunking.producers import numbered
from model.events import (
    Acknowledged,
    AnyOutcome,
    ChunkRate,
    CursorMoved,
    Done,
    DueReceived,
    LogRead,
    Opened,
    RedeliveryRequested,
    Refused,
    Sent,
    Skipped,
    Subscribed,
    UnacknowledgedRead,
)
from model.log import Position
from model.operations import (
    AnyOperation,
    CloseProducer,
    CrashProducer,
    CreateTopic,
    CutAfterSends,
    HoldAfterSends,
    OpenProducer,
    ReadChunkRate,
    ReadLog,
    Send,
    SetFailpoint,
    Unload,
)
from model.payloads import LIMIT_BYTES, digest
from model.subscription_operations import (
    Acknowledge,
    CloseConsumer,
    CrashConsumer,
    Expire,
    Nack,
    ReadCursor,
    ReceiveDue,
    ResetCursor,
    Skip,
    Subscribe,
)
from model.traffic import LoggedPart, Part
from model.vocabulary import Compression

GATHER_TIMEOUT_S: Final = 5.0
"""How long due messages may take, each after the one before it."""
STALLED_TIMEOUT_S: Final = 0.5
"""The same for a subscription that missed due messages before."""
GRACE_S: Final = 0.5
"""How long a client may take to deliver a message, where one of the known clients withholds it."""
OPEN_TIMEOUT_S: Final = 30.0
"""How long a topic may refuse a producer or consumer after a reload, or after a former one of that name."""
ANSWER_TIMEOUT_S: Final = 10.0
READ_AHEAD: Final = 16
"""The permits for reading a log."""
MOST_PERIOD_S: Final = 5.0
"""The longest refresh period of rates that an example waits for."""
_MAY_PASS: Final = frozenset({"ProducerBusy", "ConsumerBusy"})
_PAUSE_S: Final = 0.003
_COMPRESSIONS: Final[dict[int, Compression]] = {pb.NONE: "none", pb.LZ4: "lz4", pb.ZLIB: "zlib"}

T = TypeVar("T")


class Chunks:
    """The part of document 002 in one example."""

    def __init__(self, world: World, topics: Mapping[str, str], unload: Callable[[str], object]) -> None:
        """``unload`` unloads a topic, by its name in the history."""
        self._world = world
        self._topics = topics
        self._unload = unload
        self._chunked: set[str] = set()
        self._producers: dict[str, WatchedSession | CraftingSession] = {}
        self._names: dict[str, tuple[str, str]] = {}
        self._consumers: dict[str, ChunkConsumer] = {}
        self._stalled: set[tuple[str, str]] = set()

    def concerns(self, operation: AnyOperation) -> bool:
        """Whether only this part performs an operation: it is about a chunked topic, which exists, and its messages."""
        match operation:
            case CreateTopic() | Unload() | SetFailpoint():
                return False
            case _ if operation.topic is not None:
                return self._topics.get(operation.topic) in self._chunked
            case _:
                return operation.actor in self._consumers or operation.actor in self._producers

    def created(self, topic: str) -> int:
        """A topic, by its real name, is chunked; returns the limit of the size of its entries."""
        self._chunked.add(topic)
        return min(LIMIT_BYTES, self._world.max_message_bytes)

    def perform(self, operation: AnyOperation) -> AnyOutcome:
        """Carry out one operation and return the outcome."""
        match operation:
            case OpenProducer():
                return self._open(operation, self._topics[operation.topic])
            case Send():
                return self._send(operation)
            case CloseProducer(session):
                self._producers.pop(session).close()
                return Done()
            case CrashProducer(session):
                self._producers.pop(session).crash()
                return Done()
            case Subscribe():
                return self._subscribe(operation, self._topics[operation.topic])
            case Acknowledge() | Nack():
                consumer = self._consumers[operation.consumer]
                return lacking(operation, consumer.library) or self._ask(operation, consumer)
            case CloseConsumer(name):
                return self._leave(name, crashes=False)
            case CrashConsumer(name):
                return self._leave(name, crashes=True)
            case ReceiveDue() | Skip() | Expire() | ResetCursor() | ReadLog() | ReadCursor() | ReadChunkRate():
                return self._on_topic(operation, self._topics[operation.topic])
            case _:
                return Skipped("the topic is chunked")

    def _on_topic(
        self, operation: ReceiveDue | Skip | Expire | ResetCursor | ReadLog | ReadCursor | ReadChunkRate, topic: str
    ) -> AnyOutcome:
        match operation:
            case ReceiveDue(_, subscription):
                return self._gather(topic, subscription)
            case Skip() | Expire() | ResetCursor():
                return self._move_cursor(topic, operation)
            case ReadLog():
                return LogRead(parts=tuple(self._log(topic)))
            case ReadCursor(_, subscription):
                return self._backlog(topic, subscription)
            case ReadChunkRate():
                return self._rate(topic, operation)
            case _:
                assert_never(operation)

    # ----------------------------------------------------------------------------------------------------- producers

    def _open(self, operation: OpenProducer, topic: str) -> AnyOutcome:
        if (before := self._producers.pop(operation.session, None)) is not None:
            before.close()
        if (topic, operation.producer) in {self._names[session] for session in self._producers}:
            return Skipped("another session has the name")
        opened = _patiently(lambda: self._new_session(operation, topic))
        if isinstance(opened, Refused):
            return opened
        self._producers[operation.session] = opened
        self._names[operation.session] = (topic, operation.producer)
        return Opened(opened.last_sequence_id)

    def _new_session(self, operation: OpenProducer, topic: str) -> WatchedSession | CraftingSession:
        if operation.client == "wire":
            return CraftingSession(self._service, topic, operation.producer)
        return WatchedSession(self._service, topic, operation)

    def _send(self, operation: Send) -> AnyOutcome:
        session = self._producers[operation.session]
        if not session.is_open:
            return Skipped("the session was closed")
        if any(entry.is_batch for entry in operation.entries) or not operation.wait:
            return Skipped("on a chunked topic there are no batches, and answers are awaited")
        if isinstance(session, CraftingSession):
            return session.sent(operation.entries)
        match operation.interruption:
            case None:
                session.send(operation.entries)
                sent = session.sent()
            case CutAfterSends() as cut:
                names = {real: name for name, real in self._topics.items()}
                sent = session.send_and_cut(operation.entries, cut, lambda: self._unload(names[session.topic]))
            case HoldAfterSends() as others:
                return self._interleave(session, operation, others)
            case _:
                assert_never(operation.interruption)
        self._drop_ended()
        return sent

    def _drop_ended(self) -> None:
        """Drop the sessions of pulsar-client that the suite ended."""
        for name, session in list(self._producers.items()):
            if isinstance(session, WatchedSession) and not session.is_open:
                del self._producers[name]

    def _interleave(self, first: WatchedSession, operation: Send, others: HoldAfterSends) -> AnyOutcome:
        second = self._producers.get(others.session)
        if not isinstance(second, WatchedSession) or second is first:
            return Skipped("there is no other session of pulsar-client")
        held = first.send_and_hold(operation.entries, others.sends)
        second.send(others.entries)
        other = second.sent()
        held.lift()
        return replace(first.sent(), other=other)

    # ----------------------------------------------------------------------------------------------------- consumers

    def _subscribe(self, operation: Subscribe, topic: str) -> AnyOutcome:
        if operation.client == "wire":
            return Skipped("the wire client does not assemble chunks")
        if operation.consumer in self._consumers:
            return Skipped("there is a consumer of that name")
        others = self._on(topic, operation.subscription)
        if operation.kind == "Exclusive" and others:
            return Skipped("another consumer has the subscription for itself")
        if any(other.kind != operation.kind for other in others):
            return Skipped("the consumers of the subscription are of another kind")
        opened = _patiently(lambda: ChunkConsumer(self._service, topic, operation))
        if isinstance(opened, Refused):
            return opened
        self._consumers[operation.consumer] = opened
        return Subscribed(self._world.dispatchers.drains_on(topic) if operation.kind == "Key_Shared" else None)

    def _on(self, topic: str, subscription: str) -> list[ChunkConsumer]:
        return [one for one in self._consumers.values() if (one.topic, one.subscription) == (topic, subscription)]

    def _gather(self, topic: str, subscription: str) -> AnyOutcome:
        consumers = self._on(topic, subscription)
        if not consumers:
            return Skipped("no consumer is subscribed")
        key = (topic, subscription)
        patience = Patience(STALLED_TIMEOUT_S if key in self._stalled else GATHER_TIMEOUT_S)
        log = tuple(self._log(topic))
        while True:
            self._receive(topic, subscription, log, patience)
            before, log = log, tuple(self._log(topic))
            # Sends in flight of a crashed producer may be stored only now.
            if log == before or patience.passed:
                break
        if self._due(topic, subscription, log):
            self._stalled.add(key)
        is_key_shared = any(consumer.kind == "Key_Shared" for consumer in consumers)
        drains = self._world.dispatchers.drains_on(topic) if is_key_shared else None
        return DueReceived(traffic=tuple(consumer.traffic() for consumer in consumers), log=log, drains=drains)

    def _receive(self, topic: str, subscription: str, log: tuple[LoggedPart, ...], patience: Patience) -> None:
        """Receive until all due messages of this log have arrived, or none has come for too long."""
        consumers = self._on(topic, subscription)
        grace = Deadline.after(GRACE_S)
        while True:
            is_last_look = patience.passed  # before looking: what came during a slow request for stats counts, too
            came = [consumer.take_in() for consumer in consumers]
            if any(came):
                grace = Deadline.after(GRACE_S)
                patience.progressed()
                is_last_look = False
            # What a consumer was sent before an unload is dispatched again once it subscribes.
            is_all_sent = all(one.is_back() for one in consumers) and not self._due(topic, subscription, log)
            if is_all_sent and all(consumer.is_explained for consumer in consumers):
                return
            if is_all_sent and grace.passed and all(consumer.may_be_explained for consumer in consumers):
                return
            if is_last_look:
                return
            time.sleep(_PAUSE_S)

    def _due(self, topic: str, subscription: str, log: tuple[LoggedPart, ...]) -> list[Position]:
        consumers = self._on(topic, subscription)
        open_ = unacknowledged(self._world.admin.internal_stats(topic), subscription)
        left = [entry for entry in log if entry.position in open_]
        return dispatch.due(consumers[0].kind, left, [consumer.pending for consumer in consumers])

    def _ask(self, operation: Acknowledge | Nack, consumer: ChunkConsumer) -> AnyOutcome:
        if operation.nth is None:
            messages = tuple(consumer.unacknowledged)
            consumer.request_redelivery(None)
            return RedeliveryRequested(messages, (consumer.traffic_passed(),))
        chosen = consumer.pick(operation.nth)
        if not chosen:
            return Skipped("it has no message")
        self._stalled.discard((consumer.topic, consumer.subscription))
        if isinstance(operation, Nack):
            consumer.request_redelivery(chosen)
            return RedeliveryRequested(tuple(chosen), (consumer.traffic_passed(),))
        consumer.acknowledge(chosen, is_cumulative=operation.cumulative)
        return Acknowledged(tuple(chosen), traffic=(consumer.traffic_passed(),))

    def _leave(self, name: str, *, crashes: bool) -> AnyOutcome:
        consumer = self._consumers.pop(name)
        traffic = consumer.leave(crashes=crashes)

        def is_gone() -> bool:
            subscription = self._world.admin.stats(consumer.topic).subscriptions.get(consumer.subscription)
            return subscription is None or all(one.consumer_name != name for one in subscription.consumers)

        wait_until(is_gone, ANSWER_TIMEOUT_S)
        return Done((traffic,))

    # ------------------------------------------------------------------------------------------------ administration

    def _move_cursor(self, topic: str, operation: Skip | Expire | ResetCursor) -> AnyOutcome:
        admin, subscription = self._world.admin, operation.subscription
        log = list(self._log(topic))
        if subscription not in admin.internal_stats(topic).cursors or not log:
            return Skipped("there is no such subscription, or nothing in the log")
        before = unacknowledged(admin.internal_stats(topic), subscription)
        traffic = tuple(consumer.traffic_passed() for consumer in self._on(topic, subscription))
        try:
            match operation:
                case Skip(count=count):
                    admin.skip(topic, subscription, max(1, min(count, len(before))))
                case Expire(up_to=int() as number):
                    place = log[number % len(log)].position
                    admin.expire_up_to(topic, subscription, place)
                    self._await_expired(topic, subscription, place)
                case ResetCursor(to=int() as number, by_time=False):
                    for consumer in self._on(topic, subscription):
                        consumer.before_disconnect()
                    admin.reset_cursor(topic, subscription, log[number % len(log)].position)
                    for consumer in self._on(topic, subscription):
                        consumer.reset()
                case _:
                    return Skipped("on a chunked topic, entries go by their number in the log")
        except AdminError as error:
            return Refused(str(error.status), str(error))
        self._stalled.discard((topic, subscription))
        after = unacknowledged(admin.internal_stats(topic), subscription)
        return CursorMoved(tuple(sorted(before)), tuple(sorted(after)), traffic)

    def _await_expired(self, topic: str, subscription: str, place: Position) -> None:
        """Wait until no entry up to a position is unacknowledged."""

        def is_expired() -> bool:
            left = unacknowledged(self._world.admin.internal_stats(topic), subscription)
            return all(position > place for position in left)

        wait_until(is_expired, GATHER_TIMEOUT_S)

    def before_unload(self, topic: str | None = None) -> None:
        """Wait until the broker has all acks: document 003 decides what an unload does to others."""
        for consumer in self._consumers.values():
            if topic in (None, consumer.topic):
                consumer.before_disconnect()
        deadline = Deadline.after(STALLED_TIMEOUT_S)
        for real in {consumer.topic for consumer in self._consumers.values() if topic in (None, consumer.topic)}:
            wait_until(partial(self._is_settled, real), deadline)

    def _is_settled(self, topic: str) -> bool:
        stats = self._world.admin.internal_stats(topic)
        consumers = [one for one in self._consumers.values() if one.topic == topic]
        return all(stats.cursors[one.subscription].state != "SwitchingLedger" for one in consumers) and all(
            not unacknowledged(stats, one.subscription) & one.acknowledged for one in consumers
        )

    def reloaded(self, topic: str | None = None) -> None:
        """A topic, by its real name (None: every topic), was reloaded: its consumers reconnect."""
        for consumer in self._consumers.values():
            if topic in (None, consumer.topic):
                consumer.reset()
        for session, producer in list(self._producers.items()):
            if topic in (None, producer.topic) and isinstance(producer, CraftingSession):
                producer.crash()
                del self._producers[session]
        self._stalled = {key for key in self._stalled if topic is not None and key[0] != topic}

    # ------------------------------------------------------------------------------------------------------- reading

    def _log(self, topic: str) -> Iterator[LoggedPart]:
        # Only digests are kept, and few entries are in flight, since they may be of the maximum size.
        last = last_stored(self._world.admin.internal_stats(topic))
        reader = self._world.reader
        if last is not None:
            for entry in logs.each_entry(reader, topic, timeout_s=ANSWER_TIMEOUT_S, last=last, ahead=READ_AHEAD):
                yield _logged(entry)

    def _backlog(self, topic: str, subscription: str) -> AnyOutcome:
        consumers = self._on(topic, subscription)
        traffic = tuple(consumer.traffic_passed() for consumer in consumers)
        acknowledged = {position for consumer in consumers for position in consumer.acknowledged}
        left: frozenset[Position] | None = None

        def has_all_acks() -> bool:
            nonlocal left
            stats = self._world.admin.internal_stats(topic)
            left = unacknowledged(stats, subscription) if subscription in stats.cursors else None
            return left is None or not left & acknowledged

        wait_until(has_all_acks, GATHER_TIMEOUT_S)
        if left is None:
            return Skipped("there is no such subscription")
        return UnacknowledgedRead(tuple(sorted(left)), traffic)

    def _rate(self, topic: str, operation: ReadChunkRate) -> AnyOutcome:
        producer = self._producers.get(operation.session)
        if not isinstance(producer, WatchedSession):
            return Skipped("there is no such session of pulsar-client")
        period_s = self._world.stats_period_s
        if period_s > MOST_PERIOD_S:
            return Skipped(f"rates are refreshed only every {period_s:g} s")
        deadline, patience = Deadline.after(2.5 * period_s), Deadline.after(10 * period_s)
        sent: list[Sent] = []
        rate, is_chunked = 0.0, False
        # After chunks were published there must be a rate, which a busy broker may show late. One refresh of the
        # stats sets the rate first and the flag later, and a request may fall between.
        while (rate <= 0 or not is_chunked) and not (patience if is_chunked else deadline).passed:
            producer.send((numbered(operation.message, len(sent)),))
            sent.append(producer.sent())
            stats = self._world.admin.stats(topic)
            is_chunked = stats.chunk_published
            rate = max(rate, stats.chunked_message_rate)
        return ChunkRate(rate, is_chunked, _together(sent))

    @property
    def _service(self) -> Service:
        return self._world.service

    def close(self) -> None:
        """End all producers and consumers."""
        for producer in self._producers.values():
            producer.crash()
        for consumer in self._consumers.values():
            consumer.leave(crashes=True)
        self._producers.clear()
        self._consumers.clear()


def _together(sent: list[Sent]) -> Sent:
    answers = tuple(answer for each in sent for answer in each.answers)
    return Sent(answers, lives=tuple(life for each in sent for life in each.lives))


def _patiently(open_: Callable[[], T]) -> T | Refused:
    """Open a producer or consumer, with retries while the broker refuses it for a passing reason."""
    deadline = Deadline.after(OPEN_TIMEOUT_S)
    while True:
        try:
            return open_()
        except ServerRefused as refused:
            if not (refused.may_pass or refused.code in _MAY_PASS) or deadline.passed:
                return Refused(refused.code, refused.message)
            time.sleep(_PAUSE_S)


def _logged(entry: logs.ParsedEntry) -> LoggedPart:
    payload = entry.messages[0][1]
    metadata = entry.metadata
    before_split = pb.MessageMetadata()
    before_split.CopyFrom(metadata)
    for field in ("uuid", "chunk_id", "num_chunks_from_msg", "total_chunk_msg_size"):
        before_split.ClearField(field)
    part = Part(metadata.sequence_id, digest(payload))
    if metadata.HasField("chunk_id"):
        part = Part(
            metadata.sequence_id,
            digest(payload),
            metadata.uuid,
            metadata.chunk_id,
            metadata.num_chunks_from_msg,
            metadata.total_chunk_msg_size,
        )
    return LoggedPart(
        position=entry.position,
        producer=entry.producer_name,
        part=part,
        size_bytes=len(payload),
        metadata_bytes=before_split.ByteSize(),
        compression=_COMPRESSIONS[metadata.compression],
    )
