"""Producer sessions on a real broker: one shape for both clients, answers in the model's words.

A session sends and collects; it retries nothing (pulsar-client does so by itself) and judges nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import ClassVar, Final, Protocol

from conformance.clients import protocol_pb2 as pb
from conformance.clients.driver.client import OfficialClient, OfficialProducer, OfficialTicket
from conformance.clients.outcomes import ConnectionLost, Lost, NoAnswer, Receipt, SendError, SendOutcome, ServerRefused
from conformance.clients.security.service import Service
from conformance.clients.wire.client import WireClient
from conformance.clients.wire.producer import Keys, SendTicket, WireProducer
from conformance.wait import Deadline
from model.deduplication.producer_state import UNKNOWN_STATUS
from model.events import Answer, Duplicate, Refused, Stored, Unknown
from model.payloads import CHUNK_BYTES, payload_of
from model.vocabulary import Entry, Message

ANSWER_TIMEOUT_S = 10.0
"""How long a broker that is up may take to answer; far beyond anything that was seen."""

NOT_REPLICATED: Final = "__local__"
"""What clients name instead of a cluster in a message that is not to be replicated."""

NO_ANSWER = Refused("NoAnswer", f"the connection stayed open, and nothing came in {ANSWER_TIMEOUT_S:g} s")
"""What stands for an answer that never came. No rule allows a broker that is up to be silent."""


FROZEN: Final = Unknown("its broker is frozen")
"""What is known of an entry that was sent to a broker before it was frozen, and is not answered."""


class ProducerSession(Protocol):
    """A producer that was opened."""

    topic: str

    @property
    def is_open(self) -> bool:
        """Whether it can still send."""

    @property
    def last_sequence_id(self) -> int | None:
        """Its own account of its last sequence id: the broker's on opening, later its own; None where it hides it."""

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

    def __init__(self, service: Service, topic: str, producer: str) -> None:
        """Connect and open; errors as :meth:`WireClient.open_producer` has them."""
        self.topic = topic
        self._client = WireClient.connect(service, timeout_s=ANSWER_TIMEOUT_S)
        try:
            self._producer: WireProducer = self._client.open_producer(topic, name=producer, timeout_s=ANSWER_TIMEOUT_S)
        except BaseException:
            self._client.abort()
            raise
        self._pending: deque[list[SendTicket]] = deque()
        self._unanswered: list[tuple[Entry, SendTicket]] = []

    @property
    def is_open(self) -> bool:
        """Whether neither side closed it."""
        return self._producer.is_open

    @property
    def why_closed(self) -> str | None:
        """Why it is closed; None while it is open."""
        return self._producer.why_closed

    @property
    def last_sequence_id(self) -> int | None:
        """What the broker said, on opening and in receipts."""
        return self._producer.last_sequence_id

    @property
    def pending(self) -> int:
        """How many sends were not collected yet."""
        return len(self._pending)

    def send(self, entries: Sequence[Entry]) -> None:
        """Send each entry in a frame of its own, all at once."""
        tickets = [self._send_one(entry) for entry in entries]
        self._pending.append(tickets)
        self._unanswered = [(entry, ticket) for entry, ticket in self._unanswered if ticket.outcome is None]
        self._unanswered += zip(entries, tickets, strict=True)

    def answers_so_far(self) -> tuple[Answer, ...]:
        """The answers to the oldest send that was not collected, of a broker that is frozen."""
        tickets = self._pending.popleft()
        self._client.pump()
        return tuple(FROZEN if ticket.outcome is None else answer_of(ticket.outcome) for ticket in tickets)

    def forget_answered(self) -> None:
        """Leave only what is not answered for :meth:`last_answers`."""
        self._unanswered = [(entry, ticket) for entry, ticket in self._unanswered if ticket.outcome is None]

    def last_answers(self, deadline: Deadline) -> Iterator[tuple[Entry, Answer]]:
        """What came of each entry that was not answered when its broker was frozen, or was sent to it since."""
        for entry, ticket in self._unanswered:
            ticket.wait(deadline.left_s)
            yield entry, Unknown("it was not answered") if ticket.outcome is None else answer_of(ticket.outcome)

    def _send_one(self, entry: Entry) -> SendTicket:
        if not entry.is_batch:
            return self._producer.send(
                entry.lowest,
                payload_of(entry.messages[0]),
                partition_key=entry.messages[0].key,
                ordering_key=_bytes(entry.messages[0].ordering_key),
                metadata=metadata_of(entry.messages[0]),
            )
        return self._producer.send_batch(
            [(m.sequence_id, payload_of(m)) for m in entry.messages],
            keys=[Keys(m.key, _bytes(m.ordering_key)) for m in entry.messages],
        )

    def collect(self) -> tuple[Answer, ...]:
        """Wait for the answers to the oldest send; until all are there, one may be given to another entry yet."""
        tickets = self._pending.popleft()
        deadline = Deadline.after(ANSWER_TIMEOUT_S)
        with suppress(NoAnswer):
            for ticket in tickets:
                self._producer.answer(ticket, timeout_s=deadline.left_s)
        return tuple(NO_ANSWER if ticket.outcome is None else answer_of(ticket.outcome) for ticket in tickets)

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


class OfficialSession:
    """A session of pulsar-client, with a client of its own. It reconnects, and sends again, by itself."""

    timeout_s: ClassVar = ANSWER_TIMEOUT_S

    def __init__(self, service: Service, topic: str, producer: str, client: OfficialClient | None = None) -> None:
        """Connect and open; errors as :meth:`OfficialClient.open_producer` has them."""
        self.topic = topic
        self._client = client or OfficialClient(service, timeout_s=ANSWER_TIMEOUT_S)
        self._pending: deque[list[Sequence[OfficialTicket]]] = deque()
        self._is_open = True
        try:
            self._producer = self._open(producer)
        except BaseException:
            self.crash()
            raise

    def _open(self, producer: str) -> OfficialProducer:
        return self._client.open_producer(self.topic, name=producer, batching=True)

    @property
    def is_open(self) -> bool:
        """Whether this side closed it: whatever the broker does, the client comes back."""
        return self._is_open

    @property
    def last_sequence_id(self) -> int | None:
        """What the broker said on opening; later the client's own account."""
        return self._producer.last_sequence_id

    @property
    def pending(self) -> int:
        """How many sends were not collected yet."""
        return len(self._pending)

    def send(self, entries: Sequence[Entry]) -> None:
        """Have each entry sent as a batch of its messages, without waiting in between."""
        self._pending.append([self._send_one(entry) for entry in entries])

    def _send_one(self, entry: Entry) -> Sequence[OfficialTicket]:
        batch = [(m.sequence_id, payload_of(m)) for m in entry.messages]
        return self._producer.send_batch(batch, keys=[(m.key, m.ordering_key) for m in entry.messages])

    def collect(self) -> tuple[Answer, ...]:
        """Wait for the answers to the oldest send; all messages of a batch have the same.

        A client that was cut off tells nothing more of what it had in flight.
        """
        deadline = Deadline.after(self.timeout_s if self._is_open else 0.0)
        return tuple(self._answer(tickets[0], deadline) for tickets in self._pending.popleft())

    def _answer(self, ticket: OfficialTicket, deadline: Deadline) -> Answer:
        try:
            return answer_of(self._producer.answer(ticket, timeout_s=deadline.left_s))
        except NoAnswer:
            if not self._is_open:
                return Unknown("this client cut the connection")
            # It waits ever longer between its tries to come back, and would send this behind what comes next.
            self.crash()
            return Unknown(f"pulsar-client had no answer in {self.timeout_s:g} s, and was ended")

    def close(self) -> None:
        """Close producer and client; a broker that does not take part is no hindrance."""
        self._is_open = False
        with suppress(ConnectionLost, NoAnswer, ServerRefused):
            self._producer.close()
        self.crash()

    def crash(self) -> None:
        """Cut the client's connections; what is in flight is then lost."""
        self._is_open = False
        self._client.abort()


def metadata_of(message: Message) -> pb.MessageMetadata:
    """What the wire client's single message says of itself beside its id and key."""
    metadata = chunk_metadata(message)
    if message.only_to is not None:
        metadata.replicate_to.extend(message.only_to or (NOT_REPLICATED,))
    return metadata


def chunk_metadata(message: Message) -> pb.MessageMetadata:
    """What the wire client's chunk of a message says of itself; nothing where the message is not one."""
    if message.chunk is None:
        return pb.MessageMetadata()
    return pb.MessageMetadata(
        uuid=message.chunk.uuid or message.business_id,
        chunk_id=message.chunk.chunk_id,
        num_chunks_from_msg=message.chunk.chunks,
        total_chunk_msg_size=message.chunk.chunks * CHUNK_BYTES,
    )


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


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()
