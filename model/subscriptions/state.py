"""The observer's state of all subscriptions of an example: topics, cursors, consumers, and messages due again."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from model.chunking.assignment import NOTHING_SENT, Assignment
from model.cursors import deleted_ledgers
from model.cursors.acked import Acked
from model.cursors.cursor import Cursor, Persisting
from model.cursors.log import Place, TopicLog
from model.events import Delivery
from model.immutable.map import Map
from model.key_shared.state import Keyed
from model.log import EARLIEST, Position
from model.subscriptions.consumers import SHARED, Consumer, Message, RedeliveryReason
from model.vocabulary import NO_LIMITS, ChunkNumber, Client, Limits, LookAhead, SubscriptionId

NO_LIMITS_ON_CONSUMERS: Final = Limits()


@dataclass(frozen=True, slots=True)
class TrackedTopic:
    """A topic whose subscriptions are tracked: its log, and how often its cursors are persisted."""

    log: TopicLog
    persisting: Persisting
    is_trimmed: bool = False
    """Ledgers that all subscriptions acknowledged are deleted at some time."""
    deleted: frozenset[int] = frozenset()
    """Ledgers that were seen to be deleted."""
    drains: bool = True
    """Its Key_Shared subscriptions have draining hashes; otherwise they have the classic implementation."""
    look_ahead: LookAhead = NO_LIMITS
    """The limit on their replay queue."""
    is_sure: bool = True
    """Every message sent to it was confirmed or read back, so the log is known."""
    is_lost: bool = False
    """An operation on subscriptions happened while the log was unsure, so none is tracked until the log is read
    back."""
    has_untracked: bool = False
    """Subscriptions of that time exist and are no longer tracked."""
    is_watched: bool = False
    """It is chunked: a proxy records the commands of its clients, whose acks are sent once they passed."""
    has_chunks: bool = False
    """Chunks were sent to it, which need not be in the log that is known."""
    in_doubt: frozenset[str] = frozenset()
    """Producers that may have an unanswered write in flight."""
    reopened: frozenset[str] = frozenset()
    """Those of them that reconnected since."""
    replica: tuple[Position, ...] | None = None
    """The positions in the other cluster of the entries at home, when it was read last."""
    is_terminated: bool = False
    """No more writes are possible."""
    is_reopened: bool = False
    """It was reloaded since it was terminated."""
    trimmable: Position = EARLIEST
    """How far all durable subscriptions may have been at any time, of a topic that is trimmed."""
    closed: int = -1
    """The ledger that a reload closed."""
    limits: Limits = NO_LIMITS_ON_CONSUMERS
    """The limits on the consumers of its subscriptions."""
    delay_tick_ms: float | None = None
    """How exactly the broker keeps the time of delayed messages; None: it delivers them at once."""
    delayed: frozenset[str] = frozenset()
    """The delayed messages."""
    not_due: Map[str, float] = Map()
    """Those whose time may not have come, and when it has come for sure."""

    @property
    def is_unlimited_in_all(self) -> bool:
        """Whether its namespace limits consumers, but not the unacknowledged messages of a subscription."""
        return self.limits != NO_LIMITS_ON_CONSUMERS and self.limits.in_all == 0

    @property
    def is_closed(self) -> bool:
        """Whether the last ledger takes no more entries, although it is not full."""
        return self.is_terminated or self.closed in self.log.ledgers[-1:]

    def reloaded(self) -> TrackedTopic:
        """The same after a reload, which closes the last ledger."""
        closed = self.log.ledgers[-1] if self.log.ledgers else self.closed
        return replace(self, is_reopened=self.is_reopened or self.is_terminated, closed=closed)

    @property
    def is_all_deleted(self) -> bool:
        """Whether it had messages, and all of its ledgers were deleted."""
        return bool(self.log.ledgers) and self.deleted.issuperset(self.log.ledgers)

    def is_delayed(self, position: Position) -> bool:
        """Whether an entry is a delayed message."""
        return bool(self.delayed) and not self.delayed.isdisjoint(self.log.entries[position])

    def is_not_due(self, position: Position) -> bool:
        """Whether an entry is a delayed message whose time may not have come."""
        return bool(self.not_due) and any(name in self.not_due for name in self.log.entries[position])


@dataclass(frozen=True, slots=True)
class Consumption:
    """All subscriptions of an example."""

    topics: Map[str, TrackedTopic] = Map()
    partitions: Map[str, tuple[str, ...]] = Map()
    """Of partitioned topics."""
    cursors: Map[SubscriptionId, Cursor] = Map()
    consumers: Map[str, Consumer] = Map()
    untracked_consumers: Map[str, frozenset[SubscriptionId]] = Map()
    """Consumers of pulsar-client that are no longer tracked, and their subscriptions. They may be connected, and
    reconnect by themselves, which creates a deleted subscription again."""
    freed: Map[SubscriptionId, Map[Message, RedeliveryReason]] = Map()
    """The messages due for redelivery, and why."""
    acked_in_flight: Map[SubscriptionId, frozenset[Message]] = Map()
    """Messages that were acknowledged while they may have been in flight. The broker dispatches them all the same."""
    keyed: Map[SubscriptionId, Keyed] = Map()
    """The state of Key_Shared subscriptions."""
    assignments: Map[SubscriptionId, Assignment] = Map()
    """Which consumer of a Shared subscription was sent which chunks."""
    withheld: Map[SubscriptionId, Position] = Map()
    """Blocked subscriptions, for which the broker reads no new messages, and the last entry when they were blocked."""
    deleted: Map[SubscriptionId, str] = Map()
    """Subscriptions that were deleted and not used since, with the rule that is broken if one still exists."""
    passed: Map[SubscriptionId, Position] = Map()
    """How far mark-delete of each subscription at the home of a replicated topic may have been at any time."""
    former: Map[SubscriptionId, bool] = Map()
    """Those that a frozen former owner has in memory, and whether it has continued."""

    @property
    def size(self) -> int:
        """How many states are possible."""
        return sum(len(cursor.possible) for cursor in self.cursors.values())

    def log(self, topic: str) -> TopicLog:
        """A topic's log."""
        return self.topics[topic].log

    def parts_of(self, topic: str) -> tuple[str, ...]:
        """The tracked partitions of a topic, or the topic itself if it has none."""
        parts = (part for part in self.partitions.get(topic, (topic,)) if part in self.topics)
        return tuple(part for part in parts if not self.topics[part].is_lost)

    def with_topic(self, topic: str, tracked: TrackedTopic) -> Consumption:
        return replace(self, topics=self.topics.set(topic, tracked))

    def with_untracked(self, topic: str) -> Consumption:
        """The same when a subscription of a topic may exist that is not tracked."""
        return self.with_topic(topic, replace(self.topics[topic], has_untracked=True))

    def with_cursor(self, subscription: SubscriptionId, cursor: Cursor) -> Consumption:
        return replace(self, cursors=self.cursors.set(subscription, cursor))._trimmable(subscription.topic)

    def beginnings(self, topic: str) -> tuple[Acked, ...]:
        """The states of a new subscription at the earliest message of a topic."""
        tracked = self.topics[topic]
        if not tracked.is_trimmed:
            return (Acked(),)
        is_any = any(where == topic and cursor.durable for (where, _), cursor in self.cursors.items())
        until = tracked.trimmable if is_any else tracked.log.last
        return deleted_ledgers.beginnings(tracked.log, tracked.deleted, until, is_closed=tracked.is_closed)

    def _trimmable(self, topic: str) -> Consumption:
        """The same with how far all durable subscriptions of a topic may be, if it is trimmed."""
        tracked = self.topics.get(topic)
        if tracked is None or not tracked.is_trimmed:
            return self
        reached = [
            max(upper(one, cursor, tracked.log).mark_delete for one in cursor.possible)
            for (where, _), cursor in self.cursors.items()
            if where == topic and cursor.durable
        ]
        up_to = max(tracked.trimmable, min(reached, default=tracked.log.last))
        return self.with_topic(topic, replace(tracked, trimmable=up_to))

    def without_cursor(self, subscription: SubscriptionId) -> Consumption:
        cursors = self.cursors.delete(subscription) if subscription in self.cursors else self.cursors
        return (
            replace(self, cursors=cursors)
            ._trimmable(subscription.topic)
            .without_due(subscription)
            .with_acked_in_flight(subscription, frozenset())
            .without_assignment(subscription)
        )

    def keyed_of(self, subscription: SubscriptionId) -> Keyed:
        return self.keyed.get(subscription, Keyed())

    def with_keyed(self, subscription: SubscriptionId, keyed: Keyed) -> Consumption:
        return replace(self, keyed=self.keyed.set(subscription, keyed))

    def without_keyed(self, subscription: SubscriptionId) -> Consumption:
        """The same when a Key_Shared subscription has a new dispatcher."""
        return replace(self, keyed=self.keyed.delete(subscription)) if subscription in self.keyed else self

    def assignment(self, subscription: SubscriptionId) -> Assignment:
        """Which consumer of a Shared subscription was sent which chunks."""
        return self.assignments.get(subscription, NOTHING_SENT)

    def with_assignment(self, subscription: SubscriptionId, assignment: Assignment) -> Consumption:
        return replace(self, assignments=self.assignments.set(subscription, assignment))

    def without_assignment(self, subscription: SubscriptionId) -> Consumption:
        """The same when a new dispatcher has no chunks assigned."""
        return (
            replace(self, assignments=self.assignments.delete(subscription))
            if subscription in self.assignments
            else self
        )

    def may_be_read(self, topics: Collection[str]) -> Consumption:
        """The same after an operation that may unblock the subscriptions of these topics."""
        kept = {subscription: last for subscription, last in self.withheld.items() if subscription.topic not in topics}
        return self if len(kept) == len(self.withheld) else replace(self, withheld=Map(kept))

    def with_consumer(self, name: str, consumer: Consumer) -> Consumption:
        return replace(self, consumers=self.consumers.set(name, consumer))

    def without_consumer(self, name: str) -> Consumption:
        consumer, assignments = self.consumers[name], self.assignments
        state = replace(self, consumers=self.consumers.delete(name))
        for subscription in consumer.subscriptions:
            chunks = self.log(subscription.topic).chunks if consumer.kind == "Shared" else {}
            had = {place.position for _, place in consumer.unacknowledged}
            in_flight = [] if consumer.is_settled else [chunk for at, chunk in chunks.items() if at not in had]
            if subscription in assignments or in_flight:
                free = state.unassigned_chunks(subscription)
                without = self.assignment(subscription).without(name, in_flight, free)
                assignments = assignments.set(subscription, without)
        return replace(state, assignments=assignments)

    def without_tracking(self, name: str) -> Consumption:
        """The same when a consumer is no longer tracked."""
        consumer = self.consumers[name]
        return self.without_consumer(name).with_untracked_consumer(name, consumer.client, consumer.subscriptions)

    def with_untracked_consumer(self, name: str, client: Client, on: Iterable[SubscriptionId]) -> Consumption:
        if client == "wire":
            return self.without_untracked_consumer(name)
        return replace(self, untracked_consumers=self.untracked_consumers.set(name, frozenset(on)))

    def without_untracked_consumer(self, name: str) -> Consumption:
        if name not in self.untracked_consumers:
            return self
        return replace(self, untracked_consumers=self.untracked_consumers.delete(name))

    def may_be_untracked(self, subscription: SubscriptionId) -> bool:
        """Whether a subscription may exist, and have consumers, that are no longer tracked."""
        return self.topics[subscription.topic].has_untracked and subscription not in self.cursors

    def has_untracked_consumers(self, subscription: SubscriptionId) -> bool:
        """Whether consumers that are no longer tracked may be connected to a subscription."""
        return any(subscription in on for on in self.untracked_consumers.values())

    def unassigned(
        self, subscription: SubscriptionId, possible: Collection[Acked]
    ) -> dict[Position, ChunkNumber | None]:
        """The entries that are possibly unacknowledged and pending at no consumer, in order, and their chunk numbers.

        Empty if the log has no chunks.
        """
        log = self.log(subscription.topic)
        chunks = log.chunks
        if not chunks:
            return {}
        pending = {message[1].position for _, one in self.consumers_of(subscription) for message in one.unacknowledged}
        positions = {place.position for one in possible for place in one.messages_left(log)} - pending
        return {position: chunks.get(position) for position in sorted(positions)}

    def unassigned_chunks(self, subscription: SubscriptionId) -> list[ChunkNumber]:
        """The chunks that are possibly unacknowledged and pending at no consumer, in order."""
        free = self.unassigned(subscription, self.cursors[subscription].possible)
        return [chunk for chunk in free.values() if chunk is not None]

    def with_dispatcher(self, topics: Iterable[str], *, drains: bool) -> Consumption:
        """The owner of these topics has draining hashes, or the classic implementation."""
        state = self
        for topic in topics:
            state = state.with_topic(topic, replace(state.topics[topic], drains=drains))
        return state

    def has_unused_subscription(self, topic: str) -> bool:
        """Whether a subscription of the topic has no consumer."""
        return any(one.topic == topic and not any(self.consumers_of(one)) for one in self.cursors)

    def limit_of(self, consumer: Consumer) -> int:
        """How many unacknowledged messages a consumer may have; 0: any number."""
        return self.topics[consumer.topics[0]].limits.unacknowledged if consumer.kind in SHARED else 0

    def is_at_limit(self, consumer: Consumer) -> bool:
        """Whether a consumer has reached its limit on unacknowledged messages."""
        return 0 < self.limit_of(consumer) <= consumer.least

    def consumers_of(self, subscription: SubscriptionId) -> Iterator[tuple[str, Consumer]]:
        """The consumers of a subscription."""
        return ((name, consumer) for name, consumer in self.consumers.items() if consumer.is_on(subscription))

    def due(self, subscription: SubscriptionId) -> Map[Message, RedeliveryReason]:
        """The messages of a subscription that are due for redelivery, and why."""
        return self.freed.get(subscription, Map[Message, RedeliveryReason]())

    def without_due(self, subscription: SubscriptionId) -> Consumption:
        return replace(self, freed=self.freed.delete(subscription)) if subscription in self.freed else self

    def all_left(self, subscription: SubscriptionId) -> frozenset[Message]:
        """All messages of a subscription that are possibly unacknowledged."""
        log = self.log(subscription.topic)
        return frozenset(
            (subscription.topic, place)
            for one in self.cursors[subscription].possible
            for place in one.messages_left(log)
        )

    def with_acked_in_flight(self, subscription: SubscriptionId, messages: frozenset[Message]) -> Consumption:
        if not messages and subscription not in self.acked_in_flight:
            return self
        return replace(self, acked_in_flight=self.acked_in_flight.set(subscription, messages))

    def free(self, subscription: SubscriptionId, messages: Iterable[Message], why: RedeliveryReason) -> Consumption:
        """Pending messages become due for redelivery."""
        return replace(
            self, freed=self.freed.set(subscription, self.due(subscription).updated(dict.fromkeys(messages, why)))
        )

    def taken(self, subscription: SubscriptionId, messages: Iterable[Message]) -> Consumption:
        """Messages are no longer due: they were delivered or acknowledged."""
        if not (due := self.freed.get(subscription)):
            return self
        left = dict(due)
        for message in messages:
            left.pop(message, None)
        return replace(self, freed=self.freed.set(subscription, Map(left)))

    def place_of(self, consumer: Consumer, dispatched: Delivery) -> Message | None:
        """The message of the log that a consumer received; None if it was never sent."""
        place = Place(dispatched.position, dispatched.batch_index)
        for topic in consumer.topics:
            if self.is_sent(topic, place, dispatched.business_id):
                return topic, place
        return None

    def is_sent(self, topic: str, place: Place, business_id: str) -> bool:
        """Whether the log has this message at this place."""
        ids, index = self.log(topic).entries.get(place.position, ()), max(0, place.batch_index)
        return len(ids) > index and ids[index] == business_id and (len(ids) > 1) == (place.batch_index >= 0)

    def words(self, message: Message) -> str:
        """A message in words."""
        topic, place = message
        ids = self.log(topic).entries[place.position]
        within = f", batch index {place.batch_index}" if place.batch_index >= 0 else ""
        return f"{ids[max(0, place.batch_index)]} (at {place.position}{within})"


def messages_at(topic: str, log: TopicLog, position: Position) -> list[Message]:
    """All messages of an entry."""
    return [(topic, place) for place in log.places_at(position)]


def surely_left(state: Consumption, subscription: SubscriptionId) -> Iterator[Message]:
    """The messages that are unacknowledged in every state, in order."""
    log, cursor = state.log(subscription.topic), state.cursors[subscription]
    left = [frozenset(upper(one, cursor, log).messages_left(log)) for one in cursor.possible]
    return ((subscription.topic, place) for place in sorted(frozenset.intersection(*left)))


def is_surely_left(state: Consumption, subscription: SubscriptionId, message: Message) -> bool:
    """Whether a message is unacknowledged in every state."""
    log, cursor = state.log(subscription.topic), state.cursors[subscription]
    return not any(upper(one, cursor, log).has_message(message[1]) for one in cursor.possible)


def upper(state: Acked, cursor: Cursor, log: TopicLog) -> Acked:
    """The state if all acks took effect that may have."""
    for ack in cursor.unsure:
        state = ack.on(state, log)
    return state
