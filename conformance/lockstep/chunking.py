"""Carries out the operations of document 002 on a real broker: chunked messages, watched on the wire.

Gathering waits for what must come by the model's own reckoning, and no longer: what the broker must send
(:func:`model.chunking.dispatching.due`), and what a client must deliver of that. What does not come within the deadline
is for the model to judge.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, MutableMapping
from typing import Final, TypeVar, assert_never

from conformance.clients import protocol_pb2 as pb
from conformance.clients.admin.backlog import unacknowledged
from conformance.clients.admin.http import AdminError
from conformance.clients.outcomes import ServerRefused
from conformance.clients.security.service import Service
from conformance.clients.wire import read_log as logs
from conformance.lockstep.chunking_consumers import ChunkConsumer
from conformance.lockstep.chunking_producers import (
    ChunkProducer,
    OfficialChunkProducer,
    WireChunkProducer,
    payload_named,
)
from conformance.lockstep.proxied import LIMIT_BYTES
from conformance.lockstep.world import World
from conformance.wait import Deadline
from model.chunking import dispatching
from model.chunking.payloads import digest
from model.chunking.vocabulary import (
    AcknowledgeChunked,
    ChunkedAsked,
    ChunkedBacklog,
    ChunkedGathered,
    ChunkedLeft,
    ChunkedLog,
    ChunkedSubscribed,
    ChunkedTopic,
    ChunkOperation,
    ChunkRate,
    Compression,
    CreateChunkedTopic,
    GatherChunked,
    GiveBack,
    LeaveChunked,
    LeaveChunking,
    LoggedPart,
    MoveSubscription,
    OpenChunking,
    Part,
    PayloadsInterleaved,
    PayloadsSent,
    ReadChunkedBacklog,
    ReadChunkedLog,
    ReadChunkRate,
    SendCrafted,
    SendInterleaved,
    SendPayloads,
    SubscribeChunked,
    SubscriptionMoved,
)
from model.events import AnyOutcome, Done, Opened, Refused, Skipped
from model.log import Position

GATHER_TIMEOUT_S: Final = 5.0
"""How long what must come may take."""
STALLED_TIMEOUT_S: Final = 0.5
"""The same, where something did not come before and nothing was done about it."""
GRACE_S: Final = 0.5
"""How long a client may take to deliver what it was sent, where by what is known of clients it may do otherwise."""
OPEN_TIMEOUT_S: Final = 30.0
"""How long a topic may take to let somebody in, after it was moved or another one of the name was there."""
ANSWER_TIMEOUT_S: Final = 10.0
READ_AHEAD: Final = 16
"""How many entries of a log are on their way to whoever reads it."""
MOST_PERIOD_S: Final = 5.0
"""Rates that are refreshed less often are not waited for."""
_MAY_PASS: Final = frozenset({"ProducerBusy", "ConsumerBusy"})
_PAUSE_S: Final = 0.003
_COMPRESSIONS: Final[dict[int, Compression]] = {pb.NONE: "none", pb.LZ4: "lz4", pb.ZLIB: "zlib"}

T = TypeVar("T")

Unload = Callable[[str], object]
"""Unloads a topic, by its name in the history."""


class Chunks:
    """The part of document 002 in one example."""

    def __init__(self, world: World, example: int, topics: MutableMapping[str, str], unload: Unload) -> None:
        self._world = world
        self._example = example
        self._topics = topics
        self._unload = unload
        self._producers: dict[str, ChunkProducer] = {}
        self._consumers: dict[str, ChunkConsumer] = {}
        self._stalled: set[tuple[str, str]] = set()

    def perform(self, operation: ChunkOperation) -> AnyOutcome:
        """Carry out one operation and say what was seen."""
        match operation:
            case CreateChunkedTopic():
                return self._create(operation)
            case OpenChunking():
                return self._open(operation)
            case SendPayloads():
                return self._send(operation)
            case SendInterleaved():
                return self._interleave(operation)
            case SendCrafted():
                return self._send_crafted(operation)
            case LeaveChunking(session, crashes):
                producer = self._producers.pop(session, None)
                if producer is None:
                    return Skipped("there is no such session")
                producer.leave(crashes=crashes)
                return Done()
            case SubscribeChunked():
                return self._subscribe(operation)
            case AcknowledgeChunked() | GiveBack():
                return self._ask(operation)
            case LeaveChunked(name, crashes):
                return self._leave(name, crashes=crashes)
            case GatherChunked() | MoveSubscription() | ReadChunkedLog() | ReadChunkedBacklog() | ReadChunkRate():
                return self._on_topic(operation)
            case _:
                assert_never(operation)

    def _on_topic(
        self, operation: GatherChunked | MoveSubscription | ReadChunkedLog | ReadChunkedBacklog | ReadChunkRate
    ) -> AnyOutcome:
        topic = self._topics.get(operation.topic)
        if topic is None:
            return Skipped("there is no such topic")
        match operation:
            case GatherChunked(_, subscription):
                return self._gather(topic, subscription)
            case MoveSubscription():
                return self._move_subscription(topic, operation)
            case ReadChunkedLog():
                return ChunkedLog(tuple(self._log(topic)))
            case ReadChunkedBacklog(_, subscription):
                return self._backlog(topic, subscription)
            case ReadChunkRate():
                return self._rate(topic, operation)
            case _:
                assert_never(operation)

    def _create(self, operation: CreateChunkedTopic) -> AnyOutcome:
        namespace = self._world.namespace_for("namespace-on" if operation.deduplication else "namespace-off")
        name = f"persistent://{namespace}/e{self._example}-{operation.topic}"
        self._world.admin.create_topic(name)
        self._topics[operation.topic] = name
        return ChunkedTopic(min(LIMIT_BYTES, self._world.max_message_bytes), operation.deduplication)

    # ----------------------------------------------------------------------------------------------------- producers

    def _open(self, operation: OpenChunking) -> AnyOutcome:
        topic = self._topics.get(operation.topic)
        if topic is None:
            return Skipped("there is no such topic")
        kind = WireChunkProducer if operation.client == "wire" else OfficialChunkProducer
        if (before := self._producers.pop(operation.session, None)) is not None:
            before.leave(crashes=False)
        if any((one.topic, one.name) == (topic, operation.producer) for one in self._producers.values()):
            return Skipped("another session has the name")
        opened = _patiently(lambda: kind(self._service, topic, operation))
        if isinstance(opened, Refused):
            return opened
        self._producers[operation.session] = opened
        return Opened(opened.last_sequence_id)

    def _send(self, operation: SendPayloads) -> AnyOutcome:
        producer = self._producers.get(operation.session)
        if not isinstance(producer, OfficialChunkProducer):
            return Skipped("there is no such session of pulsar-client")
        names = {real: name for name, real in self._topics.items()}
        sent = producer.send(operation, lambda: self._unload(names[producer.topic]))
        if sent.died:
            del self._producers[operation.session]
        return sent

    def _interleave(self, operation: SendInterleaved) -> AnyOutcome:
        first, second = self._producers.get(operation.session), self._producers.get(operation.other)
        if not isinstance(first, OfficialChunkProducer) or not isinstance(second, OfficialChunkProducer):
            return Skipped("there are no such sessions of pulsar-client")
        if first is second:
            return Skipped("it takes two producers")
        held = first.held_behind(operation.after)
        tickets = first.start(operation.payloads)
        first.await_held(held, operation.after, tickets)
        other = second.finish(second.start(operation.others))
        held.lift()
        return PayloadsInterleaved(first.finish(tickets), other)

    def _send_crafted(self, operation: SendCrafted) -> AnyOutcome:
        producer = self._producers.get(operation.session)
        if not isinstance(producer, WireChunkProducer):
            return Skipped("there is no such session of the wire client")
        if not producer.is_open:
            return Skipped("the session was closed from the other side")
        return producer.send(operation.chunks)

    # ----------------------------------------------------------------------------------------------------- consumers

    def _subscribe(self, operation: SubscribeChunked) -> AnyOutcome:
        topic = self._topics.get(operation.topic)
        if topic is None:
            return Skipped("there is no such topic")
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
        return ChunkedSubscribed()

    def _on(self, topic: str, subscription: str) -> list[ChunkConsumer]:
        return [one for one in self._consumers.values() if (one.topic, one.subscription) == (topic, subscription)]

    def _gather(self, topic: str, subscription: str) -> AnyOutcome:
        consumers = self._on(topic, subscription)
        if not consumers:
            return Skipped("nobody is there")
        key = (topic, subscription)
        deadline = Deadline.after(STALLED_TIMEOUT_S if key in self._stalled else GATHER_TIMEOUT_S)
        log = tuple(self._log(topic))
        while True:
            self._receive(topic, subscription, log, deadline)
            before, log = log, tuple(self._log(topic))
            # What a producer that died had in flight may be stored only now.
            if log == before or deadline.passed:
                break
        if self._due(topic, subscription, log):
            self._stalled.add(key)
        return ChunkedGathered(log, tuple(consumer.tell() for consumer in consumers))

    def _receive(self, topic: str, subscription: str, log: tuple[LoggedPart, ...], deadline: Deadline) -> None:
        """Receive until all has come that must come of this log, or the deadline has passed."""
        consumers = self._on(topic, subscription)
        grace = Deadline.after(GRACE_S)
        while True:
            came = [consumer.take_in() for consumer in consumers]
            if any(came):
                grace = Deadline.after(GRACE_S)
            is_all_sent = not self._due(topic, subscription, log)
            if is_all_sent and all(consumer.is_explained for consumer in consumers):
                return
            if is_all_sent and grace.passed and all(consumer.may_be_explained for consumer in consumers):
                return
            if deadline.passed:
                return
            time.sleep(_PAUSE_S)

    def _due(self, topic: str, subscription: str, log: tuple[LoggedPart, ...]) -> list[Position]:
        consumers = self._on(topic, subscription)
        open_ = unacknowledged(self._world.admin.internal_stats(topic), subscription)
        left = [entry for entry in log if entry.position in open_]
        return dispatching.due(consumers[0].kind, left, [consumer.holds for consumer in consumers])

    def _ask(self, operation: AcknowledgeChunked | GiveBack) -> AnyOutcome:
        consumer = self._consumers.get(operation.consumer)
        if consumer is None:
            return Skipped("there is no such consumer")
        if operation.nth is None:
            assert isinstance(operation, GiveBack)
            consumer.give_back(None)
            return ChunkedAsked(None, consumer.tell_passed())
        chosen = consumer.pick(operation.nth)
        if not chosen:
            return Skipped("it has no message")
        if isinstance(operation, GiveBack):
            consumer.give_back(chosen)
        else:
            consumer.acknowledge(chosen, is_cumulative=operation.is_cumulative)
        self._stalled.discard((consumer.topic, consumer.subscription))
        return ChunkedAsked(tuple(chosen), consumer.tell_passed())

    def _leave(self, name: str, *, crashes: bool) -> AnyOutcome:
        consumer = self._consumers.pop(name, None)
        if consumer is None:
            return Skipped("there is no such consumer")
        stream = consumer.leave(crashes=crashes)
        deadline = Deadline.after(ANSWER_TIMEOUT_S)
        while not deadline.passed:
            subscription = self._world.admin.stats(consumer.topic).subscriptions.get(consumer.subscription)
            if subscription is None or all(one.consumer_name != name for one in subscription.consumers):
                break
            time.sleep(_PAUSE_S)
        return ChunkedLeft(stream)

    # ------------------------------------------------------------------------------------------------ administration

    def _move_subscription(self, topic: str, operation: MoveSubscription) -> AnyOutcome:
        admin, subscription = self._world.admin, operation.subscription
        log = list(self._log(topic))
        if subscription not in admin.internal_stats(topic).cursors or not log:
            return Skipped("there is no such subscription, or nothing in the log")
        before = unacknowledged(admin.internal_stats(topic), subscription)
        streams = tuple(consumer.tell_passed() for consumer in self._on(topic, subscription))
        place = log[operation.entries % len(log)].position
        try:
            match operation.how:
                case "skip":
                    admin.skip(topic, subscription, max(1, min(operation.entries, len(before))))
                case "expire":
                    admin.expire_up_to(topic, subscription, place)
                    self._await_expired(topic, subscription, place)
                case "reset":
                    admin.reset_cursor(topic, subscription, place)
                    for consumer in self._on(topic, subscription):
                        consumer.forget()
                case _:
                    assert_never(operation.how)
        except AdminError as error:
            return Refused(str(error.status), str(error))
        self._stalled.discard((topic, subscription))
        after = unacknowledged(admin.internal_stats(topic), subscription)
        return SubscriptionMoved(tuple(sorted(before)), tuple(sorted(after)), streams)

    def _await_expired(self, topic: str, subscription: str, place: Position) -> None:
        """Wait until nothing is left up to a place."""
        deadline = Deadline.after(GATHER_TIMEOUT_S)
        while not deadline.passed:
            left = unacknowledged(self._world.admin.internal_stats(topic), subscription)
            if all(position > place for position in left):
                return
            time.sleep(_PAUSE_S)

    def before_move(self, topic: str | None = None) -> None:
        """Wait until the broker has what was acknowledged: what a move makes of the rest is document 003's matter."""
        deadline = Deadline.after(STALLED_TIMEOUT_S)
        for real in {consumer.topic for consumer in self._consumers.values() if topic in (None, consumer.topic)}:
            while not self._is_settled(real) and not deadline.passed:
                time.sleep(_PAUSE_S)

    def _is_settled(self, topic: str) -> bool:
        stats = self._world.admin.internal_stats(topic)
        consumers = [one for one in self._consumers.values() if one.topic == topic]
        return all(stats.cursors[one.subscription].state != "SwitchingLedger" for one in consumers) and all(
            not unacknowledged(stats, one.subscription) & one.acknowledged for one in consumers
        )

    def moved(self, topic: str | None = None) -> None:
        """A topic, by its real name (None: every topic), was moved: its consumers come anew."""
        for consumer in self._consumers.values():
            if topic in (None, consumer.topic):
                consumer.forget()
        for session, producer in list(self._producers.items()):
            if topic in (None, producer.topic) and isinstance(producer, WireChunkProducer):
                producer.leave(crashes=True)
                del self._producers[session]
        self._stalled = {key for key in self._stalled if topic is not None and key[0] != topic}

    # ------------------------------------------------------------------------------------------------------- reading

    def _log(self, topic: str) -> Iterator[LoggedPart]:
        # Only digests are kept, and few entries are on their way: they may be as large as a broker takes.
        for entry in logs.each_entry(self._world.reader, topic, timeout_s=ANSWER_TIMEOUT_S, ahead=READ_AHEAD):
            yield _logged(entry)

    def _backlog(self, topic: str, subscription: str) -> AnyOutcome:
        consumers = self._on(topic, subscription)
        streams = tuple(consumer.tell_passed() for consumer in consumers)
        acknowledged = {position for consumer in consumers for position in consumer.acknowledged}
        deadline = Deadline.after(GATHER_TIMEOUT_S)
        while True:
            stats = self._world.admin.internal_stats(topic)
            if subscription not in stats.cursors:
                return Skipped("there is no such subscription")
            left = unacknowledged(stats, subscription)
            if not left & acknowledged or deadline.passed:
                return ChunkedBacklog(tuple(sorted(left)), streams)
            time.sleep(_PAUSE_S)

    def _rate(self, topic: str, operation: ReadChunkRate) -> AnyOutcome:
        producer = self._producers.get(operation.session)
        if not isinstance(producer, OfficialChunkProducer):
            return Skipped("there is no such session of pulsar-client")
        period_s = self._world.stats_period_s
        if period_s > MOST_PERIOD_S:
            return Skipped(f"rates are refreshed only every {period_s:g} s")
        deadline, patience = Deadline.after(2.5 * period_s), Deadline.after(10 * period_s)
        sent: list[PayloadsSent] = []
        rate, is_chunked = 0.0, False
        # Where chunks were published there must be a rate, which a busy broker may be late with. One refresh of the
        # stats sets the rate first and the flag later, and a look may fall between.
        while (rate <= 0 or not is_chunked) and not (patience if is_chunked else deadline).passed:
            payload = payload_named(operation.payload, len(sent))
            sent.append(producer.send(SendPayloads(operation.session, (payload,)), lambda: None))
            stats = self._world.admin.stats(topic)
            is_chunked = stats.chunk_published
            rate = max(rate, *(publisher.chunked_message_rate for publisher in stats.publishers))
        return ChunkRate(rate, is_chunked, _together(sent))

    @property
    def _service(self) -> Service:
        return self._world.service

    def close(self) -> None:
        """End all producers and consumers."""
        for producer in self._producers.values():
            producer.leave(crashes=True)
        for consumer in self._consumers.values():
            consumer.leave(crashes=True)
        self._producers.clear()
        self._consumers.clear()


def _together(sent: list[PayloadsSent]) -> PayloadsSent:
    return PayloadsSent(
        confirmed=tuple(one for each in sent for one in each.confirmed),
        errors=tuple(one for each in sent for one in each.errors),
        lives=tuple(life for each in sent for life in each.lives),
    )


def _patiently(open_: Callable[[], T]) -> T | Refused:
    """Open something, again and again while the broker only says that it cannot be yet."""
    deadline = Deadline.after(OPEN_TIMEOUT_S)
    while True:
        try:
            return open_()
        except ServerRefused as refused:
            if not (refused.may_pass or refused.code in _MAY_PASS) or deadline.passed:
                return Refused(refused.code, refused.message)
            time.sleep(_PAUSE_S)


def _logged(entry: logs.LoggedEntry) -> LoggedPart:
    payload = entry.messages[0][1]
    said = entry.metadata
    before_split = pb.MessageMetadata()
    before_split.CopyFrom(said)
    for field in ("uuid", "chunk_id", "num_chunks_from_msg", "total_chunk_msg_size"):
        before_split.ClearField(field)
    part = Part(said.sequence_id, digest(payload))
    if said.HasField("chunk_id"):
        part = Part(
            said.sequence_id,
            digest(payload),
            said.uuid,
            said.chunk_id,
            said.num_chunks_from_msg,
            said.total_chunk_msg_size,
        )
    return LoggedPart(
        position=entry.position,
        producer=entry.producer_name,
        part=part,
        size_bytes=len(payload),
        metadata_bytes=before_split.ByteSize(),
        compression=_COMPRESSIONS[said.compression],
    )
