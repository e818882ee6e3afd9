"""Producer sessions on a real broker: one shape for both clients, answers in the model's words.

A session sends and collects; it retries nothing (pulsar-client does so by itself) and judges nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Protocol

from conformance.systems.outcomes import ConnectionLost, Lost, NoAnswer, Receipt, SendError, SendOutcome, ServerRefused
from conformance.systems.wire import WireClient
from conformance.systems.wire_producer import SendTicket, WireProducer
from model.dedup import UNKNOWN_STATUS
from model.operations import Answer, Duplicate, Entry, Refused, Stored, Unknown

ANSWER_TIMEOUT_S = 10.0
"""How long a broker that is up may take to answer; far beyond anything that was seen."""

NO_ANSWER = "NoAnswer"
"""The code of a refusal that never came: the connection stayed open, the broker is up, and nobody answered."""


class ProducerSession(Protocol):
    """A producer that was opened."""

    topic: str

    @property
    def is_open(self) -> bool:
        """Whether it can still send."""

    @property
    def last_sequence_id(self) -> int | None:
        """The id that it learnt on opening; None where the client hides it."""

    @property
    def pending(self) -> int:
        """How many sends were not collected yet."""

    def send(self, entries: Sequence[Entry]) -> None:
        """Send entries one behind the other without waiting."""

    def collect(self) -> tuple[Answer, ...]:
        """Wait for the answers to the oldest send that was not collected."""

    def close(self) -> None:
        """Close it in good order."""

    def crash(self) -> None:
        """Cut its connection."""


class WireSession:
    """A session of the wire client, on a connection of its own, so that it can be cut alone."""

    def __init__(self, service_url: str, topic: str, producer: str) -> None:
        """Connect and open; errors as :meth:`WireClient.open_producer` has them."""
        self.topic = topic
        self._client = WireClient.connect(service_url, timeout_s=ANSWER_TIMEOUT_S)
        try:
            self._producer: WireProducer = self._client.open_producer(topic, name=producer, timeout_s=ANSWER_TIMEOUT_S)
        except BaseException:
            self._client.abort()
            raise
        self._pending: deque[list[SendTicket]] = deque()

    @property
    def is_open(self) -> bool:
        """Whether neither side closed it."""
        return self._producer.is_open

    @property
    def last_sequence_id(self) -> int | None:
        """What the broker said on opening."""
        return self._producer.last_sequence_id

    @property
    def pending(self) -> int:
        """How many sends were not collected yet."""
        return len(self._pending)

    def send(self, entries: Sequence[Entry]) -> None:
        """Send each entry in a frame of its own, all at once."""
        self._pending.append([self._send_one(entry) for entry in entries])

    def _send_one(self, entry: Entry) -> SendTicket:
        if not entry.is_batch:
            return self._producer.send(entry.lowest, entry.messages[0].business_id.encode())
        return self._producer.send_batch([(m.sequence_id, m.business_id.encode()) for m in entry.messages])

    def collect(self) -> tuple[Answer, ...]:
        """Wait for the answers to the oldest send."""
        return tuple(self._answer(ticket) for ticket in self._pending.popleft())

    def _answer(self, ticket: SendTicket) -> Answer:
        try:
            return answer_of(self._producer.answer(ticket, timeout_s=ANSWER_TIMEOUT_S))
        except NoAnswer:
            return Refused(NO_ANSWER, f"nothing came in {ANSWER_TIMEOUT_S:g} s")

    def close(self) -> None:
        """Close producer and connection; a broker that does not take part is no hindrance."""
        try:
            self._producer.close(timeout_s=ANSWER_TIMEOUT_S)
        except (ConnectionLost, NoAnswer, ServerRefused):
            self._client.abort()
        else:
            self._client.close()

    def crash(self) -> None:
        """Reset the connection; what is in flight is then lost."""
        self._client.abort()


def answer_of(outcome: SendOutcome) -> Answer:
    """A client's outcome of a send in the words of the model."""
    match outcome:
        case Receipt(position=None):
            return Duplicate()
        case Receipt(position=position) if position is not None:
            return Stored(position)
        case SendError(code, message):
            return Refused(UNKNOWN_STATUS if is_unknown_status(message) else code, message)
        case Lost(reason):
            return Unknown(reason)
        case _:
            raise AssertionError(outcome)


def is_unknown_status(message: str) -> bool:
    """Whether an error says that it cannot be told yet if a message is a duplicate; it has no code of its own."""
    return "duplicate" in message
