"""A client behind a driver, with the interface of pulsar-client in this process."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Final, Literal, Self, TypeVar

from conformance.clients.driver.interface import NEVER_MS, UNLIMITED, OfficialDelivery, OfficialTicket
from conformance.clients.driver.process import DriverFailed, DriverProcess
from conformance.clients.driver.protocol import (
    Abort,
    Acknowledge,
    AnyAnswer,
    AnyRequest,
    Close,
    Connect,
    Connected,
    Done,
    Feature,
    Flush,
    GaveUp,
    IsConnected,
    LastSequenceId,
    Message,
    Nack,
    Nothing,
    Opened,
    OpenProducer,
    Receive,
    Redeliver,
    Refused,
    Send,
    Sent,
    SequenceId,
    Subscribe,
    Unsubscribe,
)
from conformance.clients.outcomes import (
    ConnectionLost,
    Lost,
    NoAnswer,
    Receipt,
    SendError,
    SendOutcome,
    ServerRefused,
)
from conformance.clients.security.credentials import token_of
from conformance.clients.security.service import Service
from conformance.clients.wire.consumer import Kind
from conformance.harness_error import HarnessError
from model.log import Position
from model.vocabulary import Compression

A = TypeVar("A")


class RemoteProducer:
    """A producer of a driver's client; made by :meth:`RemoteClient.open_producer`."""

    def __init__(self, client: RemoteClient, producer: str, opened: Opened) -> None:
        self.name: Final = opened.name
        self._client = client
        self._producer = producer
        self._opened_with: int | None = opened.last_sequence_id
        self._in_flight: set[OfficialTicket] = set()

    def send(
        self,
        sequence_id: int,
        payload: bytes,
        *,
        properties: Mapping[str, str] | None = None,
        partition_key: str | None = None,
        ordering_key: str | None = None,
    ) -> OfficialTicket:
        ticket = OfficialTicket(sequence_id)
        self._opened_with = None
        self._in_flight.add(ticket)

        def answered(answer: AnyAnswer | DriverFailed) -> None:
            ticket.settle(_send_outcome(sequence_id, answer))
            self._in_flight.discard(ticket)

        driver = self._client.driver
        request = Send(
            id=driver.new_id(),
            producer=self._producer,
            payload=payload,
            sequence_id=sequence_id,
            key=partition_key,
            ordering_key=ordering_key,
            properties=dict(properties or {}),
        )
        driver.submit(request, answered)
        return ticket

    def send_batch(
        self, messages: Sequence[tuple[int, bytes]], *, keys: Sequence[tuple[str | None, str | None]] | None = None
    ) -> Sequence[OfficialTicket]:
        own = keys or [(None, None)] * len(messages)
        tickets = [
            self.send(sequence_id, payload, partition_key=key, ordering_key=ordering_key)
            for (sequence_id, payload), (key, ordering_key) in zip(messages, own, strict=True)
        ]
        self._client.driver.submit(Flush(id=self._client.driver.new_id(), producer=self._producer))
        return tickets

    def answer(self, ticket: OfficialTicket, *, timeout_s: float) -> SendOutcome:
        outcome = ticket.wait(timeout_s)
        self._client.demand_driver()
        if outcome is None:
            raise NoAnswer(f"no answer in time: sequence id {ticket.sequence_id} of producer {self.name}")
        return outcome

    @property
    def last_sequence_id(self) -> int:
        """That of ProducerSuccess; after a send the client's own; -1 where the client does not show it."""
        if self._opened_with is not None or not self._client.has("last-sequence-id"):
            return -1 if self._opened_with is None else self._opened_with
        return self._client.ask(
            LastSequenceId(
                id=self._client.driver.new_id(), producer=self._producer, timeout_ms=self._client.timeout_ms
            ),
            SequenceId,
        ).last_sequence_id

    def close(self) -> None:
        self._client.close_one(self._producer)
        self.give_up("this client closed the producer")

    def give_up(self, reason: str) -> None:
        """Set all unanswered sends to lost: a closed client does not call back for them."""
        while self._in_flight:
            self._in_flight.pop().settle(Lost(reason))


class RemoteConsumer:
    """A consumer of a driver's client; made by :meth:`RemoteClient.subscribe`."""

    def __init__(self, client: RemoteClient, consumer: str) -> None:
        self._client = client
        self._consumer = consumer

    @property
    def request_name(self) -> str:
        """Its name in requests."""
        return self._consumer

    def receive(self, *, timeout_s: float) -> OfficialDelivery | None:
        request = Receive(id=self._new_id(), consumer=self._consumer, timeout_ms=math.ceil(timeout_s * 1000))
        answer = self._client.answer(request, (Message, Nothing), timeout_s=timeout_s)
        return _delivery_of(answer) if isinstance(answer, Message) else None

    @property
    def is_connected(self) -> bool:
        """Whether the client has a connection for it right now; True where the client does not show it."""
        if not self._client.has("is-connected"):
            return True
        request = IsConnected(id=self._new_id(), consumer=self._consumer, timeout_ms=self._client.timeout_ms)
        return self._client.ask(request, Connected).connected

    def ack(self, delivery: OfficialDelivery) -> None:
        self._acknowledge(delivery, cumulative=False)

    def ack_cumulative(self, delivery: OfficialDelivery) -> None:
        self._acknowledge(delivery, cumulative=True)

    def _acknowledge(self, delivery: OfficialDelivery, *, cumulative: bool) -> None:
        request = Acknowledge(
            id=self._new_id(),
            consumer=self._consumer,
            message=delivery.message,
            timeout_ms=self._client.timeout_ms,
            cumulative=cumulative,
        )
        self._client.ask(request, Done)

    def nack(self, delivery: OfficialDelivery) -> None:
        timeout_ms = self._client.timeout_ms
        request = Nack(id=self._new_id(), consumer=self._consumer, message=delivery.message, timeout_ms=timeout_ms)
        self._client.ask(request, Done)

    def redeliver_all(self) -> None:
        timeout_ms = self._client.timeout_ms
        self._client.ask(Redeliver(id=self._new_id(), consumer=self._consumer, timeout_ms=timeout_ms), Done)

    def unsubscribe(self) -> None:
        timeout_ms = self._client.timeout_ms
        self._client.ask(Unsubscribe(id=self._new_id(), consumer=self._consumer, timeout_ms=timeout_ms), Done)

    def close(self) -> None:
        self._client.close_one(self._consumer)

    def _new_id(self) -> int:
        return self._client.driver.new_id()


class RemoteClient:
    """One client of a driver, with connections of its own."""

    def __init__(
        self, driver: DriverProcess, service: Service | str, *, timeout_s: float, owns_driver: bool = False
    ) -> None:
        """``timeout_s`` bounds everything but sends and receives. Raises ``CLIENT_ERRORS``.

        ``owns_driver``: the process has only this client, and ends with it.
        """
        self.driver: Final = driver
        self._owns_driver = owns_driver
        self._was_killed = False
        self.timeout_ms: Final = math.ceil(timeout_s * 1000)
        self._name = driver.new_name("client")
        self._producers: list[RemoteProducer] = []
        service = Service.of(service)
        security = service.security
        if security.auth_method == "tls":
            raise HarnessError(f"the driver {driver.name} cannot authenticate with a certificate")
        token = token_of(security)
        if token is not None:
            self._demand("token")
        if service.is_tls:
            self._demand("tls")
        request = Connect(
            id=driver.new_id(),
            client=self._name,
            url=service.url,
            timeout_ms=self.timeout_ms,
            token=None if token is None else token.value,
            trust_certs_file=security.trust_certs_file if service.is_tls else None,
            allow_insecure=service.is_tls and security.allow_insecure,
            verify_hostname=security.verify_hostname,
        )
        self.ask(request, Done)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.abort()

    def has(self, feature: Feature) -> bool:
        """Whether the driver declares a feature."""
        return feature in self.driver.hello.features

    def _demand(self, feature: Feature) -> None:
        if not self.has(feature):
            raise HarnessError(f"the driver {self.driver.name} does not declare the feature {feature}")

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
    ) -> RemoteProducer:
        if chunking:
            self._demand("chunking")
        if compression != "none":
            self._demand("compression")
        producer = self.driver.new_name("producer")
        request = OpenProducer(
            id=self.driver.new_id(),
            client=self._name,
            producer=producer,
            topic=topic,
            timeout_ms=self.timeout_ms,
            name=name,
            send_timeout_ms=math.ceil(send_timeout_s * 1000),
            initial_sequence_id=initial_sequence_id,
            batching=batching,
            batch_delay_ms=batch_delay_ms if batching else 0,
            batch_messages=batch_messages if batching else 0,
            chunking=chunking,
            compression=compression,
        )
        opened = RemoteProducer(self, producer, self.ask(request, Opened))
        self._producers.append(opened)
        return opened

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
    ) -> RemoteConsumer:
        needed: tuple[tuple[bool, Feature], ...] = (
            (kind == "Key_Shared", "key-shared"),
            (acknowledges_parts, "batch-index-ack"),
            (acknowledges_discarded, "ack-oldest-chunked"),
            (replicated, "replicated-subscriptions"),
        )
        for is_needed, feature in needed:
            if is_needed:
                self._demand(feature)
        consumer = self.driver.new_name("consumer")
        request = Subscribe(
            id=self.driver.new_id(),
            client=self._name,
            consumer=consumer,
            topic=topic,
            subscription=subscription,
            kind=kind,
            timeout_ms=self.timeout_ms,
            initial=initial,
            name=consumer_name,
            queue=prefetch,
            nack_delay_ms=math.ceil(nack_delay_s * 1000),
            batch_index_ack=acknowledges_parts,
            max_pending_chunked=pending_chunked,
            ack_oldest_chunked=acknowledges_discarded,
            replicated=replicated,
        )
        self.ask(request, Done)
        return RemoteConsumer(self, consumer)

    def close(self) -> None:
        self.close_one(self._name)
        if self._owns_driver:
            self._was_killed = True
            self.driver.close()
        self._give_up("this client was closed")

    def demand_driver(self) -> None:
        """Raises :class:`DriverFailed` if the driver failed, and was not ended by the suite."""
        if self.driver.failure is not None and not self._was_killed:
            raise self.driver.failure

    def close_one(self, name: str) -> None:
        """Close a producer, consumer or the client itself."""
        self.ask(Close(id=self.driver.new_id(), name=name, timeout_ms=self.timeout_ms), Done)

    def abort(self) -> None:
        if self._owns_driver:
            self._was_killed = True
            self.driver.kill()
        elif self.driver.failure is None:
            self.ask(Abort(id=self.driver.new_id(), client=self._name, timeout_ms=self.timeout_ms), Done)
        self._give_up("this client died")

    def ask(self, request: AnyRequest, expected: type[A]) -> A:
        """Send a request; a client's no, or an unknown outcome, is raised as the suite's error."""
        answer = self.answer(request, (expected,), timeout_s=self.timeout_ms / 1000)
        assert isinstance(answer, expected)
        return answer

    def answer(self, request: AnyRequest, expected: tuple[type, ...], *, timeout_s: float) -> AnyAnswer:
        """The same, for requests with several answers."""
        try:
            answer = self.driver.answer(request, (*expected, Refused, GaveUp), timeout_s=timeout_s)
        except DriverFailed:
            if not self._was_killed:
                raise
            raise ConnectionLost(f"{_kind(request)}: this client was ended") from None
        match answer:
            case Refused(code=code, message=message):
                raise ServerRefused(code, f"{_kind(request)}: {message}")
            case GaveUp(why="timeout", message=message):
                raise NoAnswer(f"no answer in time: {_kind(request)}: {message}")
            case GaveUp(message=message):
                raise ConnectionLost(f"{_kind(request)}: {message}")
            case _:
                return answer

    def _give_up(self, reason: str) -> None:
        for producer in self._producers:
            producer.give_up(reason)


def _kind(request: AnyRequest) -> str:
    return str(request.__struct_config__.tag)


def _send_outcome(sequence_id: int, answer: AnyAnswer | DriverFailed) -> SendOutcome:
    match answer:
        case Sent(ledger=ledger, entry=entry, batch_index=batch_index):
            position = None if ledger < 0 and entry < 0 else Position(ledger, entry)
            return Receipt(sequence_id, 0, position, batch_index)
        case Refused(code=code, message=message):
            return SendError(code, message)
        case GaveUp(why=why, message=message):
            return Lost(f"the client gave up: {why}: {message}")
        case DriverFailed():
            return Lost(str(answer))
        case _:
            return Lost(f"the driver did not send it: {answer}")


def _delivery_of(message: Message) -> OfficialDelivery:
    return OfficialDelivery(
        position=Position(message.ledger, message.entry),
        topic=message.topic,
        batch_index=message.batch_index,
        payload=message.payload,
        producer_name=message.producer,
        key=message.ordering_key or message.key or "",
        properties=message.properties,
        redelivery_count=message.redelivery_count,
        message=message.message,
        message_id=message.message,
    )
