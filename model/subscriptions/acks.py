"""What an ack does to a subscription and to the pending acks of its consumers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from model.cursors.acked import Acked
from model.cursors.cursor import Ack, Cursor, maybe_sent, with_grouped
from model.cursors.ledger import Interval
from model.cursors.log import Place, TopicLog
from model.events import Acknowledged, Delivery
from model.log import Position
from model.subscriptions import membership
from model.subscriptions.consumers import Consumer, Message
from model.subscriptions.state import Consumption, messages_at
from model.vocabulary import SubscriptionId


def acknowledged(
    state: Consumption,
    name: str,
    outcome: Acknowledged,
    at: Interval,
    *,
    cumulative: bool,
    is_cut_off: bool = False,
) -> Consumption:
    """A consumer acknowledged messages. Without a receipt the client may not have sent the ack yet.

    ``is_cut_off``: its connection has ended since. An ack without a receipt has then taken effect or never will.
    """
    for subscription, places in by_subscription(state, state.consumers[name], outcome.messages).items():
        ack = Ack(places, cumulative)
        before = state.cursors[subscription]
        if outcome.receipt:
            log = state.log(subscription.topic)
            exercised = frozenset(rule for one in before.possible for rule in _exercised(one, ack, log))
            state = state.with_cursor(subscription, _acknowledge(before, ack, log, at, exercised))
            touched = [message for place in places for message in messages_at(subscription.topic, log, place.position)]
            if not cumulative:
                acked = [(subscription.topic, place) for place in places]
                state = _no_longer_counted(state, subscription, name, acked)
            state = overtaken(state, subscription, before, () if cumulative else {place.position for place in places})
            state = taken_from(state, subscription, None if cumulative else touched, by=name)
        else:
            log = state.log(subscription.topic)
            after = maybe_sent(before, ack, log, at) if is_cut_off else with_grouped(before, name, ack)
            state = state.with_cursor(subscription, after)
            consumer = state.consumers[name]
            state = state.with_consumer(name, consumer.without((subscription.topic, place) for place in places))
    return state


def _no_longer_counted(
    state: Consumption, subscription: SubscriptionId, name: str, messages: Sequence[Message]
) -> Consumption:
    """The broker no longer counts messages that a consumer acknowledged, unless others had acknowledged the rest of
    their entry, or an administrator."""
    positions = {place.position for _, place in messages}
    before = state.consumers[name]
    consumer = before.acknowledging(messages)
    of_others = {place.position for topic, place in before.acked_by_others if topic == subscription.topic}
    counted = {place.position for topic, place in consumer.acked_by_others if topic == subscription.topic}
    log = state.log(subscription.topic)
    for position in positions - of_others:
        entry = messages_at(subscription.topic, log, position)
        if any(one not in messages for one in entry) and not any(one in before.unacknowledged for one in entry):
            counted.add(position)  # an administrator acknowledged it, and the rest may still be counted
    return membership.acknowledged(state.with_consumer(name, consumer), subscription, name, positions - counted)


def _acknowledge(cursor: Cursor, ack: Ack, log: TopicLog, at: Interval, exercised: frozenset[str]) -> Cursor:
    return cursor.on_each(
        lambda one: ack.on(one, log),
        at,
        exercised,
        is_individual=not ack.cumulative,
    )


def by_subscription(
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
            if not is_skipped:
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
    return state.taken(subscription, gone)
