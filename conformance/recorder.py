"""Records an application's own producers and consumers: a thin wrapper around those of pulsar-client.

It records their operations in a history (``docs/histories.md``), which ``verify`` judges. It changes one thing: it
sends each message with a sequence id, the application's or the next one, because the client does not return the id that
it assigns itself.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import pulsar

from conformance.clients.admin.client import Admin
from conformance.clients.driver.client import delivery_of
from conformance.clients.handles import ConsumerHandle, ReceivedMessage, SubscriptionConfig, message_of
from conformance.clients.security.service import Service
from conformance.clients.wire.client import WireClient
from conformance.clients.wire.consumer import Kind as SubscriptionType
from conformance.digest import digest
from conformance.history.about import About
from conformance.history.lane_recorder import LaneRecorder, now_ns
from conformance.history.recorded import CallOutcome, Kind
from conformance.proxy.dispatch_times import DispatchTimes
from conformance.topic_reader import read_back, read_beginning, read_passed_on

TYPE_NAMES: Final[Mapping[Any, SubscriptionType]] = {
    pulsar.ConsumerType.Exclusive: "Exclusive",
    pulsar.ConsumerType.Shared: "Shared",
    pulsar.ConsumerType.Failover: "Failover",
    pulsar.ConsumerType.KeyShared: "Key_Shared",
}

CONNECT_TIMEOUT_S = 10.0

NOTICED_WITHIN_NS = 5_000_000_000
"""How late the proxy may notice that the broker has closed a connection."""

_PARTITION = re.compile(r"-partition-\d+$")


class Recorder:
    """Records one process, as one lane of a run.

    ``run``: the same for all processes that share a clock, that is, a machine. ``lane``: this process's own.
    ``dispatch_times``: the ``record`` for the proxy, if all clients of the process connect through one; without it,
    rules about the time of dispatch are not judged. Consumers of a topic must have different names. ``about``: the
    broker's release and settings, which known deviations need.
    """

    def __init__(self, folder: Path, *, run: str, lane: str, cluster: str = "", about: About | None = None) -> None:
        self.recording = LaneRecorder(folder, run=run, lane=lane, cluster=cluster, about=about)
        self.dispatch_times = DispatchTimes(on_gone=self._gone)
        self._first_ledgers: dict[str, int | None] = {}
        self._consumers: dict[tuple[str, str], ConsumerEvents] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def producer(self, producer: Any) -> RecordedProducer:
        """Record a producer of pulsar-client; use only the returned one."""
        return RecordedProducer(self.recording, producer)

    def consumer(
        self, consumer: Any, consumer_type: Any, *, is_confirmed: bool = False, is_replicated: bool = False
    ) -> RecordedConsumer:
        """Record a consumer of pulsar-client, of this ``pulsar.ConsumerType``, or an object with the same methods.

        ``is_confirmed``: its acks return only after the broker has confirmed them; pulsar-client's do not.
        ``is_replicated``: it was created with ``replicate_subscription_state_enabled``.
        """
        subscription = SubscriptionConfig(
            topic=consumer.topic(),
            name=consumer.subscription_name(),
            kind=TYPE_NAMES[consumer_type],
            consumer_name=consumer.consumer_name(),
            is_replicated=is_replicated,
        )
        return RecordedConsumer(consumer, self._events(subscription, is_confirmed=is_confirmed))

    def handle(self, handle: ConsumerHandle, subscription: SubscriptionConfig, *, is_confirmed: bool) -> RecordedHandle:
        """Record a consumer handle of the suite; ``is_confirmed`` as for :meth:`consumer`."""
        return RecordedHandle(handle, self._events(subscription, is_confirmed=is_confirmed))

    def _events(self, subscription: SubscriptionConfig, *, is_confirmed: bool) -> ConsumerEvents:
        events = ConsumerEvents(self.recording, self.dispatch_times, subscription, is_confirmed=is_confirmed)
        self._consumers[events.topic, events.name] = events
        return events

    def begin(self, admin_url: Service | str, topics: Iterable[str]) -> None:
        """Record topics and their subscriptions before the first send and ack.

        Without it, ``verify`` judges neither deduplication, nor loss, nor mark-delete positions. Raises
        :class:`~conformance.harness_error.HarnessError` if the broker does not answer.
        """
        with Admin(admin_url) as admin:
            for topic in _with_partitions(admin, topics):
                self._first_ledgers[topic] = read_beginning(self.recording, admin, topic)

    def read_back(self, service_url: Service | str, admin_url: Service | str, topics: Iterable[str]) -> None:
        """Record the logs and cursors of topics after the last send and ack.

        Without it, or if the beginning of a log is trimmed, ``verify`` does not judge loss. Raises
        :class:`~conformance.harness_error.HarnessError` if the broker does not answer.
        """
        client = WireClient.connect(service_url, timeout_s=CONNECT_TIMEOUT_S)
        try:
            with Admin(admin_url) as admin:
                for topic in _with_partitions(admin, topics):
                    first = self._first_ledgers.get(topic)
                    read_passed_on(self.recording, admin, topic)
                    read_back(self.recording, client, admin, topic, first_ledger=first)
        finally:
            client.abort()

    def close(self) -> None:
        """Write the remaining events."""
        self.recording.close()

    def _gone(self, topic: str, name: str, at_ns: int) -> None:
        """The proxy saw the end of a consumer's connection; the broker may have redelivered its messages before."""
        consumer = self._consumers.get((_PARTITION.sub("", topic), name))
        if consumer is not None:
            consumer.is_gone(invoked_ns=at_ns - NOTICED_WITHIN_NS, completed_ns=at_ns)


class RecordedProducer:
    """A producer whose sends are recorded; thread-safe."""

    def __init__(self, recording: LaneRecorder, producer: Any) -> None:
        self._recording = recording
        self._producer = producer
        self._topic: str = producer.topic()
        self._name: str = producer.producer_name()
        self._last = max(producer.last_sequence_id(), 0)  # id 0 means none to the client
        self._lock = threading.Lock()

    def send(self, content: bytes, *, sequence_id: int | None = None, **options: Any) -> Any:
        """Send and wait; options, message id and errors are those of pulsar-client."""
        fields = self._send_fields(content, sequence_id, options)
        try:
            message_id = self._producer.send(content, sequence_id=fields["sequence_id"], **options)
        except pulsar.PulsarException:
            self._recording.record(Kind.SEND, outcome=CallOutcome.UNKNOWN, **fields)
            raise
        self._confirmed(fields, message_id)
        return message_id

    def send_async(
        self, content: bytes, callback: Callable[[Any, Any], None], *, sequence_id: int | None = None, **options: Any
    ) -> int:
        """Send without waiting; returns the sequence id. ``callback`` gets result and message id on another thread.

        An exception in ``callback`` would end the process.
        """
        fields = self._send_fields(content, sequence_id, options)

        def answered(result: Any, message_id: Any) -> None:
            if result == pulsar.Result.Ok:
                self._confirmed(fields, message_id)
            else:
                self._recording.record(Kind.SEND, outcome=CallOutcome.UNKNOWN, **fields)
            callback(result, message_id)

        self._producer.send_async(content, answered, sequence_id=fields["sequence_id"], **options)
        chosen: int = fields["sequence_id"]
        return chosen

    def producer_name(self) -> str:
        return self._name

    def last_sequence_id(self) -> int:
        return int(self._producer.last_sequence_id())

    def flush(self) -> None:
        self._producer.flush()

    def close(self) -> None:
        self._producer.close()

    def _send_fields(self, content: bytes, sequence_id: int | None, options: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            self._last = max(self._last, sequence_id or self._last + 1)
            chosen = sequence_id or self._last
        return {
            "topic": self._topic,
            "producer": self._name,
            "sequence_id": chosen,
            "digest": digest(content),
            "size_bytes": len(content),
            "key": options.get("ordering_key") or options.get("partition_key"),
            "invoked_ns": now_ns(),
        }

    def _confirmed(self, fields: dict[str, Any], message_id: Any) -> None:
        if message_id.ledger_id() < 0 and message_id.entry_id() < 0:
            self._recording.record(Kind.SEND, outcome=CallOutcome.DUPLICATE, **fields)
            return
        topic = _of_partition(self._topic, message_id.partition())
        self._recording.record(Kind.SEND, **{**fields, **_place(message_id), "topic": topic})


class ConsumerEvents:
    """The recorded events of one consumer; thread-safe."""

    def __init__(
        self,
        recording: LaneRecorder,
        dispatch_times: DispatchTimes,
        subscription: SubscriptionConfig,
        *,
        is_confirmed: bool,
    ) -> None:
        """``is_confirmed``: an ack returns only after the broker has confirmed it."""
        self.topic = subscription.topic
        self.name = subscription.consumer_name or ""
        self._ack_outcome = CallOutcome.OK if is_confirmed else CallOutcome.UNKNOWN
        self._is_closed = False
        self._recording = recording
        self._dispatch_times = dispatch_times
        self._who: dict[str, Any] = {
            "subscription": subscription.name,
            "subscription_type": subscription.kind,
            "consumer": self.name,
        }
        replicated = bool(subscription.is_replicated)
        recording.record(Kind.SUBSCRIBE, topic=self.topic, replicated=replicated, invoked_ns=now_ns(), **self._who)

    def dispatched(self, message: ReceivedMessage, topic: str) -> None:
        """Record a received message of this topic or partition."""
        received_ns = now_ns()
        seen = self._dispatch_times.of(topic, self.name, message.position)
        chunk = None if seen is None else seen.chunk
        self._recording.record(
            Kind.DISPATCH,
            topic=topic,
            producer=message.producer_name or None,
            key=message.key,
            digest=digest(message.payload),
            size_bytes=len(message.payload),
            redeliveries=message.redelivery_count,
            chunk_uuid=None if chunk is None else chunk.uuid,
            chunks=None if chunk is None else chunk.chunks,
            invoked_ns=None if seen is None else seen.sent_ns,
            completed_ns=received_ns,
            **_place_of(message),
            **self._who,
        )

    @contextmanager
    def acknowledges(self, kind: Kind, place: Mapping[str, int], topic: str) -> Iterator[None]:
        """Record an ack or nack of a message by the ``with`` block; if the block raises, the outcome is unknown."""
        invoked_ns = now_ns()
        outcome = CallOutcome.UNKNOWN
        try:
            yield
            outcome = CallOutcome.OK if kind is Kind.NACK else self._ack_outcome
        finally:
            self._recording.record(kind, topic=topic, outcome=outcome, invoked_ns=invoked_ns, **place, **self._who)

    @contextmanager
    def loses_all(self, kind: Kind) -> Iterator[None]:
        """Record a close, or a redelivery request for everything, by the ``with`` block."""
        invoked_ns = now_ns()
        try:
            yield
        finally:
            self._recording.record(kind, topic=self.topic, invoked_ns=invoked_ns, **self._who)
        self._is_closed = kind is Kind.UNSUBSCRIBE

    def is_gone(self, *, invoked_ns: int, completed_ns: int) -> None:
        """Record that the broker disconnected it within that time, unless it was closed."""
        if self._is_closed:
            return
        self._recording.record(
            Kind.UNSUBSCRIBE, topic=self.topic, invoked_ns=invoked_ns, completed_ns=completed_ns, **self._who
        )


class RecordedConsumer:
    """A consumer of pulsar-client whose messages and acks are recorded; thread-safe."""

    def __init__(self, consumer: Any, events: ConsumerEvents) -> None:
        self._consumer = consumer
        self._events = events

    def receive(self, timeout_millis: int | None = None) -> Any:
        """Receive the next message; type and errors are those of pulsar-client."""
        message = self._consumer.receive(timeout_millis)
        self._events.dispatched(message_of(delivery_of(message)), message.topic_name())
        return message

    def acknowledge(self, message: Any) -> None:
        """Acknowledge a received message; pulsar-client does not confirm that the broker has the ack."""
        with self._acknowledges(Kind.ACK, message):
            self._consumer.acknowledge(message)

    def acknowledge_cumulative(self, message: Any) -> None:
        """Acknowledge everything up to a received message."""
        with self._acknowledges(Kind.ACK_CUMULATIVE, message):
            self._consumer.acknowledge_cumulative(message)

    def negative_acknowledge(self, message: Any) -> None:
        """Nack a received message."""
        with self._acknowledges(Kind.NACK, message):
            self._consumer.negative_acknowledge(message)

    def redeliver_unacknowledged_messages(self) -> None:
        """Request the redelivery of all unacknowledged messages."""
        with self._events.loses_all(Kind.REDELIVER):
            self._consumer.redeliver_unacknowledged_messages()

    def close(self) -> None:
        """Close it; others receive its unacknowledged messages."""
        with self._events.loses_all(Kind.UNSUBSCRIBE):
            self._consumer.close()

    def _acknowledges(self, kind: Kind, message: Any) -> AbstractContextManager[None]:
        return self._events.acknowledges(kind, _place(message.message_id()), message.topic_name())


class RecordedHandle:
    """A consumer handle whose messages and acks are recorded."""

    def __init__(self, handle: ConsumerHandle, events: ConsumerEvents) -> None:
        self._handle = handle
        self._events = events

    def receive(self, *, timeout_s: float) -> ReceivedMessage | None:
        """As the handle."""
        message = self._handle.receive(timeout_s=timeout_s)
        if message is not None:
            self._events.dispatched(message, self._events.topic)
        return message

    def ack(self, messages: Sequence[ReceivedMessage], *, cumulative: bool = False) -> None:
        """As the handle, one message after the other."""
        kind = Kind.ACK_CUMULATIVE if cumulative else Kind.ACK
        for message in messages:
            with self._events.acknowledges(kind, _place_of(message), self._events.topic):
                self._handle.ack([message], cumulative=cumulative)

    def redeliver(self, messages: Sequence[ReceivedMessage]) -> None:
        """As the handle, one message after the other."""
        for message in messages:
            with self._events.acknowledges(Kind.NACK, _place_of(message), self._events.topic):
                self._handle.redeliver([message])

    def close(self) -> None:
        """As the handle."""
        with self._events.loses_all(Kind.UNSUBSCRIBE):
            self._handle.close()


def _with_partitions(admin: Admin, topics: Iterable[str]) -> Iterator[str]:
    """The topics, a partitioned one by its partitions."""
    for topic in topics:
        partitions = admin.partitions(topic)
        yield from (_of_partition(topic, number) for number in range(partitions)) if partitions else (topic,)


def _place(message_id: Any) -> dict[str, int]:
    return {
        "ledger": message_id.ledger_id(),
        "entry": message_id.entry_id(),
        "batch_index": message_id.batch_index(),
    }


def _place_of(message: ReceivedMessage) -> dict[str, int]:
    return {
        "ledger": message.position.ledger,
        "entry": message.position.entry,
        "batch_index": message.batch_index,
    }


def _of_partition(topic: str, partition: int) -> str:
    return topic if partition < 0 else f"{topic}-partition-{partition}"
