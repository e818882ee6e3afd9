"""A consumer of the wire client, whose caller gives every permit and sends every ack.

It has no receiver queue, no grouping of acks, no assembling of chunks, and no redelivery timeout.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, NamedTuple

from conformance.clients import protocol_pb2 as pb
from conformance.clients.outcomes import (
    ConnectionLost,
    NoAnswer,
    ServerRefused,
    error_name,
    message_id_of,
    position_of,
)
from conformance.clients.wire.connection import Connection, Request
from conformance.clients.wire.entries import is_left, parts_of
from conformance.clients.wire.frames import Frame
from conformance.harness_error import HarnessError
from conformance.wait import Deadline
from model.log import Position

_Type = pb.BaseCommand


@dataclass(frozen=True, slots=True, kw_only=True)
class WireDelivery:
    """One message as the broker dispatched it; a batch is several deliveries."""

    position: Position
    batch_index: int
    """Its batch index; -1 for a single message."""
    batch_size: int
    """How many messages its entry has, including acknowledged ones."""
    redelivery_count: int
    """The broker's redelivery count."""
    ack_set: tuple[int, ...]
    """The ack set: words of 64 bits, set for unacknowledged messages of the batch; empty if none is acknowledged."""
    metadata: pb.MessageMetadata
    """The entry's."""
    single: pb.SingleMessageMetadata | None
    """That of the message within a batch."""
    payload: bytes

    @property
    def acknowledged(self) -> frozenset[int]:
        """The indexes of its batch that are acknowledged according to the ack set."""
        return frozenset(index for index in range(self.batch_size) if not is_left(index, self.ack_set))

    @property
    def is_first_of_entry(self) -> bool:
        """Whether it is the first message of this delivery of its entry."""
        return all(index in self.acknowledged for index in range(self.batch_index))

    @property
    def producer_name(self) -> str:
        return self.metadata.producer_name

    @property
    def sequence_id(self) -> int:
        """Its sequence id; in a batch its own, if it has one, else the batch's."""
        if self.single is not None and self.single.HasField("sequence_id"):
            return self.single.sequence_id
        return self.metadata.sequence_id

    @property
    def key(self) -> bytes | None:
        """The key for Key_Shared: the ordering key, else the partition key; None without both."""
        source = self.metadata if self.single is None else self.single
        if source.HasField("ordering_key"):
            return source.ordering_key
        return source.partition_key.encode() if source.HasField("partition_key") else None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartOfBatch:
    """A part of a batch in an ack: some messages of an entry."""

    position: Position
    batch_size: int
    still_unacknowledged: frozenset[int]
    """The batch indexes that the ack does not acknowledge."""


Kind = Literal["Exclusive", "Shared", "Failover", "Key_Shared"]
"""The kinds of subscriptions, by their names in the protocol."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyShared:
    """How a consumer takes part in a Key_Shared subscription."""

    sticky_ranges: tuple[tuple[int, int], ...] = ()
    """The hash ranges that it claims (STICKY), ends included; none: AUTO_SPLIT."""
    allow_out_of_order: bool = False

    def to_wire(self) -> pb.KeySharedMeta:
        """It in the protocol's form."""
        return pb.KeySharedMeta(
            key_shared_mode=pb.STICKY if self.sticky_ranges else pb.AUTO_SPLIT,
            hash_ranges=[pb.IntRange(start=start, end=end) for start, end in self.sticky_ranges],
            allow_out_of_order_delivery=self.allow_out_of_order,
        )


class Excess(NamedTuple):
    """An entry arrived with so few ``permits`` left, in messages; ``entries``: the permits left if each counted for an
    entry. Both are the lowest of several entries."""

    permits: int
    entries: int


class _Permits:
    """The permits of one consumer, as its broker must count them."""

    def __init__(self) -> None:
        self._left = 0
        self._entries_left = 0
        self._excess: Excess | None = None

    def given(self, permits: int) -> None:
        is_settled = self._entries_left <= max(self._left, 0)
        self._left += permits
        self._entries_left = max(self._left, 0) if is_settled else self._entries_left + permits

    def used(self, messages: int) -> None:
        """An entry arrived."""
        if self._left <= 0:
            found = Excess(self._left, self._entries_left)
            self._excess = found if self._excess is None else Excess(*map(min, found, self._excess))
        self._left -= messages
        self._entries_left -= 1

    def settle(self) -> None:
        self._entries_left = max(self._left, 0)

    def take_excess(self) -> Excess | None:
        found, self._excess = self._excess, None
        return found


class WireConsumer:
    """A subscribed consumer; made by :meth:`conformance.clients.wire.client.WireClient.subscribe`."""

    def __init__(self, connection: Connection, consumer_id: int) -> None:
        self.is_active: bool | None = None
        """Whether this is the active consumer (Failover, Exclusive), from the broker's last command; None without."""
        self.reached_end = False
        """Whether the broker sent REACHED_END_OF_TOPIC."""
        self._connection = connection
        self._id = consumer_id
        self._topic = ""
        self._closed: str | None = None
        self._permits = _Permits()
        self._frames: deque[Frame] = deque()
        self._arrived: deque[WireDelivery] = deque()
        # Register before the request: the broker may send more right after its success.
        connection.add_consumer(consumer_id, self)

    def subscribe(self, ask: pb.CommandSubscribe, deadline: Deadline) -> None:
        """Subscribe, once; the client calls it. Raises the same as its ``subscribe``."""
        ask.consumer_id, self._topic = self._id, ask.topic
        try:
            self._connection.ask(ask, deadline, what=f"subscribing {ask.subscription} to {ask.topic}")
        except NoAnswer:
            # It may be subscribed nevertheless, and would have messages pending that nothing receives.
            self._connection.send_command(pb.CommandCloseConsumer(consumer_id=self._id, request_id=0))
            self._end("it was never subscribed")
            raise
        except HarnessError:
            self._end("it was never subscribed")
            raise

    @property
    def is_open(self) -> bool:
        """Whether it can receive more: neither side closed it, and its connection is open."""
        return self._closed is None

    @property
    def why_closed(self) -> str | None:
        return self._closed

    def flow(self, permits: int) -> None:
        """Give the broker permits. Raises :class:`ConnectionLost`."""
        self._check_open()
        self._permits.given(permits)
        self._connection.send_command(pb.CommandFlow(consumer_id=self._id, message_permits=permits))

    def all_arrived(self) -> None:
        """By the broker's stats, nothing is on its way to this consumer."""
        self._permits.settle()

    def take_excess(self) -> Excess | None:
        """What the broker sent beyond the permits since the last call."""
        return self._permits.take_excess()

    def receive(self, *, timeout_s: float) -> WireDelivery | None:
        """Wait for the next message; None if none arrives in time.

        Raises :class:`ConnectionLost` once the consumer is closed, by whomever, and all that had arrived is taken, and
        what :func:`deliveries_of` raises.
        """
        deadline = Deadline.after(timeout_s)
        while not self._arrived:
            with suppress(NoAnswer):
                self._connection.pump.wait(lambda: bool(self._frames) or not self.is_open, deadline, what="a message")
            if not self._frames:
                self._check_open()
                return None
            self._unpack(self._frames.popleft())
        return self._arrived.popleft()

    def pending(self) -> Sequence[WireDelivery]:
        """The messages that arrived and are not received yet. Raises the same as :meth:`receive`."""
        self._connection.pump.turn()
        while self._frames:
            self._unpack(self._frames.popleft())
        return tuple(self._arrived)

    def ack(
        self,
        positions: Iterable[Position | PartOfBatch],
        *,
        cumulative: bool = False,
        with_receipt: bool = True,
        timeout_s: float = 10.0,
    ) -> None:
        """Acknowledge entries or parts of batches in one command; ``cumulative`` takes exactly one position.

        With a receipt it waits for the broker's answer, which does not mean that the ack is persisted. If the protocol
        has no receipts, it waits until the broker has processed the ack, and does not learn of a refusal. Raises
        :class:`ServerRefused`, :class:`ConnectionLost`, :class:`NoAnswer`.
        """
        self._check_open()
        kind = pb.CommandAck.Cumulative if cumulative else pb.CommandAck.Individual
        ids = [_acknowledged_id(position) for position in positions]
        ack = pb.CommandAck(consumer_id=self._id, ack_type=kind, message_id=ids)
        if not with_receipt:
            self._connection.send_command(ack)
            return
        if not self._connection.has_receipts:
            self._connection.send_command(ack)
            self._connection.await_done(Deadline.after(timeout_s), what="an acknowledgment")
            return
        answer = self._ask(ack, timeout_s, what="an acknowledgment")
        if answer.ack_response.HasField("error"):
            raise ServerRefused(error_name(answer.ack_response.error), answer.ack_response.message)

    def redeliver(self, positions: Iterable[Position] | None = None) -> None:
        """Request the redelivery of these entries, or of all pending ones. Raises ``ConnectionLost``."""
        self._check_open()
        ids = [message_id_of(position) for position in positions or ()]
        if positions is not None and not ids:
            return  # on the wire, an empty list means everything
        self._connection.send_command(pb.CommandRedeliverUnacknowledgedMessages(consumer_id=self._id, message_ids=ids))

    def await_done(self, *, timeout_s: float = 10.0) -> None:
        """Wait until the broker has processed all commands so far. Raises ``ConnectionLost`` and ``NoAnswer``."""
        self._connection.await_done(Deadline.after(timeout_s), what=f"the commands of a consumer of {self._topic}")

    def seek(
        self, position: Position | None = None, *, publish_time_ms: int | None = None, timeout_s: float = 10.0
    ) -> None:
        """Reset the subscription to a position or a publish time; the broker then closes its consumers.

        Raises :class:`ServerRefused`, :class:`ConnectionLost`, :class:`NoAnswer`.
        """
        seek = pb.CommandSeek(
            consumer_id=self._id,
            message_id=None if position is None else message_id_of(position),
            message_publish_time=publish_time_ms,
        )
        self._ask(seek, timeout_s, what="a seek")

    def last_message_id(self, *, timeout_s: float = 10.0) -> Position | None:
        """The position of the topic's last entry for consumers; None if there is none.

        Raises :class:`ServerRefused`, :class:`ConnectionLost`, :class:`NoAnswer`.
        """
        request = pb.CommandGetLastMessageId(consumer_id=self._id)
        answer = self._ask(request, timeout_s, what=f"the last message id of {self._topic}")
        last = position_of(answer.get_last_message_id_response.last_message_id)
        return None if last is None or last.entry < 0 else last

    def unsubscribe(self, *, timeout_s: float = 10.0) -> None:
        """Remove the subscription with this consumer. Raises the same as :meth:`close`."""
        self._ask(pb.CommandUnsubscribe(consumer_id=self._id), timeout_s, what="unsubscribing")
        self._end("this client unsubscribed")

    def close(self, *, timeout_s: float = 10.0) -> None:
        """Close it, unless it is closed. Messages that have arrived can still be received.

        Raises :class:`ServerRefused`, :class:`ConnectionLost`, :class:`NoAnswer`.
        """
        if not self.is_open:
            return
        self._ask(pb.CommandCloseConsumer(consumer_id=self._id), timeout_s, what="closing a consumer")
        self._end("this client closed the consumer")

    def on_frame(self, frame: Frame) -> None:
        """Handle a message or another command for this consumer; the connection calls it."""
        command = frame.command
        if command.type == _Type.MESSAGE:
            self._permits.used(_size_of(frame))
            self._frames.append(frame)
        elif command.type == _Type.ACTIVE_CONSUMER_CHANGE:
            self.is_active = command.active_consumer_change.is_active
        elif command.type == _Type.REACHED_END_OF_TOPIC:
            self.reached_end = True
        else:
            self._end("the broker closed the consumer")

    def on_lost(self, reason: str) -> None:
        self._end(reason)

    def _ask(self, body: Request, timeout_s: float, *, what: str) -> pb.BaseCommand:
        self._check_open()
        return self._connection.ask(body, Deadline.after(timeout_s), what=what)

    def _unpack(self, frame: Frame) -> None:
        assert frame.metadata is not None, "the codec gives every MESSAGE its metadata"
        self._arrived.extend(deliveries_of(frame.command.message, frame.metadata, frame.payload))

    def _check_open(self) -> None:
        if self._closed is not None:
            raise ConnectionLost(self._closed)

    def _end(self, reason: str) -> None:
        if self._closed is None:
            self._closed = reason
            self._connection.remove_consumer(self._id)


def deliveries_of(message: pb.CommandMessage, metadata: pb.MessageMetadata, payload: bytes) -> Iterable[WireDelivery]:
    """An entry's messages that are not acknowledged yet.

    Raises :class:`conformance.clients.wire.frames.MalformedFrame` for an invalid batch, and :class:`HarnessError` for
    one that cannot be read. A single message is returned as stored.
    """
    position = position_of(message.message_id)
    if position is None:
        raise HarnessError("a message was delivered without a position")
    ack_set = tuple(message.ack_set)
    return (
        WireDelivery(
            position=position,
            batch_index=index,
            batch_size=metadata.num_messages_in_batch,
            redelivery_count=message.redelivery_count,
            ack_set=ack_set,
            metadata=metadata,
            single=single,
            payload=bytes(part),
        )
        for index, single, part in parts_of(metadata, payload)
        if single is None or is_left(index, ack_set)
    )


def _size_of(frame: Frame) -> int:
    """How many permits an entry uses: the messages in it that are not acknowledged."""
    assert frame.metadata is not None, "the codec gives every MESSAGE its metadata"
    size, ack_set = frame.metadata.num_messages_in_batch, tuple(frame.command.message.ack_set)
    return sum(is_left(index, ack_set) for index in range(size)) if ack_set else size


def _acknowledged_id(what: Position | PartOfBatch) -> pb.MessageIdData:
    if isinstance(what, Position):
        return message_id_of(what)
    message_id = message_id_of(what.position)
    message_id.batch_size = what.batch_size
    for word in range((what.batch_size + 63) // 64):
        bits = sum(1 << (i - 64 * word) for i in what.still_unacknowledged if i // 64 == word)
        message_id.ack_set.append(bits - 2**64 if bits >= 2**63 else bits)
    return message_id
