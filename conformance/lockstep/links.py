"""A source's link to the broker: one producer of either client on a connection of its own, in one shape.

The wire client does what it is told, once, so its source notices what goes wrong and opens another link. pulsar-client
comes back and sends again by itself, so its source notices next to nothing: that is the way the document asks for.
"""

from __future__ import annotations

from typing import Final, Protocol

from conformance.applications.starter import Starter
from conformance.applications.words import Answered, Close, Die, Failed, Hand, Produce, Told
from conformance.clients.outcomes import Lost, NoAnswer, Receipt, SendError, SendOutcome, ServerRefused
from conformance.clients.security.service import Service
from conformance.clients.wire.client import WireClient
from conformance.clients.wire.producer import SendTicket
from conformance.harness_error import HarnessError
from model.vocabulary import Client, Entry

CLOSE_TIMEOUT_S: Final = 10.0

OPENING_TIMEOUT_S: Final = 10.0
"""How much longer than it was given a producer's process may take to say what came of opening."""

Ticket = SendTicket | Entry
"""What a link knows a send by."""


class Link(Protocol):
    """An open producer."""

    last_sequence_id: int

    def send(self, entry: Entry) -> Ticket:
        """Send an entry without waiting."""

    def answer(self, ticket: Ticket, *, timeout_s: float) -> SendOutcome:
        """Wait for what becomes of it; raises :class:`NoAnswer`."""

    def close(self) -> None:
        """Close it in good order; a broker that does not take part is no hindrance."""

    def abort(self) -> None:
        """Cut the connection."""


class WireLink:
    """A producer of the wire client."""

    def __init__(self, service: Service, topic: str, name: str, timeout_s: float) -> None:
        """Connect and open. Raises :class:`ServerRefused`, :class:`ConnectionLost`, :class:`NoAnswer`."""
        self._client = WireClient.connect(service, timeout_s=timeout_s)
        try:
            self._producer = self._client.open_producer(topic, name=name, timeout_s=timeout_s)
        except BaseException:
            self._client.abort()
            raise
        self.last_sequence_id = self._producer.last_sequence_id

    def send(self, entry: Entry) -> Ticket:
        """Send an entry in one frame."""
        if not entry.is_batch:
            return self._producer.send(entry.lowest, entry.messages[0].business_id.encode())
        return self._producer.send_batch([(m.sequence_id, m.business_id.encode()) for m in entry.messages])

    def answer(self, ticket: Ticket, *, timeout_s: float) -> SendOutcome:
        """Wait for its answer."""
        assert isinstance(ticket, SendTicket)
        return self._producer.answer(ticket, timeout_s=timeout_s)

    def close(self) -> None:
        """Close the producer, then the connection."""
        self._client.close(timeout_s=CLOSE_TIMEOUT_S)

    def abort(self) -> None:
        """Reset the connection."""
        self._client.abort()


class OfficialLink:
    """A producer of pulsar-client, without a send timeout, in a process of its own."""

    def __init__(self, starter: Starter, service: Service, topic: str, name: str, timeout_s: float) -> None:
        """Start it, and have it open; errors as for :class:`WireLink`."""
        self._application = starter.run(Produce(service, topic, name, timeout_s))
        match report := self._application.hear(timeout_s + OPENING_TIMEOUT_S):
            case Told(last_sequence_id):
                self.last_sequence_id = last_sequence_id
            case Failed(code=code, message=message, is_refused=is_refused):
                self._application.await_end()
                raise ServerRefused(code, message) if is_refused else NoAnswer(message)
            case _:
                raise HarnessError(f"a producer of pulsar-client did not say that it is open, but: {report}")

    def send(self, entry: Entry) -> Ticket:
        """Hand an entry over; the client does not say where its batches end, so that only single messages are safe."""
        if entry.is_batch:
            raise HarnessError("a source of pulsar-client sends single messages only")
        self._application.tell(Hand(entry))
        return entry

    def answer(self, ticket: Ticket, *, timeout_s: float) -> SendOutcome:
        """Wait until the client says what became of it; it speaks of what it sent in the order of sending."""
        assert isinstance(ticket, Entry)
        match report := self._application.hear(timeout_s):
            case Answered(ticket.lowest, position):
                return Receipt(ticket.lowest, 0, position)
            case Failed(ticket.lowest, code, message, is_refused):
                return SendError(code, message) if is_refused else Lost(message)
            case _:
                raise HarnessError(f"a producer of pulsar-client was asked about {ticket}, and said: {report}")

    def close(self) -> None:
        """Have it close in good order."""
        self._application.tell(Close())
        self._application.await_end()

    def abort(self) -> None:
        """Have it killed by its own hand."""
        self._application.tell(Die())
        self._application.await_end()


def open_link(client: Client, starter: Starter, service: Service, topic: str, name: str, timeout_s: float) -> Link:
    """Open a producer; raises :class:`ServerRefused`, :class:`ConnectionLost`, :class:`NoAnswer`."""
    if client == "wire":
        return WireLink(service, topic, name, timeout_s)
    return OfficialLink(starter, service, topic, name, timeout_s)
