"""A producer of the wire client, which sends exactly the requested frames and returns every answer.

It does not retry, reorder, number or delay messages; pulsar-client does that.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from conformance.clients import protocol_pb2 as pb
from conformance.clients.outcomes import (
    ConnectionLost,
    Lost,
    NoAnswer,
    Receipt,
    SendError,
    SendOutcome,
    error_name,
    position_of,
    signed,
)
from conformance.clients.wire.connection import Connection, command_of
from conformance.clients.wire.frames import Frame, encode_batch, encode_frame
from conformance.clients.wire.pump import Pump
from conformance.harness_error import HarnessError
from conformance.wait import Deadline
from model.vocabulary import AccessMode

_Type = pb.BaseCommand
_MODES: Final[Mapping[AccessMode, pb.ProducerAccessMode.ValueType | None]] = {
    "Shared": None,
    "Exclusive": pb.ProducerAccessMode.ExclusiveOrFail,
    "WaitForExclusive": pb.ProducerAccessMode.WaitForExclusive,
    "ExclusiveWithFencing": pb.ProducerAccessMode.ExclusiveWithFencing,
}


class SendTicket:
    """One entry in flight."""

    __slots__ = ("_pump", "highest_sequence_id", "outcome", "sequence_id")

    def __init__(self, sequence_id: int, highest_sequence_id: int, pump: Pump) -> None:
        self._pump = pump
        self.sequence_id: Final = sequence_id
        """Its sequence id; the first one of a batch."""
        self.highest_sequence_id: Final = highest_sequence_id
        """Its sequence id; the last one of a batch."""
        self.outcome: SendOutcome | None = None
        """Its outcome; None while it is in flight."""

    def wait(self, timeout_s: float) -> SendOutcome | None:
        """Wait for its outcome; None if there is none in time."""
        with suppress(NoAnswer):
            self._pump.wait(lambda: self.outcome is not None, Deadline.after(timeout_s), what="an answer to a send")
        return self.outcome


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of a message in a batch."""

    key: str | None = None
    ordering_key: bytes | None = None


class WireProducer:
    """An open producer; made by :meth:`conformance.clients.wire.client.WireClient.open_producer`."""

    def __init__(self, connection: Connection, producer_id: int) -> None:
        self.name = ""
        """Its name, by default the broker's choice."""
        self.last_sequence_id = -1
        """The highest sequence id of ProducerSuccess and the receipts since; -1 for none."""
        self.unexpected: Final[list[Receipt | SendError]] = []
        """Answers without a send in flight; a broker should not send any."""
        self.epoch: int | None = None
        """The topic's epoch of ProducerSuccess; None if it has none."""
        self._connection = connection
        self._id = producer_id
        self._request: int | None = None
        """Its request, while it waits for exclusive access."""
        self._closed: str | None = None
        self._recent: list[SendTicket] = []
        # Register before the request: the broker may close the producer right after its success.
        connection.add_producer(producer_id, self)

    def open(
        self,
        topic: str,
        *,
        name: str | None,
        deadline: Deadline,
        access: AccessMode = "Shared",
        epoch: int | None = None,
    ) -> None:
        """Open it, once; the client calls it. Raises the same as ``open_producer``.

        With WaitForExclusive it may be queued; then :meth:`is_activated` says when it is open.
        """
        ask = pb.CommandProducer(
            topic=topic,
            producer_id=self._id,
            producer_name=name,
            user_provided_producer_name=name is not None,
            producer_access_mode=_MODES[access],
            topic_epoch=epoch,
        )
        what = f"opening producer {name or ''} on {topic}"
        try:
            if access == "WaitForExclusive":
                self._request = self._connection.ask_in_queue(ask, deadline, what=what)
                self.is_activated()
                return
            answer = self._connection.ask(ask, deadline, what=what)
        except NoAnswer:
            # It may be opened nevertheless, and would block its name.
            self._connection.send_command(pb.CommandCloseProducer(producer_id=self._id, request_id=0))
            self._end("it was never opened")
            raise
        except HarnessError:
            self._end("it was never opened")
            raise
        self._opened(answer.producer_success)

    def _opened(self, success: pb.CommandProducerSuccess) -> None:
        self.name = success.producer_name
        self.last_sequence_id = success.last_sequence_id
        self.epoch = success.topic_epoch if success.HasField("topic_epoch") else None

    @property
    def is_queued(self) -> bool:
        """Whether it waits for exclusive access, as far as was asked."""
        return self._request is not None

    def is_activated(self) -> bool:
        """Whether it does not wait for exclusive access, or not any more.

        Raises :class:`ServerRefused` if it was fenced in the queue, and :class:`ConnectionLost`.
        """
        if self._request is None:
            return True
        try:
            answer = self._connection.answer_to(self._request, what=f"waiting for exclusive access: {self.name}")
        except HarnessError as error:
            self._request = None
            self._end(str(error))
            raise
        if answer is not None:
            self._request = None
            self._opened(answer.producer_success)
        return answer is not None

    @property
    def is_open(self) -> bool:
        """Whether it can send: neither side closed it, and its connection is open."""
        return self._closed is None

    @property
    def why_closed(self) -> str | None:
        return self._closed

    def send(
        self,
        sequence_id: int,
        payload: bytes,
        *,
        highest_sequence_id: int | None = None,
        properties: Mapping[str, str] | None = None,
        partition_key: str | None = None,
        ordering_key: bytes | None = None,
        metadata: pb.MessageMetadata | None = None,
    ) -> SendTicket:
        """Send one entry without waiting; on a closed producer the ticket is lost from the start.

        Several may be in flight, even with one sequence id, which answers do not distinguish: receipts are matched in
        the order of sending, errors in reverse order. ``metadata`` overrides the fields set here.
        """
        message = pb.MessageMetadata(
            producer_name=self.name,
            sequence_id=sequence_id,
            publish_time=time.time_ns() // 1_000_000,
            partition_key=partition_key,
            ordering_key=ordering_key,
            highest_sequence_id=highest_sequence_id,
        )
        for key, value in (properties or {}).items():
            message.properties.add(key=key, value=value)
        if metadata is not None:
            message.MergeFrom(metadata)
        return self._send(message, payload)

    def send_batch(
        self,
        messages: Sequence[tuple[int, bytes]],
        *,
        keys: Sequence[Keys] | None = None,
        metadata: pb.MessageMetadata | None = None,
    ) -> SendTicket:
        """Send ``(sequence id, payload)`` of one or more messages as one batch entry; otherwise like :meth:`send`.

        ``keys``: one for each of them. The entry has those of its first message, as clients have it.
        """
        ids = [sequence_id for sequence_id, _ in messages]
        batch = pb.MessageMetadata(
            producer_name=self.name,
            sequence_id=ids[0],
            highest_sequence_id=ids[-1],
            publish_time=time.time_ns() // 1_000_000,
            num_messages_in_batch=len(ids),
        )
        if metadata is not None:
            batch.MergeFrom(metadata)
        if keys is not None:
            batch.MergeFrom(pb.MessageMetadata(partition_key=keys[0].key, ordering_key=keys[0].ordering_key))
        payload = encode_batch(
            (pb.SingleMessageMetadata(sequence_id=i, partition_key=own.key, ordering_key=own.ordering_key), payload)
            for (i, payload), own in zip(messages, keys or [Keys()] * len(messages), strict=True)
        )
        return self._send(batch, payload)

    def answer(self, ticket: SendTicket, *, timeout_s: float) -> SendOutcome:
        """Wait for the outcome of a send.

        Raises :class:`conformance.clients.outcomes.NoAnswer` if there is none in time; the caller may wait again.
        """
        outcome = ticket.wait(timeout_s)
        if outcome is None:
            raise NoAnswer(f"no answer in time: sequence id {ticket.sequence_id} of producer {self.name}")
        return outcome

    def close(self, *, timeout_s: float) -> None:
        """Close it, unless it is closed. Unanswered sends are lost.

        Raises ``ConnectionLost``, ``NoAnswer`` or ``ServerRefused``.
        """
        if not self.is_open:
            return
        close = pb.CommandCloseProducer(producer_id=self._id)
        self._connection.ask(close, Deadline.after(timeout_s), what=f"closing producer {self.name}")
        self._end("this client closed the producer")

    def on_frame(self, frame: Frame) -> None:
        """Handle an answer to a send, or CLOSE_PRODUCER; the connection calls it."""
        command = frame.command
        if command.type == _Type.SEND_RECEIPT:
            receipt = command.send_receipt
            position = position_of(receipt.message_id) if receipt.HasField("message_id") else None
            highest = signed(receipt.highest_sequence_id)
            self.last_sequence_id = max(self.last_sequence_id, receipt.sequence_id, highest)
            self._confirm(Receipt(receipt.sequence_id, highest, position))
        elif command.type == _Type.SEND_ERROR:
            error = command.send_error
            self._refuse(error.sequence_id, SendError(error_name(error.error), error.message))
        else:
            self._end("the broker closed the producer")

    def on_lost(self, reason: str) -> None:
        self._end(reason)

    def _send(self, metadata: pb.MessageMetadata, payload: bytes) -> SendTicket:
        send = pb.CommandSend(producer_id=self._id, sequence_id=metadata.sequence_id)
        if metadata.HasField("highest_sequence_id"):
            send.highest_sequence_id = metadata.highest_sequence_id
        if metadata.HasField("num_messages_in_batch"):
            send.num_messages = metadata.num_messages_in_batch
        if metadata.num_chunks_from_msg > 1:
            send.is_chunk = True
        ticket = SendTicket(
            metadata.sequence_id, max(metadata.sequence_id, metadata.highest_sequence_id), self._connection.pump
        )
        frame = encode_frame(command_of(send), metadata, payload)
        with self._connection.pump.lock:
            if self._closed is not None:
                ticket.outcome = Lost(self._closed)
                return ticket
            if all(earlier.outcome is not None for earlier in self._recent):
                self._recent.clear()
            self._recent.append(ticket)
            try:
                self._connection.send(frame)
            except ConnectionLost as lost:
                self._end(str(lost))
        return ticket

        # Answers do not always distinguish sends with the same id: a receipt has the first id of its entry, and for a
        # batch the last one, an error the last, and answers overtake one another. So an answer moves to another send
        # with this id if otherwise a later answer would match none, or would match a worse one.

    def _confirm(self, receipt: Receipt) -> None:
        if not self._place(receipt, receipt.sequence_id, set()):
            self.unexpected.append(receipt)

    def _refuse(self, sequence_id: int, error: SendError) -> None:
        if not self._place(error, sequence_id, set()):
            self.unexpected.append(error)

    def _place(self, answer: SendOutcome, sequence_id: int, tried: set[SendTicket]) -> bool:
        """Match an answer to a send, and move the answer that this one has if necessary."""
        of_error = isinstance(answer, SendError)
        fitting = [t for t in self._recent if (t.highest_sequence_id if of_error else t.sequence_id) == sequence_id]
        for ticket in sorted(fitting, key=lambda t: (_is_of_another_batch(answer, t), t.outcome is not None)):
            if ticket in tried:
                continue
            tried.add(ticket)
            before = ticket.outcome
            if before is None or self._place(before, _named(ticket, before), tried):
                ticket.outcome = answer
                return True
        return False

    def _end(self, reason: str) -> None:
        with self._connection.pump.lock:
            if self._closed is None:
                self._closed = reason
                self._connection.remove_producer(self._id)
            for ticket in self._recent:
                if ticket.outcome is None:
                    ticket.outcome = Lost(self._closed)
            self._recent.clear()


def _is_of_another_batch(answer: SendOutcome, ticket: SendTicket) -> bool:
    """Whether a receipt has the last id of a batch, and the send has another one."""
    if not isinstance(answer, Receipt) or answer.highest_sequence_id <= answer.sequence_id:
        return False
    return answer.highest_sequence_id != ticket.highest_sequence_id


def _named(ticket: SendTicket, outcome: SendOutcome) -> int:
    """The sequence id in the answer that was matched to a send."""
    return ticket.highest_sequence_id if isinstance(outcome, SendError) else ticket.sequence_id
