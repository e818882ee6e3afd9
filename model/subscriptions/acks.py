"""What an acknowledgment does to a subscription, and to what its consumers have unacknowledged."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace

from model.cursors.acked import Acked
from model.cursors.cursor import Ack, Cursor, Interval, perhaps, sent_back
from model.cursors.log import Place, TopicLog
from model.events import Acknowledged, Delivery
from model.log import Position
from model.subscriptions import membership
from model.subscriptions.consumers import Consumer, Message
from model.subscriptions.state import Consumption, messages_at
from model.vocabulary import SubscriptionId


def acknowledged(
    state: Consumption, name: str, outcome: Acknowledged, at: Interval, *, cumulative: bool, is_cut_off: bool = False
) -> Consumption:
    """A consumer acknowledged messages; without a receipt, its client may hold that back yet.

    ``is_cut_off``: its connection has ended since, so that without a receipt it has taken effect or never will.
    """
    for subscription, places in _by_subscription(state, name, outcome.messages).items():
        ack = Ack(places, cumulative)
        before = state.cursors[subscription]
        if outcome.receipt:
            log = state.log(subscription.topic)
            tested = frozenset(rule for one in before.possible for rule in _tested(one, ack, log))
            state = state.with_cursor(subscription, _acknowledge(before, ack, log, at, tested))
            touched = [message for place in places for message in messages_at(subscription.topic, log, place.position)]
            if not cumulative:
                state = _with_unheld(state, subscription, name, touched)
                state = _counted_no_more(state, subscription, name, [(subscription.topic, place) for place in places])
            state = overtaken(state, subscription, before, () if cumulative else {place.position for place in places})
            state = taken_from(state, subscription, None if cumulative else touched, by=name)
        else:
            log = state.log(subscription.topic)
            after = perhaps(before, ack, log, at) if is_cut_off else sent_back(before, name, ack, log)
            state = state.with_cursor(subscription, after)
            consumer = state.consumers[name]
            state = state.with_consumer(name, consumer.without((subscription.topic, place) for place in places))
    return state


def _with_unheld(
    state: Consumption, subscription: SubscriptionId, name: str, touched: Iterable[Message]
) -> Consumption:
    """A consumer acknowledged these; it is counted how many of them were unacknowledged at nobody."""
    held = {message for _, consumer in state.consumers_of(subscription) for message in consumer.unacknowledged}
    consumer, unheld = state.consumers[name], sum(message not in held for message in touched)
    return state.with_consumer(name, replace(consumer, acked_unheld=consumer.acked_unheld + unheld))


def _counted_no_more(
    state: Consumption, subscription: SubscriptionId, name: str, messages: Iterable[Message]
) -> Consumption:
    """A consumer acknowledged these, so the broker counts just them no more; of a batch, perhaps the others."""
    messages = list(messages)
    before = state.consumers[name]
    recounted = sum(_acked_before(state, before, subscription, at) for at in {place.position for _, place in messages})
    consumer = before.acknowledging(messages)
    consumer = replace(consumer, parts_recounted=consumer.parts_recounted + recounted)
    counted = {place.position for topic, place in consumer.outdone if topic == subscription.topic}
    state = state.with_consumer(name, consumer)
    return membership.acknowledged(state, subscription, name, {place.position for _, place in messages} - counted)


def _acked_before(state: Consumption, consumer: Consumer, subscription: SubscriptionId, position: Position) -> int:
    """How many messages a consumer had acknowledged of a batch when others acknowledged the rest of it."""
    batch = messages_at(subscription.topic, state.log(subscription.topic), position)
    left = sum(message in consumer.outdone for message in batch)
    return len(batch) - left if left else 0


def _acknowledge(cursor: Cursor, ack: Ack, log: TopicLog, at: Interval, tested: frozenset[str]) -> Cursor:
    return cursor.on_each(
        lambda one: ack.on(one, log),
        at,
        tested,
        lambda one: ack.besides(one, log),
        is_individual=not ack.cumulative,
    )


def _by_subscription(
    state: Consumption, name: str, messages: tuple[Delivery, ...]
) -> dict[SubscriptionId, tuple[Place, ...]]:
    consumer = state.consumers[name]
    places: defaultdict[SubscriptionId, tuple[Place, ...]] = defaultdict(tuple)
    for dispatched in messages:
        message = state.place_of(consumer, dispatched)
        if message is not None:
            places[SubscriptionId(message[0], consumer.subscription)] += (message[1],)
    return places


def _tested(state: Acked, ack: Ack, log: TopicLog) -> Iterator[str]:
    """The rules that an acknowledgment puts to the test."""
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
    """Those entries that were acknowledged just now while they may have been on their way are at large.

    They come whole: the broker knows no more by then which of their messages had been acknowledged before.
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
    return state.with_at_large(subscription, state.at_large.get(subscription, frozenset()).union(found))


def taken_from(
    state: Consumption, subscription: SubscriptionId, touched: Iterable[Message] | None = None, *, by: str | None = None
) -> Consumption:
    """As :func:`no_longer_unacknowledged`, when a consumer, or an administrator (None), acknowledged what others have.

    Whether hashes drain for what an administrator acknowledged no document says.
    """
    after = no_longer_unacknowledged(state, subscription, touched)
    for name, consumer in list(state.consumers_of(subscription)):
        now = after.consumers[name]
        if name != by and len(now.unacknowledged) < len(consumer.unacknowledged):
            gone = frozenset(message for message in consumer.unacknowledged if message not in now.unacknowledged)
            after = after.with_consumer(name, replace(now, outdone=now.outdone | gone))
            if by is None and consumer.kind == "Key_Shared":
                after = membership.outdone(after, subscription, name, {place.position for _, place in gone})
    return after


def no_longer_unacknowledged(
    state: Consumption, subscription: SubscriptionId, touched: Iterable[Message] | None = None
) -> Consumption:
    """What is acknowledged by now, whatever the state is, nobody has unacknowledged, and is not due.

    ``touched``: the messages that this may be true of since a moment ago; None: any that are unacknowledged or due.
    """
    if touched is None:
        held = [message for _, consumer in state.consumers_of(subscription) for message in consumer.unacknowledged]
        touched = [message for message in held if message[0] == subscription.topic]
        touched += state.due(subscription)
    possible = state.cursors[subscription].possible
    gone = [message for message in touched if all(one.has_message(message[1]) for one in possible)]
    for name, consumer in list(state.consumers_of(subscription)):
        rest = consumer.without(gone)
        state = state.with_consumer(name, replace(rest, asked_twice=rest.asked_twice.difference(gone)))
    due = state.due(subscription)
    state = membership.passed(state, subscription, [message for message in gone if message in due])
    return state.taken(subscription, gone)
