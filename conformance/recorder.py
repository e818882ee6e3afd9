"""Records an application's own producers and consumers: a thin wrapper around those of pulsar-client.

What passes through it is written into a history (``docs/histories.md``), which ``verify`` judges. It changes one thing:
each message is sent with a sequence id, the application's or else the next one, because the client does not tell which
id it gave a message on its own.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pulsar

from conformance.clients.admin.client import Admin
from conformance.clients.security.service import Service
from conformance.clients.wire.client import WireClient
from conformance.history.about import About
from conformance.history.recorded import Kind, Outcome, digest
from conformance.history.recording import Recording, now_ns
from conformance.proxy.dispatch_times import Sightings
from conformance.reading_back import read_back, read_beginning, read_passed_on
from model.log import Position

TYPE_NAMES = {
    pulsar.ConsumerType.Exclusive: "Exclusive",
    pulsar.ConsumerType.Shared: "Shared",
    pulsar.ConsumerType.Failover: "Failover",
    pulsar.ConsumerType.KeyShared: "Key_Shared",
}

CONNECT_TIMEOUT_S = 10.0

NOTICED_WITHIN_NS = 5_000_000_000
"""How late the proxy may notice at the most that the broker has ended a connection."""

_PARTITION = re.compile(r"-partition-\d+$")


class Recorder:
    """Records what one process does, as one lane of a run.

    ``run``: the same for all processes whose clocks are the same, that is, of one machine; ``lane``: this process's
    own. ``sightings`` is what a proxy is given as ``record``, if all of the process's clients go through one; without
    that, rules about what the broker sends when are not judged. No two consumers of a topic may have one name.
    ``about``: the release and settings of the broker, where deviations of it are to be known.
    """

    def __init__(self, folder: Path, *, run: str, lane: str, cluster: str = "", about: About | None = None) -> None:
        self.recording = Recording(folder, run=run, lane=lane, cluster=cluster, about=about)
        self.sightings = Sightings(on_gone=self._gone)
        self._first_ledgers: dict[str, int | None] = {}
        self._consumers: dict[tuple[str, str], RecordedConsumer] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def producer(self, producer: Any) -> RecordedProducer:
        """Record a producer of pulsar-client; it is to be used through what this returns only."""
        return RecordedProducer(self.recording, producer)

    def consumer(
        self, consumer: Any, consumer_type: Any, *, is_confirmed: bool = False, is_replicated: bool = False
    ) -> RecordedConsumer:
        """Record a consumer of pulsar-client, made with this ``pulsar.ConsumerType``, or what has the same methods.

        ``is_confirmed``: its acknowledgments return only when the broker has confirmed them; pulsar-client's do not.
        ``is_replicated``: it was made with ``replicate_subscription_state_enabled``.
        """
        outcome = Outcome.OK if is_confirmed else Outcome.UNKNOWN
        type_name = TYPE_NAMES[consumer_type]
        recorded = RecordedConsumer(
            self.recording, self.sightings, consumer, type_name, outcome, is_replicated=is_replicated
        )
        self._consumers[recorded.topic, recorded.name] = recorded
        return recorded

    def begin(self, admin_url: Service | str, topics: Iterable[str]) -> None:
        """Record how topics and their subscriptions are, before anything is sent to them or acknowledged.

        Without it nothing is said of deduplication, of what was lost or never delivered, nor of what a mark-delete
        covers. Raises :class:`~conformance.harness_error.HarnessError` where the broker does not answer.
        """
        with Admin(admin_url) as admin:
            for topic in _with_partitions(admin, topics):
                self._first_ledgers[topic] = read_beginning(self.recording, admin, topic)

    def read_back(self, service_url: Service | str, admin_url: Service | str, topics: Iterable[str]) -> None:
        """Record the logs and cursors of topics, once nobody sends or acknowledges any more.

        Without it nothing is said to be lost; nor where a log is not retained, and its beginning gone.
        Raises :class:`~conformance.harness_error.HarnessError` where the broker does not answer.
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
        """Write down what is left."""
        self.recording.close()

    def _gone(self, topic: str, name: str, at_ns: int) -> None:
        """The proxy saw the end of a consumer's connection; the broker may have given its messages to others before."""
        consumer = self._consumers.get((_PARTITION.sub("", topic), name))
        if consumer is not None:
            consumer.is_gone(invoked_ns=at_ns - NOTICED_WITHIN_NS, completed_ns=at_ns)


class RecordedProducer:
    """A producer whose sends are recorded; for any thread."""

    def __init__(self, recording: Recording, producer: Any) -> None:
        self._recording = recording
        self._producer = producer
        self._topic: str = producer.topic()
        self._name: str = producer.producer_name()
        self._last = max(producer.last_sequence_id(), 0)  # the client takes id 0 for none
        self._lock = threading.Lock()

    def send(self, content: bytes, *, sequence_id: int | None = None, **options: Any) -> Any:
        """Send and wait; ``options`` are those of pulsar-client. Returns the message id; errors are the client's."""
        told = self._told(content, sequence_id, options)
        try:
            message_id = self._producer.send(content, sequence_id=told["sequence_id"], **options)
        except pulsar.PulsarException:
            self._recording.record(Kind.SEND, outcome=Outcome.UNKNOWN, **told)
            raise
        self._confirmed(told, message_id)
        return message_id

    def send_async(
        self, content: bytes, callback: Callable[[Any, Any], None], *, sequence_id: int | None = None, **options: Any
    ) -> int:
        """Send and go on; ``callback`` gets result and message id, on the client's thread. Returns the sequence id.

        An exception in ``callback`` would end the process.
        """
        told = self._told(content, sequence_id, options)

        def answered(result: Any, message_id: Any) -> None:
            if result == pulsar.Result.Ok:
                self._confirmed(told, message_id)
            else:
                self._recording.record(Kind.SEND, outcome=Outcome.UNKNOWN, **told)
            callback(result, message_id)

        self._producer.send_async(content, answered, sequence_id=told["sequence_id"], **options)
        chosen: int = told["sequence_id"]
        return chosen

    def flush(self) -> None:
        """Have everything sent and wait until it is confirmed."""
        self._producer.flush()

    def close(self) -> None:
        """Close it."""
        self._producer.close()

    def _told(self, content: bytes, sequence_id: int | None, options: dict[str, Any]) -> dict[str, Any]:
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

    def _confirmed(self, told: dict[str, Any], message_id: Any) -> None:
        if message_id.ledger_id() < 0 and message_id.entry_id() < 0:
            self._recording.record(Kind.SEND, outcome=Outcome.DUPLICATE, **told)
            return
        topic = _of_partition(self._topic, message_id.partition())
        self._recording.record(Kind.SEND, **{**told, **_place(message_id), "topic": topic})


class RecordedConsumer:
    """A consumer whose messages and acknowledgments are recorded; for any thread."""

    def __init__(
        self,
        recording: Recording,
        sightings: Sightings,
        consumer: Any,
        type_name: str,
        acknowledged: Outcome,
        *,
        is_replicated: bool,
    ) -> None:
        """``acknowledged``: what is known of an acknowledgment when it has returned."""
        self._acknowledged = acknowledged
        self._has_left = False
        self._recording = recording
        self._sightings = sightings
        self._consumer = consumer
        self.topic: str = consumer.topic()
        self.name: str = consumer.consumer_name()
        self._who = {
            "subscription": consumer.subscription_name(),
            "subscription_type": type_name,
            "consumer": self.name,
        }
        recording.record(Kind.SUBSCRIBE, topic=self.topic, replicated=is_replicated, invoked_ns=now_ns(), **self._who)

    def receive(self, timeout_millis: int | None = None) -> Any:
        """Give the next message, of pulsar-client's own type; errors are the client's."""
        message = self._consumer.receive(timeout_millis)
        came_ns = now_ns()
        message_id, topic, payload = message.message_id(), message.topic_name(), message.data()
        position = Position(message_id.ledger_id(), message_id.entry_id())
        seen = self._sightings.of(topic, self.name, position)
        chunk = None if seen is None else seen.chunk
        self._recording.record(
            Kind.DISPATCH,
            topic=topic,
            producer=message.producer_name() or None,
            key=message.ordering_key() or message.partition_key() or None,
            digest=digest(payload),
            size_bytes=len(payload),
            redeliveries=message.redelivery_count(),
            chunk_uuid=None if chunk is None else chunk.uuid,
            chunks=None if chunk is None else chunk.chunks,
            invoked_ns=None if seen is None else seen.sent_ns,
            completed_ns=came_ns,
            **_place(message_id),
            **self._who,
        )
        return message

    def acknowledge(self, message: Any) -> None:
        """Acknowledge a message that was received; whether the broker has learnt of it, pulsar-client does not tell."""
        self._settle(Kind.ACK, self._acknowledged, message, self._consumer.acknowledge)

    def acknowledge_cumulative(self, message: Any) -> None:
        """Acknowledge everything up to a message that was received."""
        self._settle(Kind.ACK_CUMULATIVE, self._acknowledged, message, self._consumer.acknowledge_cumulative)

    def negative_acknowledge(self, message: Any) -> None:
        """Have a message that was received delivered again."""
        self._settle(Kind.NACK, Outcome.OK, message, self._consumer.negative_acknowledge)

    def redeliver_unacknowledged_messages(self) -> None:
        """Have everything delivered again that is not acknowledged."""
        self._leave(Kind.REDELIVER, self._consumer.redeliver_unacknowledged_messages)

    def close(self) -> None:
        """Close it; what it has not acknowledged goes to others."""
        self._leave(Kind.UNSUBSCRIBE, self._consumer.close)
        self._has_left = True

    def is_gone(self, *, invoked_ns: int, completed_ns: int) -> None:
        """Record that it lost its connection, or its place at the broker, within that time.

        Once it has closed in good order, the end of its connection is nothing to it.
        """
        if self._has_left:
            return
        self._recording.record(
            Kind.UNSUBSCRIBE, topic=self.topic, invoked_ns=invoked_ns, completed_ns=completed_ns, **self._who
        )

    def _settle(self, kind: Kind, outcome: Outcome, message: Any, settle: Callable[[Any], None]) -> None:
        invoked_ns = now_ns()
        place = _place(message.message_id())
        is_settled = False
        try:
            settle(message)
            is_settled = True
        finally:
            outcome = outcome if is_settled else Outcome.UNKNOWN
            self._recording.record(
                kind, topic=message.topic_name(), outcome=outcome, invoked_ns=invoked_ns, **place, **self._who
            )

    def _leave(self, kind: Kind, leave: Callable[[], None]) -> None:
        invoked_ns = now_ns()
        try:
            leave()
        finally:
            self._recording.record(kind, topic=self.topic, invoked_ns=invoked_ns, **self._who)


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


def _of_partition(topic: str, partition: int) -> str:
    return topic if partition < 0 else f"{topic}-partition-{partition}"
