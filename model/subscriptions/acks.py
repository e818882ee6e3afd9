"""What an ack does to a subscription and to the pending acks of its consumers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from model.cursors import former
from model.cursors.acked import Acked
from model.cursors.cursor import Ack, Cursor, Interval, maybe_sent, with_grouped
from model.cursors.log import Place, TopicLog
from model.events import Acknowledged, Delivery
from model.log import Position
from model.rules.catalogue import carries
from model.subscriptions import membership
from model.subscriptions.consumers import SHARED, Consumer, Message
from model.subscriptions.state import Consumption, SubtractedTwice, messages_at
from model.vocabulary import SubscriptionId, SubscriptionType


def acknowledged(
    state: Consumption,
    name: str,
    outcome: Acknowledged,
    at: Interval,
    *,
    cumulative: bool,
    is_cut_off: bool = False,
    by_id: bool = False,
) -> Consumption:
    """A consumer acknowledged messages. Without a receipt the client may not have sent the ack yet.

    ``is_cut_off``: its connection has ended since. An ack without a receipt has then taken effect or never will.
    ``by_id``: an ack of a part of a batch contains no other parts; else those that the consumer acknowledged before.
    """
    for subscription, places in _by_subscription(state, state.consumers[name], outcome.messages).items():
        ack = Ack(places, cumulative)
        before = state.cursors[subscription]
        if outcome.receipt:
            log = state.log(subscription.topic)
            exercised = frozenset(rule for one in before.possible for rule in _exercised(one, ack, log))
            state = state.with_cursor(subscription, _acknowledge(before, ack, log, at, exercised))
            touched = [message for place in places for message in messages_at(subscription.topic, log, place.position)]
            if not cumulative:
                state = _with_acked_not_pending(state, subscription, name, touched)
                acked = [(subscription.topic, place) for place in places]
                state = _no_longer_counted(state, subscription, name, acked, by_id=by_id)
            state = overtaken(state, subscription, before, () if cumulative else {place.position for place in places})
            state = taken_from(state, subscription, None if cumulative else touched, by=name)
        else:
            log = state.log(subscription.topic)
            if is_cut_off and not cumulative:
                state = _completed_after(state, subscription, name, (ack,))
            after = maybe_sent(before, ack, log, at) if is_cut_off else with_grouped(before, name, ack, log)
            state = state.with_cursor(subscription, after)
            consumer = state.consumers[name]
            state = state.with_consumer(name, consumer.without((subscription.topic, place) for place in places))
    return state


@carries("SERVE-06")
def acknowledged_at_former(state: Consumption, name: str, messages: tuple[Delivery, ...]) -> Consumption:
    """A consumer sent acks to a frozen broker, which no longer owns the topic."""
    for subscription, places in _by_subscription(state, state.at_former[name], messages).items():
        owner = former.acknowledged(state.former[subscription], Ack(places), state.log(subscription.topic))
        state = replace(state, former=state.former.set(subscription, owner))
    return state


def completed_after(state: Consumption, name: str, *, with_others: bool = False) -> Consumption:
    """A consumer is about to leave, and the broker may complete its last acks afterwards.

    A client sends grouped acks when its consumer closes, or before. Acks that an earlier read of the cursor showed have
    been completed. ``with_others``: all consumers of its subscriptions leave, in any order.
    """
    for subscription in state.consumers[name].subscriptions:
        if grouped := state.cursors[subscription].grouped.get(name):
            state = _completed_after(state, subscription, name, grouped, with_others=with_others)
    return state


def _completed_after(
    state: Consumption, subscription: SubscriptionId, name: str, acks: Iterable[Ack], *, with_others: bool = False
) -> Consumption:
    """Releases that deviate may subtract the messages of these acks once more if their consumer was the last one."""
    kind = state.consumers[name].kind
    others = [other for other, _ in state.consumers_of(subscription) if other != name]
    if kind not in SHARED or (others and not with_others):
        return state
    places = {place for ack in acks for place in ack.places}
    number = _most_subtracted(state.log(subscription.topic), state.cursors[subscription].possible, places)
    before = state.subtracted_twice.get(subscription, SubtractedTwice(kind))
    after = replace(before, most=before.most + number)
    return replace(state, subtracted_twice=state.subtracted_twice.set(subscription, after)) if number else state


def _most_subtracted(log: TopicLog, possible: Collection[Acked], acked: Collection[Place]) -> int:
    """How many messages a broker subtracts at most when it completes the acks of these places.

    If a command has several parts of a batch, each of its acks contains them all, and the broker subtracts all of them
    for each. If the batch is complete, it subtracts what is left. Parts alone are not persisted, and complete at once.
    """

    def is_new(place: Place) -> bool:
        return not all(one.has_message(place) for one in possible)

    new = Counter(place.position for place in acked if is_new(place))
    whole = {at for at in new if all(place in acked or not is_new(place) for place in log.places_at(at))}
    if not whole and not any(one.beyond() for one in possible):
        return 0
    return sum(number if at in whole else number**2 for at, number in new.items())


def counted_by(state: Consumption, subscription: SubscriptionId, kind: SubscriptionType) -> Consumption:
    """A consumer of this type subscribes. If the dispatcher is of another type, a new one replaces it."""
    before = state.subtracted_twice.get(subscription)
    return state if before is None or before.kind == kind else state.without_subtracted_twice(subscription)


def _with_acked_not_pending(
    state: Consumption, subscription: SubscriptionId, name: str, touched: Iterable[Message]
) -> Consumption:
    """Counts how many of the acknowledged messages were pending at no consumer, or may have been."""
    consumers = [consumer for _, consumer in state.consumers_of(subscription)]
    pending = {message for one in consumers for message in one.unacknowledged if message not in one.acked_by_others}
    consumer, not_pending = state.consumers[name], sum(message not in pending for message in touched)
    return state.with_consumer(name, replace(consumer, acked_not_pending=consumer.acked_not_pending + not_pending))


def _no_longer_counted(
    state: Consumption, subscription: SubscriptionId, name: str, messages: Iterable[Message], *, by_id: bool
) -> Consumption:
    """The broker no longer counts messages that a consumer acknowledged. It may subtract the rest of a batch again.

    If any parts were acknowledged by their ids, no ack of this consumer contains all parts of the batch. It then stays
    pending, and the parts are subtracted with each further ack. It may be in flight to this consumer.
    """
    messages = list(messages)
    positions = {place.position for _, place in messages}
    before = state.consumers[name]
    recounted = sum(acked_before(state, before, subscription, at) for at in positions)
    consumer = before.acknowledging(messages)
    in_parts = {(subscription.topic, at) for at in positions if _completes(state, before, subscription, at, messages)}
    again = {(subscription.topic, at) for at in positions} & before.acked_in_parts
    in_flight = {place.position for _, place in state.acked_in_flight.get(subscription, ()) if not before.is_settled}
    again |= {(subscription.topic, at) for at in positions & in_flight}
    recounted += sum(len(messages_at(topic, state.log(topic), at)) for topic, at in again)
    acked_in_parts = (before.acked_in_parts | in_parts) - (again - before.acked_by_id)
    consumer = replace(
        consumer,
        parts_recounted=consumer.parts_recounted + recounted,
        acked_in_parts=acked_in_parts,
        acked_by_id=before.acked_by_id.union((subscription.topic, at) for at in positions if by_id),
        left_parts=_left_parts(state, before, subscription, messages),
    )
    counted = {place.position for topic, place in consumer.acked_elsewhere if topic == subscription.topic}
    state = state.with_consumer(name, consumer)
    return membership.acknowledged(state, subscription, name, positions - counted)


def _left_parts(state: Consumption, consumer: Consumer, subscription: SubscriptionId, acked: Sequence[Message]) -> int:
    """How many messages a consumer acknowledged since its last ack of the rest of an entry, or together with that."""
    parts = sum(_leaves_part(state, consumer, subscription, place.position, acked) for _, place in acked)
    return parts + (consumer.left_parts if parts == len(acked) else 0)


def _leaves_part(
    state: Consumption, consumer: Consumer, subscription: SubscriptionId, position: Position, acked: Collection[Message]
) -> bool:
    """Whether a consumer still has a message of this entry after these acks."""
    entry = messages_at(subscription.topic, state.log(subscription.topic), position)
    return any(message in consumer.unacknowledged and message not in acked for message in entry)


def _completes(
    state: Consumption, consumer: Consumer, subscription: SubscriptionId, position: Position, acked: Collection[Message]
) -> bool:
    """Whether these acks are of all that a consumer has left of a batch of which it acknowledged parts before."""
    batch = messages_at(subscription.topic, state.log(subscription.topic), position)
    left = [message for message in batch if message in consumer.unacknowledged]
    return 0 < len(left) < len(batch) and all(message in acked for message in left)


def acked_before(state: Consumption, consumer: Consumer, subscription: SubscriptionId, position: Position) -> int:
    """How many messages of a batch a consumer had acknowledged when others acknowledged the rest."""
    batch = messages_at(subscription.topic, state.log(subscription.topic), position)
    left = sum(message in consumer.acked_elsewhere for message in batch)
    return len(batch) - left if left else 0


def _acknowledge(cursor: Cursor, ack: Ack, log: TopicLog, at: Interval, exercised: frozenset[str]) -> Cursor:
    return cursor.on_each(
        lambda one: ack.on(one, log),
        at,
        exercised,
        lambda one: ack.deviating(one, log, cursor.taken_back),
        is_individual=not ack.cumulative,
    )


def _by_subscription(
    state: Consumption, consumer: Consumer, messages: tuple[Delivery, ...]
) -> dict[SubscriptionId, tuple[Place, ...]]:
    places: defaultdict[SubscriptionId, tuple[Place, ...]] = defaultdict(tuple)
    for dispatched in messages:
        message = state.place_of(consumer, dispatched)
        if message is not None:
            places[SubscriptionId(message[0], consumer.subscription)] += (message[1],)
    return places


def _exercised(state: Acked, ack: Ack, log: TopicLog) -> Iterator[str]:
    """The rules that an ack exercises."""
    after = ack.on(state, log)
    last = max(place.position for place in ack.places)
    if ack.cumulative:
        yield "ACK-04"
    if any(state.has_message(place) for place in ack.places) or after.mark_delete < last:
        yield "ACK-03"
    if after.mark_delete > last:
        yield "ACK-02"
    if state.mark_delete.ledger not in (-1, after.mark_delete.ledger):
        yield "ACK-02"


def overtaken(
    state: Consumption, subscription: SubscriptionId, before: Cursor, positions: Iterable[Position]
) -> Consumption:
    """Marks the entries that were acknowledged just now and may be in flight to a consumer.

    The broker sends them whole, because it no longer knows which of their messages were acknowledged before.
    """
    consumers = [consumer for _, consumer in state.consumers_of(subscription)]
    if all(consumer.is_settled for consumer in consumers):
        return state
    log, after = state.log(subscription.topic), state.cursors[subscription].possible
    found: set[Message] = set()
    for position in positions:
        was, is_now = (all(one.has(position) for one in states) for states in (before.possible, after))
        messages = messages_at(subscription.topic, log, position)
        if is_now and not was and not any(one in consumer.unacknowledged for consumer in consumers for one in messages):
            found.update(messages)
    return state.with_acked_in_flight(subscription, state.acked_in_flight.get(subscription, frozenset()).union(found))


def taken_from(
    state: Consumption,
    subscription: SubscriptionId,
    touched: Iterable[Message] | None = None,
    *,
    by: str | None = None,
    is_skipped: bool = False,
) -> Consumption:
    """As :func:`no_longer_unacknowledged`, if a consumer or an administrator (None) acknowledged others' messages.

    ``is_skipped``: it was surely an administrator.
    No document says whether messages that an administrator acknowledged keep a hash draining.
    """
    after = no_longer_unacknowledged(state, subscription, touched)
    for name, consumer in list(state.consumers_of(subscription)):
        now = after.consumers[name]
        if name != by and len(now.unacknowledged) < len(consumer.unacknowledged):
            gone = frozenset(message for message in consumer.unacknowledged if message not in now.unacknowledged)
            if is_skipped:
                now = replace(now, skipped=now.skipped | gone)
            else:
                now = replace(now, acked_by_others=now.acked_by_others | gone)
            after = after.with_consumer(name, now)
            if by is None and consumer.kind == "Key_Shared":
                after = membership.acked_by_others(after, subscription, name, {place.position for _, place in gone})
    return after


def no_longer_unacknowledged(
    state: Consumption, subscription: SubscriptionId, touched: Iterable[Message] | None = None
) -> Consumption:
    """A message that is acknowledged in every possible state is neither pending at a consumer nor due.

    ``touched``: the messages to look at; None: all that are pending or due.
    """
    if touched is None:
        pending = [message for _, consumer in state.consumers_of(subscription) for message in consumer.unacknowledged]
        touched = [message for message in pending if message[0] == subscription.topic]
        touched += state.due(subscription)
    possible = state.cursors[subscription].possible
    gone = [message for message in touched if all(one.has_message(message[1]) for one in possible)]
    for name, consumer in list(state.consumers_of(subscription)):
        rest = consumer.without(gone)
        state = state.with_consumer(name, replace(rest, requested_twice=rest.requested_twice.difference(gone)))
    due = state.due(subscription)
    state = membership.passed(state, subscription, [message for message in gone if message in due])
    return state.taken(subscription, gone)
