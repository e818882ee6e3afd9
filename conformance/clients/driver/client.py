"""pulsar-client, the client of users, with the same outcomes as the wire client.

It reconnects and resends until its send timeout, and that is why the suite has it: an application depends on the broker
and this client together. It has limits, which raise an error: it treats sequence id 0 as none, and of ProducerSuccess
it shows only the last sequence id.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self

import pulsar

from conformance.clients.driver.features import OptionsOf, start_flushing, told_by
from conformance.clients.driver.interface import NEVER_MS, UNLIMITED, OfficialDelivery, OfficialTicket
from conformance.clients.driver.options import pulsar_client
from conformance.clients.outcomes import (
    ConnectionLost,
    Lost,
    NoAnswer,
    Receipt,
    SendError,
    SendOutcome,
    ServerRefused,
)
from conformance.clients.security.service import Service
from conformance.clients.wire.consumer import Kind
from conformance.harness_error import HarnessError
from model.log import Position
from model.vocabulary import Compression

_SENDING: Final = OptionsOf(pulsar.Producer.send_async)
_PRODUCING: Final = OptionsOf(pulsar.Client.create_producer)
_SUBSCRIBING: Final = OptionsOf(pulsar.Client.subscribe)


def client_version() -> str:
    """The installed version of pulsar-client."""
    return str(pulsar.__version__)


class OfficialProducer:
    """A producer of pulsar-client; made by :meth:`OfficialClient.open_producer`."""

    def __init__(self, producer: Any) -> None:
        self._producer = producer
        self.name: Final[str] = producer.producer_name()
        self._in_flight: set[OfficialTicket] = set()

    def send(
        self,
        sequence_id: int,
        payload: bytes,
        *,
        properties: Mapping[str, str] | None = None,
        partition_key: str | None = None,
        ordering_key: str | None = None,
        on_outcome: Callable[[SendOutcome], None] = lambda _: None,
    ) -> OfficialTicket:
        """Send a message without waiting; with batching the client holds it for others.

        ``on_outcome`` gets its outcome, on the client's thread, unless the client is closed before.

        Raises :class:`HarnessError` for sequence id 0, which the client ignores.
        """
        if sequence_id == 0:
            raise HarnessError("pulsar-client takes sequence id 0 for none: only the wire client can send it")
        ticket = OfficialTicket(sequence_id)

        def answered(result: Any, message_id: Any) -> None:
            # It runs on the client's thread, where an exception would end the process.
            outcome = _send_outcome(sequence_id, result, message_id)
            ticket.settle(outcome)
            on_outcome(outcome)
            self._in_flight.discard(ticket)

        self._in_flight.add(ticket)
        options = _SENDING.accepted(
            sequence_id=sequence_id,
            properties=None if properties is None else dict(properties),
            partition_key=partition_key,
            ordering_key=ordering_key,
        )
        self._producer.send_async(payload, answered, **options)
        return ticket

    def send_batch(
        self, messages: Sequence[tuple[int, bytes]], *, keys: Sequence[tuple[str | None, str | None]] | None = None
    ) -> Sequence[OfficialTicket]:
        """Send messages as one batch; returns one ticket for each of them.

        ``keys``: key and ordering key of each. Needs a producer that was opened with ``batching``.
        """
        own = keys or [(None, None)] * len(messages)
        tickets = [
            self.send(sequence_id, payload, partition_key=key, ordering_key=ordering_key)
            for (sequence_id, payload), (key, ordering_key) in zip(messages, own, strict=True)
        ]
        self.flush()
        return tickets

    def flush(self) -> None:
        """Have the client send the batch that it holds, without waiting."""
        start_flushing(self._producer._producer)

    def answer(self, ticket: OfficialTicket, *, timeout_s: float) -> SendOutcome:
        """Wait for the outcome of a send. Raises :class:`NoAnswer` if the client still tries after that time."""
        outcome = ticket.wait(timeout_s)
        if outcome is None:
            raise NoAnswer(f"no answer in time: sequence id {ticket.sequence_id} of producer {self.name}")
        return outcome

    @property
    def last_sequence_id(self) -> int:
        """That of ProducerSuccess; later the client's own; -1 for none."""
        return int(self._producer.last_sequence_id())

    @property
    def is_connected(self) -> bool:
        """Whether the client has a connection for it right now."""
        return bool(self._producer.is_connected())

    def close(self) -> None:
        """Close it; unanswered sends are lost. Raises the same as ``open_producer``."""
        _call("closing a producer", self._producer.close)
        self.give_up("this client closed the producer")

    def give_up(self, reason: str) -> None:
        """Set all unanswered sends to lost: a closed client does not call back for them."""
        while self._in_flight:
            self._in_flight.pop().settle(Lost(reason))


class OfficialConsumer:
    """A consumer of pulsar-client; made by :meth:`OfficialClient.subscribe`."""

    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer

    def receive(self, *, timeout_s: float) -> OfficialDelivery | None:
        """Wait for the next message; None if none arrives in time. Raises :class:`ConnectionLost`."""
        return _receive(self._consumer.receive, timeout_s)

    @property
    def is_connected(self) -> bool:
        """Whether the client has a connection for it right now."""
        return bool(self._consumer.is_connected())

    def ack(self, delivery: OfficialDelivery) -> None:
        """Acknowledge a message; the client groups acks and sends them after 100 ms."""
        _call("an acknowledgment", self._consumer.acknowledge, delivery.message)

    def ack_cumulative(self, delivery: OfficialDelivery) -> None:
        """Acknowledge everything up to a message; grouped, too."""
        _call("an acknowledgment", self._consumer.acknowledge_cumulative, delivery.message)

    def nack(self, delivery: OfficialDelivery) -> None:
        """Nack a message; the client requests it after the consumer's delay."""
        _call("a negative acknowledgment", self._consumer.negative_acknowledge, delivery.message)

    def redeliver_all(self) -> None:
        """Request the redelivery of all unacknowledged messages."""
        _call("asking for redelivery", self._consumer.redeliver_unacknowledged_messages)

    def unsubscribe(self) -> None:
        _call("unsubscribing", self._consumer.unsubscribe)

    def close(self) -> None:
        """Close it; it sends grouped acks."""
        _call("closing a consumer", self._consumer.close)


class OfficialClient:
    """One client, with connections of its own."""

    def __init__(
        self,
        service: Service | str,
        *,
        timeout_s: float,
        log_file: Path | None = None,
        listener_name: str | None = None,
    ) -> None:
        """``timeout_s`` bounds everything but sends and receives; whole seconds, rounded up.

        All clients of a process log into the first one's ``log_file``; None: nowhere.
        """
        level = pulsar.LoggerLevel.Info if log_file else pulsar.LoggerLevel.Error
        timeout = math.ceil(timeout_s)
        self._client = pulsar_client(
            service,
            operation_timeout_seconds=timeout,
            connection_timeout_ms=timeout * 1000,
            logger=pulsar.FileLogger(level, str(log_file or os.devnull)),
            listener_name=listener_name,
        )
        self._producers: list[OfficialProducer] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.abort()

    def open_producer(
        self,
        topic: str,
        *,
        name: str | None,
        send_timeout_s: float = UNLIMITED,
        initial_sequence_id: int | None = None,
        batching: bool = False,
        chunking: bool = False,
        compression: Compression = "none",
        batch_delay_ms: int = NEVER_MS,
        batch_messages: int = 1000,
        wrap: Callable[[Any], Any] = lambda producer: producer,
    ) -> OfficialProducer:
        """Open a producer. With ``batching``, messages wait until a batch is requested, full or old enough.

        With ``chunking``, a message that is too large for an entry is split, after ``compression``. ``wrap`` may wrap
        pulsar-client's producer in a recorder.

        Raises :class:`ServerRefused`, e.g. ``ProducerBusy``, :class:`ConnectionLost`, :class:`NoAnswer`.
        """
        opened = _call(
            f"opening producer {name or ''} on {topic}",
            self._client.create_producer,
            topic,
            **_PRODUCING.accepted(
                producer_name=name,
                initial_sequence_id=initial_sequence_id,
                send_timeout_millis=math.ceil(send_timeout_s * 1000),
                batching_enabled=batching,
                batching_max_publish_delay_ms=batch_delay_ms,
                batching_max_messages=batch_messages,
                chunking_enabled=chunking,
                compression_type=_COMPRESSIONS[compression],
            ),
        )
        producer = OfficialProducer(wrap(opened))
        self._producers.append(producer)
        return producer

    def subscribe(
        self,
        topic: str,
        subscription: str,
        *,
        kind: Kind,
        initial: Literal["earliest", "latest"] = "latest",
        consumer_name: str | None = None,
        prefetch: int = 1000,
        nack_delay_s: float = 60.0,
        acknowledges_parts: bool = False,
        pending_chunked: int = 10,
        acknowledges_discarded: bool = False,
        replicated: bool = False,
    ) -> OfficialConsumer:
        """Subscribe with a receiver queue of ``prefetch``. Raises the same as :meth:`open_producer`.

        ``acknowledges_parts``: batch index acks. ``pending_chunked``: its pending limit of chunked messages, 0 for
        none; over the limit it discards the oldest one, and acknowledges it with ``acknowledges_discarded``.
        """
        consumer = _call(
            f"subscribing {subscription} to {topic}",
            self._client.subscribe,
            topic,
            subscription,
            **_SUBSCRIBING.accepted(
                consumer_type=_KINDS[kind],
                initial_position=_INITIAL[initial],
                consumer_name=consumer_name,
                receiver_queue_size=prefetch,
                negative_ack_redelivery_delay_ms=math.ceil(nack_delay_s * 1000),
                batch_index_ack_enabled=acknowledges_parts,
                max_pending_chunked_message=pending_chunked,
                auto_ack_oldest_chunked_message_on_queue_full=acknowledges_discarded,
                replicate_subscription_state_enabled=replicated,
            ),
        )
        return OfficialConsumer(consumer)

    def close(self) -> None:
        """Close everything gracefully. Raises the same as :meth:`open_producer`."""
        _call("closing a client", self._client.close)
        self._give_up("this client was closed")

    def abort(self) -> None:
        """Cut the connections without closing producers and consumers. Safe to call twice."""
        self._client.shutdown()
        self._give_up("this client died")

    def _give_up(self, reason: str) -> None:
        for producer in self._producers:
            producer.give_up(reason)


_KINDS: Final[Mapping[Kind, Any]] = {
    "Exclusive": pulsar.ConsumerType.Exclusive,
    "Shared": pulsar.ConsumerType.Shared,
    "Failover": pulsar.ConsumerType.Failover,
    "Key_Shared": pulsar.ConsumerType.KeyShared,
}
_COMPRESSIONS: Final = {
    "none": pulsar.CompressionType.NONE,
    "lz4": pulsar.CompressionType.LZ4,
    "zlib": pulsar.CompressionType.ZLib,
}
_INITIAL: Final = {"earliest": pulsar.InitialPosition.Earliest, "latest": pulsar.InitialPosition.Latest}

_WIRE_NAMES: Final = {
    "BrokerMetadataError": "MetadataError",
    "BrokerPersistenceError": "PersistenceError",
    "ServiceUnitNotReady": "ServiceNotReady",
    "TooManyLookupRequestException": "TooManyRequests",
    "TopicTerminated": "TopicTerminatedError",
}
"""The client's names of errors that differ from the protocol's."""

_UNKNOWN_FATE: Final = frozenset(
    {"AlreadyClosed", "ConnectError", "Interrupted", "NotConnected", "ReadError", "Timeout", "UnknownError"}
)
"""Results of a send that the client gave up, and the broker did not refuse."""

_GONE: Final = (
    pulsar.AlreadyClosed,
    pulsar.ConnectError,
    pulsar.ConsumerNotInitialized,
    pulsar.Interrupted,
    pulsar.NotConnected,
    pulsar.ProducerNotInitialized,
    pulsar.ReadError,
)


def _send_outcome(sequence_id: int, result: Any, message_id: Any) -> SendOutcome:
    if result == pulsar.Result.Ok:
        ledger, entry = message_id.ledger_id(), message_id.entry_id()
        position = None if ledger < 0 and entry < 0 else Position(ledger, entry)
        return Receipt(sequence_id, 0, position, message_id.batch_index())
    name = result.name
    if name in _UNKNOWN_FATE:
        return Lost(f"pulsar-client gave up: {name}")
    return SendError(_WIRE_NAMES.get(name, name), f"pulsar-client said {name}")


def _call(what: str, function: Any, *arguments: Any, **options: Any) -> Any:
    """Call the client, and map its errors to the suite's."""
    try:
        return function(*arguments, **options)
    except pulsar.Timeout:
        raise NoAnswer(f"no answer in time: {what}") from None
    except _GONE as error:
        raise ConnectionLost(f"{what}: {error}") from None
    except pulsar.PulsarException as error:
        name = type(error).__name__
        raise ServerRefused(_WIRE_NAMES.get(name, name), f"{what}: {error}") from None


def _receive(receive: Any, timeout_s: float) -> OfficialDelivery | None:
    try:
        message = _call("a message", receive, timeout_millis=math.ceil(timeout_s * 1000))
    except NoAnswer:
        return None
    return delivery_of(message)


def delivery_of(message: Any) -> OfficialDelivery:
    """A delivery from pulsar-client's message."""
    message_id = message.message_id()
    return OfficialDelivery(
        position=Position(message_id.ledger_id(), message_id.entry_id()),
        batch_index=message_id.batch_index(),
        payload=message.data(),
        producer_name=told_by(message, "producer_name"),
        key=told_by(message, "ordering_key") or message.partition_key(),
        properties=message.properties(),
        redelivery_count=message.redelivery_count(),
        message=message,
        message_id=message_id,
        topic=message.topic_name(),
    )
