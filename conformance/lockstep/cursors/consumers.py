"""Consumers of document 003 on a real broker: one consumer of either client, on a connection of its own.

The wire client's consumer knows exactly what it received and sent. pulsar-client's has the client's receiver queue,
groups its acks and reconnects. Callers decide how long to wait.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from typing import Protocol

from conformance.clients.handles import SubscriptionConfig, WireConsumerHandle, aborted_on_error
from conformance.clients.outcomes import ConnectionLost, NoAnswer
from conformance.clients.security.service import Service
from conformance.clients.wire.consumer import Excess, KeyShared, PartOfBatch, WireDelivery
from conformance.lockstep.cursors.batch_acknowledger import BatchAcknowledger
from conformance.lockstep.positions import MessagePosition, Positions
from conformance.lockstep.sessions import ANSWER_TIMEOUT_S
from conformance.lockstep.settings.traits import Traits
from conformance.proxy.proxy import Proxy
from model.events import Acknowledged, Delivery
from model.log import Position
from model.payloads import business_id_of
from model.subscription_operations import Subscribe
from model.vocabulary import IN_ORDER, Client, SubscriptionType, Withheld


class Member(Protocol):
    """A consumer of a subscription, from subscribe to close."""

    name: str
    """Its name at the broker; others may have the same."""
    port: int | None
    """Its client port; None if unknown, and then no other consumer has its name."""
    topic: str
    """The real name of its topic or partitioned topic."""
    subscription: str
    kind: SubscriptionType
    client: Client
    received: list[Delivery]
    """All messages that it received, in order."""
    pending: set[Position]
    """Entries that arrived and were not returned, including acknowledged ones."""

    quiet_at_s: float
    """When its client has sent all grouped acks and nacks, on the monotonic clock."""

    @property
    def is_open(self) -> bool:
        """Whether it can receive more."""

    @property
    def waiting_count(self) -> int:
        """How many messages have arrived and are not received yet."""

    def ask_for(self, count: int) -> None:
        """Give the permits that are missing to receive ``count`` messages."""

    def pump(self, wait_s: float = 0.0) -> None:
        """Read what has arrived, waiting at most ``wait_s`` for the first message."""

    def take(self, count: int) -> tuple[Delivery, ...]:
        """Receive ``count`` of the waiting messages; more if a batch exceeds the permits."""

    def acknowledge(self, messages: Sequence[Delivery], *, cumulative: bool) -> Acknowledged:
        """Acknowledge received messages. Raises ``ServerRefused``, ``ConnectionLost``, ``NoAnswer``."""

    def redeliver(self, messages: Sequence[Delivery] | None) -> tuple[Delivery, ...]:
        """Request redelivery, None: of all; returns the messages. Raises the same as :meth:`acknowledge`."""

    def unsubscribe(self) -> None:
        """Remove the subscription. Raises the same as :meth:`acknowledge`."""

    def close(self) -> None:
        """Close gracefully, even if the broker does not answer."""

    def crash(self) -> None:
        """Cut the connection."""


class WireMember:
    """A consumer of the wire client."""

    client: Client = "wire"
    port: int | None = None
    claims_hashes: bool
    """Whether it has hash ranges of its own in a Key_Shared subscription."""
    keeps_keys: bool
    """Whether messages of one key must be pending at one consumer at a time there."""
    proxy: Proxy | None
    """The proxy for network faults, if it has one."""

    def __init__(
        self,
        service: Service,
        subscribe: Subscribe,
        topic: str,
        name: str,
        positions: Positions,
        traits: Traits,
        *,
        start_after: Position | None = None,
    ) -> None:
        """Connect and subscribe; a subscription that is not durable begins after an entry, or where it asks to.

        Raises :class:`ServerRefused`, :class:`ConnectionLost`, :class:`NoAnswer`.
        """
        self.name = name
        self.topic = topic
        self.subscription = subscribe.subscription
        self.kind: SubscriptionType = subscribe.kind
        self.received: list[Delivery] = []
        self.pending: set[Position] = set()
        self.quiet_at_s = 0.0
        self.claims_hashes = bool(subscribe.sticky)
        self.keeps_keys = not subscribe.out_of_order
        self._positions = positions
        self._traits = traits
        self._whole = None if traits.acknowledges_parts else BatchAcknowledger(positions)
        self._queue = subscribe.queue
        self._permits_given = 0
        self._taken_of_queue = 0
        self._arrived_count = 0
        self._left_out_count = 0  # of batches: acknowledged before they were sent
        self._may_be_unheard = False
        self.is_blocked = False
        """Whether the broker blocked it for unacknowledged messages, at the last poll."""
        self.withheld: Withheld | None = None
        """Whether the broker blocked its subscription, at the last poll."""
        self._waiting: deque[Delivery] = deque()
        self._acknowledged: defaultdict[Position, set[int]] = defaultdict(set)
        self.proxy = Proxy(service) if subscribe.proxied else None
        wanted = SubscriptionConfig(
            topic=topic,
            name=subscribe.subscription,
            kind=subscribe.kind,
            consumer_name=name,
            initial=subscribe.start,
            prefetch=0,  # permits are counted here
            is_durable=subscribe.durable,
            start_after=start_after,
            is_replicated=subscribe.is_replicated or (None if subscribe.cluster is None else False),
            key_shared=_sharing(subscribe),
        )
        with aborted_on_error(self._stop_proxy):
            at = service if self.proxy is None else self.proxy.service
            self._handle = WireConsumerHandle(at, wanted, timeout_s=ANSWER_TIMEOUT_S)
        self._consumer = self._handle.consumer
        with aborted_on_error(self.crash):
            self.port = self._handle.port if self.proxy is None else self.proxy.ports[-1]
            self._flow(self._queue)

    @property
    def is_open(self) -> bool:
        return self._consumer.is_open

    @property
    def why_closed(self) -> str | None:
        return self._consumer.why_closed

    @property
    def waiting_count(self) -> int:
        """How many messages have arrived and are not received yet."""
        return len(self._waiting)

    @property
    def unacknowledged_count(self) -> int:
        """How many arrived messages are neither acknowledged nor returned."""
        return self.unacknowledged_of(self.pending)

    def unacknowledged_of(self, entries: Collection[Position]) -> int:
        """How many arrived messages of these entries are neither acknowledged nor returned."""
        there = {_order(message): message for message in (*self.received, *self._waiting)}.values()
        pending = self.pending.intersection(entries)
        return sum(one.position in pending and not self._is_acknowledged(one) for one in there)

    @property
    def sent_count(self) -> int:
        """How many of the arrived messages the broker counts as sent: all of a batch, even acknowledged ones."""
        return self._arrived_count + self._left_out_count

    @property
    def permits_left(self) -> int:
        """How many messages the broker may still send; negative after a batch that exceeded the permits."""
        return self._permits_given - self._arrived_count

    def arrived_all(self, available_permits: int) -> bool:
        """Whether all sent messages have arrived, given the permits in the broker's stats."""
        has_all = self.permits_left == available_permits
        if has_all:
            self._consumer.all_arrived()
        return has_all

    def take_excess(self) -> Excess | None:
        """What the broker sent beyond the permits since the last call."""
        return self._consumer.take_excess()

    def _flow(self, permits: int) -> None:
        if permits > 0:
            self._permits_given += permits
            self._consumer.flow(permits)
            self._may_be_unheard = True

    def permit(self, count: int) -> None:
        """Give permits. Raises :class:`ConnectionLost`."""
        self._flow(count)

    def await_heard(self) -> None:
        """Wait until the broker has processed all earlier commands. Raises ``ConnectionLost`` and ``NoAnswer``."""
        if self._may_be_unheard:
            self._consumer.await_done(timeout_s=ANSWER_TIMEOUT_S)
            self._may_be_unheard = False

    def ask_for(self, count: int) -> None:
        """Give the missing permits; with a receiver queue, the broker has them already."""
        if self._queue == 0:
            self._flow(count - len(self._waiting) - self.permits_left)

    def pump(self, wait_s: float = 0.0) -> None:
        with suppress(ConnectionLost):
            if not self._consumer.pending() and wait_s and (first := self._consumer.receive(timeout_s=wait_s)):
                self._arrive(first)
            for _ in range(len(self._consumer.pending())):
                if (delivery := self._consumer.receive(timeout_s=0)) is not None:
                    self._arrive(delivery)

    def _arrive(self, delivery: WireDelivery) -> None:
        self._arrived_count += 1
        if delivery.is_first_of_entry:
            self._left_out_count += len(delivery.acknowledged)
        message = dispatched(delivery, self._traits)
        # Messages that the broker's ack set marks as acknowledged need no ack of this client.
        self._acknowledged[message.position] |= delivery.acknowledged
        self._positions.delivered(self.topic, message)
        if self._whole is not None:
            self._whole.arrived(self.topic, message)
        self.pending.add(message.position)
        self._waiting.append(message)

    def take(self, count: int) -> tuple[Delivery, ...]:
        """Receive; without a queue, all that arrived, and with one, give permits once half of it is used up."""
        number = len(self._waiting) if self._queue == 0 else min(count, len(self._waiting))
        messages = tuple(self._waiting.popleft() for _ in range(number))
        self.received += messages
        if self._queue:
            self._taken_of_queue += number
            if self._taken_of_queue * 2 >= self._queue:
                self._flow(self._taken_of_queue)
                self._taken_of_queue = 0
        return messages

    def collect(self) -> tuple[Delivery, ...]:
        """Receive all waiting messages."""
        return self.take(len(self._waiting))

    def acknowledge(self, messages: Sequence[Delivery], *, cumulative: bool) -> Acknowledged:
        """Acknowledge in one command with a receipt; send none if no entry is complete.

        The outcome has all messages that the broker counts as acknowledged by the command.
        """
        ids, sent = self._ids_of(messages, cumulative=cumulative)
        if not ids:
            return Acknowledged(sent, receipt=False)
        try:
            self._consumer.ack(ids, cumulative=cumulative, timeout_s=ANSWER_TIMEOUT_S)
        except ConnectionLost:
            if self.proxy is None:
                raise
            return Acknowledged(sent, receipt=False)  # the ack may have passed before the proxy cut the connection
        return Acknowledged(sent, receipt=True)

    def _ids_of(
        self, messages: Sequence[Delivery], *, cumulative: bool
    ) -> tuple[list[Position | PartOfBatch], tuple[Delivery, ...]]:
        """The ids in the command, and the messages that the broker counts as acknowledged by it."""
        covered = [m for m in self.received if _order(m) <= _order(messages[-1])] if cumulative else messages
        for message in covered:
            self._acknowledged[message.position].add(message.batch_index)
        if self._whole is None:
            entries = {message.position: message for message in messages}
            return [self._part(message, cumulative=cumulative) for message in entries.values()], tuple(messages)
        if cumulative:
            position, sent = self._whole.acknowledge_up_to(messages[-1])
            return [position], sent
        sent = self._whole.acknowledge(messages)
        return list(dict.fromkeys(message.position for message in sent)), sent

    def _part(self, message: Delivery, *, cumulative: bool) -> Position | PartOfBatch:
        """The acknowledged part of an entry as clients send it; cumulatively, with all before the message."""
        first = message.batch_index + 1 if cumulative else 0
        left = frozenset(range(first, message.batch_size)) - self._acknowledged[message.position]
        if not left:
            return message.position
        return PartOfBatch(position=message.position, batch_size=message.batch_size, still_unacknowledged=left)

    def acknowledge_without_receipt(self, messages: Sequence[Delivery]) -> Acknowledged:
        """Acknowledge and do not wait for the answer, not even for a lost connection."""
        ids, sent = self._ids_of(messages, cumulative=False)
        if ids:
            with suppress(ConnectionLost, NoAnswer):
                self._consumer.ack(ids, with_receipt=False)
        return Acknowledged(sent, receipt=False)

    def acknowledge_others(self, ids: Iterable[Position | PartOfBatch], *, cumulative: bool) -> None:
        """Acknowledge by ids. Raises the same as :meth:`acknowledge`."""
        self._consumer.ack(ids, cumulative=cumulative, timeout_s=ANSWER_TIMEOUT_S)

    @property
    def unacknowledged(self) -> list[Delivery]:
        """The received messages that it did not acknowledge, in order."""
        return [message for message in self.received if not self._is_acknowledged(message)]

    def _is_acknowledged(self, message: Delivery) -> bool:
        if self._whole is not None and self._whole.keeps(message):
            return False
        return message.batch_index in self._acknowledged[message.position]

    def redeliver(self, messages: Sequence[Delivery] | None) -> tuple[Delivery, ...]:
        """Send the request at once; for all, drop the queue and give its permits back, as clients do.

        It has no answer, so this waits until the broker has processed it: what is dispatched next is not part of it.
        """
        if messages is None:
            asked = tuple(dict.fromkeys((*self.unacknowledged, *self._waiting)))
            dropped = len(self._waiting)
            self._waiting.clear()
            self._consumer.redeliver()
            self._flow(dropped)
        else:
            asked = tuple(messages)
            self._consumer.redeliver({message.position for message in messages})
        self._may_be_unheard = True
        if messages is None or self.kind in IN_ORDER:
            self.pending.clear()
        else:
            self.pending -= {message.position for message in messages}
        self.await_heard()
        return asked

    def seek(self, position: Position | None, publish_time_ms: int | None) -> None:
        """Send a seek. Raises the same as :meth:`acknowledge`."""
        self._consumer.seek(position, publish_time_ms=publish_time_ms, timeout_s=ANSWER_TIMEOUT_S)

    def unsubscribe(self) -> None:
        self._consumer.unsubscribe(timeout_s=ANSWER_TIMEOUT_S)

    def last_message_id(self) -> Position | None:
        """The last entry of the topic that consumers receive. Raises the same as :meth:`acknowledge`."""
        return self._consumer.last_message_id(timeout_s=ANSWER_TIMEOUT_S)

    def close(self) -> None:
        """Close the consumer, then its connection."""
        self._handle.close()
        self._stop_proxy()

    def crash(self) -> None:
        self._handle.abort()
        self._stop_proxy()

    def _stop_proxy(self) -> None:
        if self.proxy is not None:
            self.proxy.stop()


def _sharing(subscribe: Subscribe) -> KeyShared | None:
    if not subscribe.sticky and not subscribe.out_of_order:
        return None
    return KeyShared(sticky_ranges=subscribe.sticky, allow_out_of_order=subscribe.out_of_order)


def dispatched(delivery: WireDelivery, traits: Traits) -> Delivery:
    """A delivery as the model has it; a batch of one message counts as a single message."""
    is_batch = delivery.batch_size > 1
    return Delivery(
        delivery.position,
        delivery.batch_index if is_batch else -1,
        delivery.batch_size if is_batch else 0,
        business_id_of(delivery.payload),
        delivery.redelivery_count if traits.counts_redeliveries else None,
    )


def _order(message: Delivery) -> tuple[Position, int]:
    return message.position, message.batch_index


def chosen(member: Member, nth: Collection[int]) -> list[Delivery]:
    """The consumer's received messages by number, modulo their count, each once, in this order."""
    count = len(member.received)
    return [member.received[number] for number in dict.fromkeys(n % count for n in nth)] if count else []


def part_of(found: list[MessagePosition], *, cumulative: bool) -> Position | PartOfBatch:
    """The part of one entry that an ack of these messages acknowledges."""
    size = found[0].batch_size
    acknowledged = {one.batch_index for one in found}
    if cumulative:
        acknowledged = set(range(max(acknowledged) + 1))
    left = frozenset(range(size)) - acknowledged
    if not left:
        return found[0].position
    return PartOfBatch(position=found[0].position, batch_size=size, still_unacknowledged=left)
