"""Producer sessions on a real broker: one shape for both clients, answers in the model's words.

A session sends and collects; it retries nothing (pulsar-client does so by itself) and judges nothing.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import ClassVar, Final, Protocol

from conformance.clients import protocol_pb2 as pb
from conformance.clients.driver.interface import OfficialTicket, ReleasedClient, ReleasedProducer
from conformance.clients.outcomes import ConnectionLost, Lost, NoAnswer, Receipt, SendError, SendOutcome, ServerRefused
from conformance.clients.security.service import Service
from conformance.clients.wire.client import WireClient
from conformance.clients.wire.producer import Keys, SendTicket, WireProducer
from conformance.wait import Deadline
from model.deduplication.producer_state import UNKNOWN_STATUS
from model.events import Answer, Duplicate, Refused, Stored, Unknown
from model.payloads import CHUNK_BYTES, payload_of
from model.vocabulary import AccessMode, Entry, Message

ANSWER_TIMEOUT_S = 10.0
"""How long a running broker may take to answer; far longer than ever measured."""

NOT_REPLICATED: Final = "__local__"
"""The cluster name in messages that are not to be replicated."""

NO_ANSWER = Refused("NoAnswer", f"the connection stayed open, and nothing came in {ANSWER_TIMEOUT_S:g} s")
"""The outcome of a send without an answer. No rule allows a running broker not to answer."""


FROZEN: Final = Unknown("its broker is frozen")
"""The outcome of an unanswered send to a broker that was frozen afterwards."""


class ProducerSession(Protocol):
    """A producer that was opened."""

    topic: str

    @property
    def is_open(self) -> bool:
        """Whether it can still send."""

    @property
    def last_sequence_id(self) -> int | None:
        """The last sequence id according to the client: first the broker's, later its own; None if not shown."""

    @property
    def pending(self) -> int:
        """How many sends are not collected yet."""

    def send(self, entries: Sequence[Entry]) -> None:
        """Send entries without waiting for answers."""

    def collect(self) -> tuple[Answer, ...]:
        """Wait for the answers to the oldest send that is not collected."""

    def close(self) -> None:
        """Close it gracefully."""

    def crash(self) -> None:
        """Cut its connections; sends in flight are lost."""


class WireSession:
    """A session of the wire client, on a connection of its own that can be cut."""

    def __init__(
        self, service: Service, topic: str, producer: str, access: AccessMode = "Shared", epoch: int | None = None
    ) -> None:
        """Connect and open. Raises the same as :meth:`WireClient.open_producer`."""
        self.topic = topic
        self.access = access
        self._client = WireClient.connect(service, timeout_s=ANSWER_TIMEOUT_S)
        try:
            self._producer: WireProducer = self._client.open_producer(
                topic, name=producer, timeout_s=ANSWER_TIMEOUT_S, access=access, epoch=epoch
            )
        except BaseException:
            self._client.abort()
            raise
        self._pending: deque[list[SendTicket]] = deque()
        self._unanswered: list[tuple[Entry, SendTicket]] = []

    @property
    def is_open(self) -> bool:
        return self._producer.is_open

    @property
    def why_closed(self) -> str | None:
        return self._producer.why_closed

    @property
    def is_queued(self) -> bool:
        """Whether it waits for exclusive access, as far as was asked."""
        return self._producer.is_queued

    def is_activated(self) -> bool:
        """Whether it does not wait for exclusive access any more. Raises the same as :class:`WireProducer`'s."""
        return self._producer.is_activated()

    @property
    def epoch(self) -> int | None:
        """The topic's epoch, as the producer learned it when it was opened."""
        return self._producer.epoch

    @property
    def last_sequence_id(self) -> int | None:
        """The highest sequence id of ProducerSuccess and the receipts."""
        return self._producer.last_sequence_id

    @property
    def pending(self) -> int:
        """How many sends are not collected yet."""
        return len(self._pending)

    def send(self, entries: Sequence[Entry], *, age_s: int = 0) -> None:
        """Send each entry in a frame of its own, without waiting; ``age_s``: published so long ago."""
        tickets = [self._send_one(entry, age_s) for entry in entries]
        self._pending.append(tickets)
        self._unanswered = [(entry, ticket) for entry, ticket in self._unanswered if ticket.outcome is None]
        self._unanswered += zip(entries, tickets, strict=True)

    def answers_so_far(self) -> tuple[Answer, ...]:
        """The answers that a frozen broker gave to the oldest send that is not collected."""
        tickets = self._pending.popleft()
        self._client.pump()
        return tuple(FROZEN if ticket.outcome is None else answer_of(ticket.outcome) for ticket in tickets)

    def forget_answered(self) -> None:
        """Exclude answered entries from :meth:`last_answers`."""
        self._unanswered = [(entry, ticket) for entry, ticket in self._unanswered if ticket.outcome is None]

    def last_answers(self, deadline: Deadline) -> Iterator[tuple[Entry, Answer]]:
        """The outcomes of the entries that were unanswered when their broker was frozen, or sent since."""
        for entry, ticket in self._unanswered:
            ticket.wait(deadline.left_s)
            yield entry, Unknown("it was not answered") if ticket.outcome is None else answer_of(ticket.outcome)

    def _send_one(self, entry: Entry, age_s: int) -> SendTicket:
        if not entry.is_batch:
            metadata = metadata_of(entry.messages[0])
            metadata.MergeFrom(_published(0 if entry.messages[0].delay_ms else age_s))
            return self._producer.send(
                entry.lowest,
                payload_of(entry.messages[0]),
                partition_key=entry.messages[0].key,
                ordering_key=_bytes(entry.messages[0].ordering_key),
                metadata=metadata,
            )
        return self._producer.send_batch(
            [(m.sequence_id, payload_of(m)) for m in entry.messages],
            keys=[Keys(m.key, _bytes(m.ordering_key)) for m in entry.messages],
            metadata=_published(age_s),
        )

    def collect(self) -> tuple[Answer, ...]:
        """Wait for all answers to the oldest send: until then, the producer may match one to another entry."""
        tickets = self._pending.popleft()
        deadline = Deadline.after(ANSWER_TIMEOUT_S)
        with suppress(NoAnswer):
            for ticket in tickets:
                self._producer.answer(ticket, timeout_s=deadline.left_s)
        return tuple(NO_ANSWER if ticket.outcome is None else answer_of(ticket.outcome) for ticket in tickets)

    def close(self) -> None:
        """Close producer and connection, even if the broker does not answer."""
        try:
            self._producer.close(timeout_s=ANSWER_TIMEOUT_S)
        except (ConnectionLost, NoAnswer, ServerRefused):
            self._client.abort()
        else:
            self._client.close()

    def crash(self) -> None:
        """Reset the connection; sends in flight are lost."""
        self._client.abort()


class OfficialSession:
    """A session of pulsar-client, with a client of its own, which reconnects and resends."""

    timeout_s: ClassVar = ANSWER_TIMEOUT_S

    def __init__(self, topic: str, producer: str, client: ReleasedClient) -> None:
        """Open it. Raises the same as :meth:`ReleasedClient.open_producer`."""
        self.topic = topic
        self._client = client
        self._pending: deque[list[Sequence[OfficialTicket]]] = deque()
        self._is_open = True
        try:
            self._producer = self._open(producer)
        except BaseException:
            self.crash()
            raise

    def _open(self, producer: str) -> ReleasedProducer:
        return self._client.open_producer(self.topic, name=producer, batching=True)

    @property
    def is_open(self) -> bool:
        """Whether the suite has not closed it: after anything that the broker does, the client reconnects."""
        return self._is_open

    @property
    def last_sequence_id(self) -> int | None:
        """That of ProducerSuccess; later the client's own."""
        return self._producer.last_sequence_id

    @property
    def pending(self) -> int:
        """How many sends are not collected yet."""
        return len(self._pending)

    def send(self, entries: Sequence[Entry]) -> None:
        """Send each entry as one batch, without waiting."""
        self._pending.append([self._send_one(entry) for entry in entries])

    def _send_one(self, entry: Entry) -> Sequence[OfficialTicket]:
        batch = [(m.sequence_id, payload_of(m)) for m in entry.messages]
        return self._producer.send_batch(batch, keys=[(m.key, m.ordering_key) for m in entry.messages])

    def collect(self) -> tuple[Answer, ...]:
        """Wait for the answers to the oldest send; all messages of a batch have the same.

        After :meth:`crash` the client reports nothing more on sends in flight.
        """
        deadline = Deadline.after(self.timeout_s if self._is_open else 0.0)
        return tuple(self._answer(tickets[0], deadline) for tickets in self._pending.popleft())

    def _answer(self, ticket: OfficialTicket, deadline: Deadline) -> Answer:
        try:
            return answer_of(self._producer.answer(ticket, timeout_s=deadline.left_s))
        except NoAnswer:
            if not self._is_open:
                return Unknown("this client cut the connection")
            # It backs off between reconnects, and would resend this after later sends.
            self.crash()
            return Unknown(f"pulsar-client had no answer in {self.timeout_s:g} s, and was ended")

    def close(self) -> None:
        """Close producer and client, even if the broker does not answer."""
        self._is_open = False
        with suppress(ConnectionLost, NoAnswer, ServerRefused):
            self._producer.close()
        self.crash()

    def crash(self) -> None:
        """Cut the client's connections; sends in flight are lost."""
        self._is_open = False
        self._client.abort()


def metadata_of(message: Message) -> pb.MessageMetadata:
    """The metadata of a single message of the wire client, apart from its id and key."""
    metadata = chunk_metadata(message)
    if message.delay_ms:
        metadata.publish_time = time.time_ns() // 1_000_000
        metadata.deliver_at_time = metadata.publish_time + message.delay_ms
    if message.only_to is not None:
        metadata.replicate_to.extend(message.only_to or (NOT_REPLICATED,))
    return metadata


def _published(age_s: int) -> pb.MessageMetadata:
    """The publish time of messages that are older than their send; nothing for any others."""
    if not age_s:
        return pb.MessageMetadata()
    return pb.MessageMetadata(publish_time=time.time_ns() // 1_000_000 - 1000 * age_s)


def chunk_metadata(message: Message) -> pb.MessageMetadata:
    """The chunk metadata of the wire client; empty if the message is no chunk."""
    if message.chunk is None:
        return pb.MessageMetadata()
    return pb.MessageMetadata(
        uuid=message.chunk.uuid or message.business_id,
        chunk_id=message.chunk.chunk_id,
        num_chunks_from_msg=message.chunk.chunks,
        total_chunk_msg_size=message.chunk.chunks * CHUNK_BYTES,
    )


def answer_of(outcome: SendOutcome) -> Answer:
    """A client's send outcome as the model's answer."""
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
    """Whether an error means that the broker cannot decide yet if a message is a duplicate; it has no own code."""
    return "duplicate" in message


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()
