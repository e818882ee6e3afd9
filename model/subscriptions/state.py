"""What is known of all subscriptions of an example: topics, cursors, consumers, what is due again, and what is left."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from immutables import Map

from model.chunking.assignment import NOTHING_SENT, Assignment
from model.cursors.acked import Acked
from model.cursors.cursor import Cursor, Persisting
from model.cursors.log import Place, TopicLog
from model.events import Delivery
from model.key_shared.liveness import NO_LIMITS, LookAhead
from model.key_shared.state import Keyed
from model.log import Position
from model.subscriptions.consumers import Consumer, Freed, Message
from model.vocabulary import Limits, SubscriptionId

NO_LIMITS_ON_CONSUMERS: Final = Limits()


@dataclass(frozen=True, slots=True)
class Followed:
    """A topic whose subscriptions are followed: its log, and how often cursors are persisted on it.

    ``is_trimmed``: what all of them acknowledged is deleted, some time, and ``deleted``: ledgers that were seen to be.
    ``is_terminated``: nothing more is written to it, and ``is_reopened``: it was loaded anew since. ``drains``: its
    Key_Shared subscriptions have draining hashes; otherwise they have what was there before (the classic one).
    ``look_ahead``: how many messages may wait on those before no new ones are read.
    ``is_sure``: all that was sent to it was confirmed, or read back. Otherwise the log may have entries that are not
    known. ``is_lost``: something was done to subscriptions meanwhile, so none is tracked until the log is read back.
    ``has_strangers``: that was so, and the subscriptions of then are not tracked any more. ``in_doubt``: producers of
    which a write may be in flight that nobody waits for, and ``reopened``: those of them that were let in again since.
    ``limits``: on its subscriptions' consumers.
    """

    log: TopicLog
    persisting: Persisting
    is_trimmed: bool = False
    deleted: frozenset[int] = frozenset()
    drains: bool = True
    look_ahead: LookAhead = NO_LIMITS
    is_sure: bool = True
    is_lost: bool = False
    has_strangers: bool = False
    in_doubt: frozenset[str] = frozenset()
    reopened: frozenset[str] = frozenset()
    is_terminated: bool = False
    is_reopened: bool = False
    limits: Limits = NO_LIMITS_ON_CONSUMERS


@dataclass(frozen=True, slots=True)
class Consumption:
    """All of it. ``partitions``: of partitioned topics. ``freed``: by subscription, messages that were unacknowledged,
    are not acknowledged and not yet delivered again, and why they are due. ``at_large``: messages that were
    acknowledged while they may have been on their way to somebody, and nobody had them: a broker does not look again.
    ``replaying``: messages that may have been read for replay when its last consumer left. ``keyed``: what is followed
    of Key_Shared ones. ``assignments``: of Shared ones, which consumer was sent which chunks. ``withheld``: the
    subscriptions for which the broker reads nothing new, because too much is unacknowledged there, and the last entry
    when it had stopped. ``deleted``: subscriptions that were deleted, and that nobody asked for since.
    """

    topics: Map[str, Followed] = Map()
    partitions: Map[str, tuple[str, ...]] = Map()
    cursors: Map[SubscriptionId, Cursor] = Map()
    consumers: Map[str, Consumer] = Map()
    freed: Map[SubscriptionId, Map[Message, Freed]] = Map()
    at_large: Map[SubscriptionId, frozenset[Message]] = Map()
    replaying: Map[SubscriptionId, frozenset[Message]] = Map()
    keyed: Map[SubscriptionId, Keyed] = Map()
    assignments: Map[SubscriptionId, Assignment] = Map()
    withheld: Map[SubscriptionId, Position] = Map()
    deleted: frozenset[SubscriptionId] = frozenset()

    @property
    def size(self) -> int:
        """How many states are held as possible."""
        return sum(len(cursor.possible) for cursor in self.cursors.values())

    def log(self, topic: str) -> TopicLog:
        """A topic's log."""
        return self.topics[topic].log

    def parts_of(self, topic: str) -> tuple[str, ...]:
        """The partitions of a topic, itself if it has none; only what is followed."""
        parts = (part for part in self.partitions.get(topic, (topic,)) if part in self.topics)
        return tuple(part for part in parts if not self.topics[part].is_lost)

    def with_topic(self, topic: str, followed: Followed) -> Consumption:
        """The same with another view of a topic."""
        return replace(self, topics=self.topics.set(topic, followed))

    def with_cursor(self, subscription: SubscriptionId, cursor: Cursor) -> Consumption:
        """The same with another view of a subscription."""
        return replace(self, cursors=self.cursors.set(subscription, cursor))

    def without_cursor(self, subscription: SubscriptionId) -> Consumption:
        """The same when a subscription is not there any more."""
        cursors = self.cursors.delete(subscription) if subscription in self.cursors else self.cursors
        return (
            replace(self, cursors=cursors)
            .without_due(subscription)
            .with_at_large(subscription, frozenset())
            .without_assignment(subscription)
        )

    def keyed_of(self, subscription: SubscriptionId) -> Keyed:
        """What is followed of a Key_Shared subscription."""
        return self.keyed.get(subscription, Keyed())

    def with_keyed(self, subscription: SubscriptionId, keyed: Keyed) -> Consumption:
        """The same with something else followed of a Key_Shared subscription."""
        return replace(self, keyed=self.keyed.set(subscription, keyed))

    def without_keyed(self, subscription: SubscriptionId) -> Consumption:
        """The same when a Key_Shared subscription is read from anew, by nobody yet."""
        return replace(self, keyed=self.keyed.delete(subscription)) if subscription in self.keyed else self

    def assignment(self, subscription: SubscriptionId) -> Assignment:
        """Which consumer of a Shared subscription was sent which chunks."""
        return self.assignments.get(subscription, NOTHING_SENT)

    def with_assignment(self, subscription: SubscriptionId, assignment: Assignment) -> Consumption:
        """The same with another assignment of chunks."""
        return replace(self, assignments=self.assignments.set(subscription, assignment))

    def without_assignment(self, subscription: SubscriptionId) -> Consumption:
        """The same when the broker remembers nothing of chunks: it has another dispatcher."""
        return (
            replace(self, assignments=self.assignments.delete(subscription))
            if subscription in self.assignments
            else self
        )

    def may_be_read(self, topics: Collection[str]) -> Consumption:
        """The same when something happened that may make the broker read for the subscriptions of these topics."""
        kept = {subscription: last for subscription, last in self.withheld.items() if subscription.topic not in topics}
        return self if len(kept) == len(self.withheld) else replace(self, withheld=Map(kept))

    def with_consumer(self, name: str, consumer: Consumer) -> Consumption:
        """The same with another view of a consumer."""
        return replace(self, consumers=self.consumers.set(name, consumer))

    def without_consumer(self, name: str) -> Consumption:
        """The same when a consumer is not there any more."""
        assignments = self.assignments
        for subscription in self.consumers[name].subscriptions:
            if subscription in assignments:
                assignments = assignments.set(subscription, assignments[subscription].without(name))
        return replace(self, consumers=self.consumers.delete(name), assignments=assignments)

    def consumers_of(self, subscription: SubscriptionId) -> Iterator[tuple[str, Consumer]]:
        """The consumers of a subscription."""
        return ((name, consumer) for name, consumer in self.consumers.items() if subscription in consumer.subscriptions)

    def due(self, subscription: SubscriptionId) -> Map[Message, Freed]:
        """What of a subscription is due again, and why."""
        return self.freed.get(subscription, Map[Message, Freed]())

    def without_due(self, subscription: SubscriptionId) -> Consumption:
        """The same when nothing of a subscription is due again."""
        return replace(self, freed=self.freed.delete(subscription)) if subscription in self.freed else self

    def all_left(self, subscription: SubscriptionId) -> frozenset[Message]:
        """All messages of a subscription that may not be acknowledged."""
        log = self.log(subscription.topic)
        return frozenset(
            (subscription.topic, place)
            for one in self.cursors[subscription].possible
            for place in one.messages_left(log)
        )

    def with_replaying(self, subscription: SubscriptionId, messages: frozenset[Message]) -> Consumption:
        """The same when these messages may be read for replay, with nobody to give them to."""
        if not messages and subscription not in self.replaying:
            return self
        return replace(self, replaying=self.replaying.set(subscription, messages))

    def with_at_large(self, subscription: SubscriptionId, messages: frozenset[Message]) -> Consumption:
        """The same when these messages may be on their way although they are acknowledged."""
        if not messages and subscription not in self.at_large:
            return self
        return replace(self, at_large=self.at_large.set(subscription, messages))

    def free(self, subscription: SubscriptionId, messages: Iterable[Message], why: Freed) -> Consumption:
        """Messages that were unacknowledged are due again."""
        return replace(
            self, freed=self.freed.set(subscription, self.due(subscription).update(dict.fromkeys(messages, why)))
        )

    def taken(self, subscription: SubscriptionId, messages: Iterable[Message]) -> Consumption:
        """Messages that were due are no more: they were delivered, or acknowledged."""
        if not (due := self.freed.get(subscription)):
            return self
        left = due.mutate()
        for message in messages:
            left.pop(message, None)
        return replace(self, freed=self.freed.set(subscription, left.finish()))

    def place_of(self, consumer: Consumer, dispatched: Delivery) -> Message | None:
        """Which message of the log it is that a consumer was given; None if it is not one that was sent."""
        place = Place(dispatched.position, dispatched.batch_index)
        for topic in consumer.topics:
            if self.is_sent(topic, place, dispatched.business_id):
                return topic, place
        return None

    def is_sent(self, topic: str, place: Place, business_id: str) -> bool:
        """Whether this message was sent and stands there."""
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
    """The messages that are not acknowledged in whatever state the subscription is in, in order."""
    log, cursor = state.log(subscription.topic), state.cursors[subscription]
    left = [frozenset(upper(one, cursor, log).messages_left(log)) for one in cursor.possible]
    return ((subscription.topic, place) for place in sorted(frozenset.intersection(*left)))


def is_surely_left(state: Consumption, subscription: SubscriptionId, message: Message) -> bool:
    """Whether a message is not acknowledged in whatever state the subscription is in."""
    log, cursor = state.log(subscription.topic), state.cursors[subscription]
    return not any(upper(one, cursor, log).has_message(message[1]) for one in cursor.possible)


def upper(state: Acked, cursor: Cursor, log: TopicLog) -> Acked:
    """The state if all acknowledgments that may have taken effect did."""
    for ack in cursor.unsure:
        state = ack.on(state, log)
    return state
