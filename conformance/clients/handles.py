"""One producer handle and one consumer handle for each kind of client, for lockstep, soak and applications.

A handle is one client as the broker sees it: its connections are its own, unless it was given a client to share. It
closes without an error in any state of the broker; ``abort`` cuts its connections, as a crash does. The wire client's
handle sends each message once. pulsar-client's reconnects and sends again by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol

from conformance.clients.driver.connect import connect
from conformance.clients.driver.interface import OfficialDelivery, ReleasedClient, ReleasedConsumer, ReleasedProducer
from conformance.clients.outcomes import CLIENT_ERRORS, SendOutcome
from conformance.clients.security.service import Service
from conformance.clients.wire.client import WireClient
from conformance.clients.wire.consumer import KeyShared, Kind
from conformance.clients.wire.producer import Keys
from model.log import Position
from model.vocabulary import Client, Entry

CLOSE_TIMEOUT_S: Final = 10.0


class Ticket(Protocol):
    """A send on its way."""

    @property
    def outcome(self) -> SendOutcome | None:
        """What is known of it; None while it is in flight."""

    def wait(self, timeout_s: float) -> SendOutcome | None:
        """Wait for its outcome; None if nothing is known in time."""


class ProducerHandle(Protocol):
    """An open producer."""

    last_sequence_id: int
    """What the broker answered when it was opened; -1 for none."""

    def send(
        self, sequence_id: int, payload: bytes, *, partition_key: str | None = None, ordering_key: str | None = None
    ) -> Ticket:
        """Send one message without waiting."""

    def send_batch(self, messages: Sequence[tuple[int, bytes]]) -> Ticket:
        """Send ``(sequence id, payload)`` of several messages as one entry, without waiting."""

    def close(self) -> None:
        """Close it gracefully."""

    def abort(self) -> None:
        """Cut its connections."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedMessage:
    """A message as a consumer received it."""

    position: Position
    batch_index: int
    """Its place in its batch; -1 for a message that stands alone."""
    batch_size: int
    """How many messages its entry holds; 0 where that is not known, as with pulsar-client, or where it stands alone."""
    payload: bytes
    producer_name: str
    key: str | None
    """The ordering key, or else the partition key."""
    redelivery_count: int
    raw: OfficialDelivery | None = field(default=None, compare=False, repr=False)
    """As pulsar-client delivered it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionConfig:
    """What a consumer subscribes to, and how."""

    topic: str
    name: str
    kind: Kind
    consumer_name: str | None = None
    initial: Literal["earliest", "latest"] = "earliest"
    """Where a new subscription begins."""
    prefetch: int = 1000
    """How many messages the broker may send ahead; the wire client's handle gives no permits with 0."""
    is_replicated: bool | None = None
    """Whether the subscription is replicated; None leaves it to the broker."""
    is_durable: bool = True
    start_after: Position | None = None
    """Where one that is not durable begins: after this entry; None: at ``initial``."""
    key_shared: KeyShared | None = None
    nack_delay_s: float = 60.0
    """How long pulsar-client waits before it requests a redelivery."""
    acks_parts: bool = False
    """Whether pulsar-client acknowledges the messages of a batch one by one."""
    library: str | None = None
    """The released client, where a run has several."""


class ConsumerHandle(Protocol):
    """A subscribed consumer; messages are prefetched."""

    @property
    def is_open(self) -> bool:
        """Whether it can receive more. pulsar-client's reconnects, so it is open until this side closes it."""

    def receive(self, *, timeout_s: float) -> ReceivedMessage | None:
        """The next message; None if none arrives in time. Raises ``ConnectionLost``."""

    def ack(self, messages: Sequence[ReceivedMessage], *, cumulative: bool = False) -> None:
        """Acknowledge whole entries by their messages, or with ``cumulative`` everything up to the only one.

        The wire client's sends one command, and waits for the broker's answer. pulsar-client's groups acks, and sends
        them within 100 ms. Raises what is in ``CLIENT_ERRORS``.
        """

    def redeliver(self, messages: Sequence[ReceivedMessage] | None = None) -> None:
        """Negatively acknowledge messages; None requests the redelivery of all unacknowledged ones."""

    def close(self) -> None:
        """Close it gracefully."""

    def abort(self) -> None:
        """Cut its connections."""


@contextmanager
def aborted_on_error(abort: Callable[[], None]) -> Iterator[None]:
    """Abort what is left of a client if what it is to do raises."""
    try:
        yield
    except BaseException:
        abort()
        raise


class WireProducerHandle:
    """A producer of the wire client."""

    def __init__(self, service: Service, topic: str, name: str | None, *, timeout_s: float) -> None:
        """Connect and open. Raises what is in ``CLIENT_ERRORS``."""
        self._client = WireClient.connect(service, timeout_s=timeout_s)
        with aborted_on_error(self.abort):
            self.producer: Final = self._client.open_producer(topic, name=name, timeout_s=timeout_s)
        self.last_sequence_id = self.producer.last_sequence_id

    def send(
        self, sequence_id: int, payload: bytes, *, partition_key: str | None = None, ordering_key: str | None = None
    ) -> Ticket:
        ordering = None if ordering_key is None else ordering_key.encode()
        return self.producer.send(sequence_id, payload, partition_key=partition_key, ordering_key=ordering)

    def send_batch(self, messages: Sequence[tuple[int, bytes]], *, keys: Sequence[Keys] | None = None) -> Ticket:
        return self.producer.send_batch(messages, keys=keys)

    def close(self) -> None:
        self._client.close(timeout_s=CLOSE_TIMEOUT_S)

    def abort(self) -> None:
        self._client.abort()


class OfficialProducerHandle:
    """A producer of pulsar-client. ``client``: one to share, which does not end with it."""

    def __init__(
        self,
        service: Service,
        topic: str,
        name: str | None,
        *,
        timeout_s: float,
        client: ReleasedClient | None = None,
        **options: Any,
    ) -> None:
        """Connect and open, with ``options`` of :meth:`ReleasedClient.open_producer`. Raises ``CLIENT_ERRORS``."""
        self._is_alone = client is None
        self._client = client or connect(service, timeout_s=max(1.0, timeout_s))
        with aborted_on_error(self.abort):
            self.producer: Final[ReleasedProducer] = self._client.open_producer(topic, name=name, **options)
        self.last_sequence_id = self.producer.last_sequence_id

    def send(
        self, sequence_id: int, payload: bytes, *, partition_key: str | None = None, ordering_key: str | None = None
    ) -> Ticket:
        return self.producer.send(sequence_id, payload, partition_key=partition_key, ordering_key=ordering_key)

    def send_batch(self, messages: Sequence[tuple[int, bytes]]) -> Ticket:
        """Give them to the client, and have it send them; all messages of a batch have the same outcome."""
        return self.producer.send_batch(messages)[0]

    def close(self) -> None:
        with suppress(*CLIENT_ERRORS):
            self.producer.close()
        self.abort()

    def abort(self) -> None:
        if self._is_alone:
            self._client.abort()


class WireConsumerHandle:
    """A consumer of the wire client."""

    def __init__(self, service: Service, wanted: SubscriptionConfig, *, timeout_s: float) -> None:
        """Connect, subscribe, and permit what is prefetched. Raises what is in ``CLIENT_ERRORS``."""
        self._prefetch = wanted.prefetch
        self._taken = 0
        self._client = WireClient.connect(service, timeout_s=timeout_s)
        with aborted_on_error(self.abort):
            self.consumer: Final = self._client.subscribe(
                wanted.topic,
                wanted.name,
                kind=wanted.kind,
                durable=wanted.is_durable,
                initial=wanted.initial,
                start_after=wanted.start_after,
                consumer_name=wanted.consumer_name,
                key_shared=wanted.key_shared,
                replicated=wanted.is_replicated,
                timeout_s=timeout_s,
            )
            if wanted.prefetch:
                self.consumer.flow(wanted.prefetch)

    @property
    def is_open(self) -> bool:
        return self.consumer.is_open

    @property
    def port(self) -> int | None:
        """The port that it connects from."""
        return self._client.port

    def receive(self, *, timeout_s: float) -> ReceivedMessage | None:
        """The next message. Half of the permits are given again once they are used."""
        delivery = self.consumer.receive(timeout_s=timeout_s)
        if delivery is None:
            return None
        self._taken += 1
        if self._prefetch and self._taken * 2 >= self._prefetch:
            with suppress(*CLIENT_ERRORS):  # what arrived before the consumer was closed is still received
                self.consumer.flow(self._taken)
            self._taken = 0
        return ReceivedMessage(
            position=delivery.position,
            batch_index=delivery.batch_index,
            batch_size=delivery.batch_size,
            payload=delivery.payload,
            producer_name=delivery.producer_name,
            key=None if delivery.key is None else delivery.key.decode(),
            redelivery_count=delivery.redelivery_count,
        )

    def ack(self, messages: Sequence[ReceivedMessage], *, cumulative: bool = False) -> None:
        """Acknowledge their entries in one command, and wait for the receipt."""
        self.consumer.ack({message.position for message in messages}, cumulative=cumulative)

    def redeliver(self, messages: Sequence[ReceivedMessage] | None = None) -> None:
        """Send the request at once."""
        self.consumer.redeliver(None if messages is None else {message.position for message in messages})

    def close(self) -> None:
        self._client.close(timeout_s=CLOSE_TIMEOUT_S)

    def abort(self) -> None:
        self._client.abort()


class OfficialConsumerHandle:
    """A consumer of pulsar-client. ``client``: one to share, which does not end with it."""

    is_open: Literal[True] = True

    def __init__(
        self, service: Service, wanted: SubscriptionConfig, *, timeout_s: float, client: ReleasedClient | None = None
    ) -> None:
        """Connect and subscribe. Raises what is in ``CLIENT_ERRORS``."""
        self._is_alone = client is None
        self._client = client or connect(service, timeout_s=max(1.0, timeout_s), library=wanted.library)
        with aborted_on_error(self.abort):
            self.consumer: Final[ReleasedConsumer] = self._client.subscribe(
                wanted.topic,
                wanted.name,
                kind=wanted.kind,
                initial=wanted.initial,
                consumer_name=wanted.consumer_name,
                prefetch=wanted.prefetch,
                nack_delay_s=wanted.nack_delay_s,
                acknowledges_parts=wanted.acks_parts,
                replicated=bool(wanted.is_replicated),
            )

    def receive(self, *, timeout_s: float) -> ReceivedMessage | None:
        """The next message of the client's queue."""
        delivery = self.consumer.receive(timeout_s=timeout_s)
        return None if delivery is None else message_of(delivery)

    def ack(self, messages: Sequence[ReceivedMessage], *, cumulative: bool = False) -> None:
        """Acknowledge each message; the client sends that later."""
        acknowledge = self.consumer.ack_cumulative if cumulative else self.consumer.ack
        for message in messages:
            acknowledge(_delivery(message))

    def redeliver(self, messages: Sequence[ReceivedMessage] | None = None) -> None:
        """Nack each message; the client requests the redelivery later. Request that of all at once."""
        if messages is None:
            self.consumer.redeliver_all()
        for message in messages or ():
            self.consumer.nack(_delivery(message))

    def close(self) -> None:
        """Close the consumer, which sends the acks that it holds, and the client unless it is shared."""
        with suppress(*CLIENT_ERRORS):
            self.consumer.close()
        self.abort()

    def abort(self) -> None:
        if self._is_alone:
            self._client.abort()


def message_of(delivery: OfficialDelivery) -> ReceivedMessage:
    """A delivery of pulsar-client as a message."""
    return ReceivedMessage(
        position=delivery.position,
        batch_index=delivery.batch_index,
        batch_size=0,
        payload=delivery.payload,
        producer_name=delivery.producer_name,
        key=delivery.key or None,
        redelivery_count=delivery.redelivery_count,
        raw=delivery,
    )


def _delivery(message: ReceivedMessage) -> OfficialDelivery:
    assert message.raw is not None, "messages of pulsar-client are acknowledged by its consumers only"
    return message.raw


def open_consumer(client: Client, service: Service, wanted: SubscriptionConfig, *, timeout_s: float) -> ConsumerHandle:
    """Subscribe with a client of this kind. Raises what is in ``CLIENT_ERRORS``."""
    handle = WireConsumerHandle if client == "wire" else OfficialConsumerHandle
    return handle(service, wanted, timeout_s=timeout_s)


def send_entry(producer: ProducerHandle, entry: Entry) -> Ticket:
    """Send an entry, whose payloads are its messages' business ids."""
    first = entry.messages[0]
    if not entry.is_batch:
        return producer.send(entry.lowest, first.business_id.encode())
    return producer.send_batch([(message.sequence_id, message.business_id.encode()) for message in entry.messages])
