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
from model.subscriptions.consumers import Consumer, Key, Message
from model.subscriptions.state import Consumption, messages_at


def acknowledged(
    state: Consumption, name: str, outcome: Acknowledged, at: Interval, *, cumulative: bool, is_cut_off: bool = False
) -> Consumption:
    """A consumer acknowledged messages; without a receipt, its client may hold that back yet.

    ``is_cut_off``: its connection has ended since, so that without a receipt it has taken effect or never will.
    """
    for key, places in _by_subscription(state, name, outcome.messages).items():
        ack = Ack(places, cumulative)
        before = state.cursors[key]
        if outcome.receipt:
            log = state.log(key[0])
            tested = frozenset(rule for one in before.possible for rule in _tested(one, ack, log))
            state = state.with_cursor(key, _acknowledge(before, ack, log, at, tested))
            touched = [message for place in places for message in messages_at(key[0], log, place.position)]
            if not cumulative:
                state = _with_unheld(state, key, name, touched)
                state = _counted_no_more(state, key, name, [(key[0], place) for place in places])
            state = overtaken(state, key, before, () if cumulative else {place.position for place in places})
            state = taken_from(state, key, None if cumulative else touched, by=name)
        else:
            log = state.log(key[0])
            after = perhaps(before, ack, log, at) if is_cut_off else sent_back(before, name, ack, log)
            state = state.with_cursor(key, after)
            consumer = state.consumers[name]
            state = state.with_consumer(name, consumer.without((key[0], place) for place in places))
    return state


def _with_unheld(state: Consumption, key: Key, name: str, touched: Iterable[Message]) -> Consumption:
    """A consumer acknowledged these; it is counted how many of them were unacknowledged at nobody."""
    held = {message for _, consumer in state.of_subscription(key) for message in consumer.unacknowledged}
    consumer, unheld = state.consumers[name], sum(message not in held for message in touched)
    return state.with_consumer(name, replace(consumer, acked_unheld=consumer.acked_unheld + unheld))


def _counted_no_more(state: Consumption, key: Key, name: str, messages: Iterable[Message]) -> Consumption:
    """A consumer acknowledged these, so the broker counts just them no more; of a batch, perhaps the others."""
    messages = list(messages)
    before = state.consumers[name]
    recounted = sum(_acked_before(state, before, key, at) for at in {place.position for _, place in messages})
    consumer = before.acknowledging(messages)
    consumer = replace(consumer, parts_recounted=consumer.parts_recounted + recounted)
    counted = {place.position for topic, place in consumer.outdone if topic == key[0]}
    state = state.with_consumer(name, consumer)
    return membership.acknowledged(state, key, name, {place.position for _, place in messages} - counted)


def _acked_before(state: Consumption, consumer: Consumer, key: Key, position: Position) -> int:
    """How many messages a consumer had acknowledged of a batch when others acknowledged the rest of it."""
    batch = messages_at(key[0], state.log(key[0]), position)
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


def _by_subscription(state: Consumption, name: str, messages: tuple[Delivery, ...]) -> dict[Key, tuple[Place, ...]]:
    consumer = state.consumers[name]
    places: defaultdict[Key, tuple[Place, ...]] = defaultdict(tuple)
    for dispatched in messages:
        message = state.place_of(consumer, dispatched)
        if message is not None:
            places[message[0], consumer.subscription] += (message[1],)
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


def overtaken(state: Consumption, key: Key, before: Cursor, positions: Iterable[Position]) -> Consumption:
    """Those entries that were acknowledged just now while they may have been on their way are at large.

    They come whole: the broker knows no more by then which of their messages had been acknowledged before.
    """
    consumers = [consumer for _, consumer in state.of_subscription(key)]
    if all(consumer.is_settled for consumer in consumers):
        return state
    log, after = state.log(key[0]), state.cursors[key].possible
    found: set[Message] = set()
    for position in positions:
        was, is_now = (all(one.has(position) for one in states) for states in (before.possible, after))
        messages = messages_at(key[0], log, position)
        if is_now and not was and not any(one in consumer.unacknowledged for consumer in consumers for one in messages):
            found.update(messages)
    return state.with_at_large(key, state.at_large.get(key, frozenset()).union(found))


def taken_from(
    state: Consumption, key: Key, touched: Iterable[Message] | None = None, *, by: str | None = None
) -> Consumption:
    """As :func:`no_longer_unacknowledged`, when a consumer, or an administrator (None), acknowledged what others have.

    Whether hashes drain for what an administrator acknowledged no document says.
    """
    after = no_longer_unacknowledged(state, key, touched)
    for name, consumer in list(state.of_subscription(key)):
        now = after.consumers[name]
        if name != by and len(now.unacknowledged) < len(consumer.unacknowledged):
            gone = frozenset(message for message in consumer.unacknowledged if message not in now.unacknowledged)
            after = after.with_consumer(name, replace(now, outdone=now.outdone | gone))
            if by is None and consumer.kind == "Key_Shared":
                after = membership.outdone(after, key, name, {place.position for _, place in gone})
    return after


def no_longer_unacknowledged(state: Consumption, key: Key, touched: Iterable[Message] | None = None) -> Consumption:
    """What is acknowledged by now, whatever the state is, nobody has unacknowledged, and is not due.

    ``touched``: the messages that this may be true of since a moment ago; None: any that are unacknowledged or due.
    """
    if touched is None:
        held = [message for _, consumer in state.of_subscription(key) for message in consumer.unacknowledged]
        touched = [message for message in held if message[0] == key[0]]
        touched += state.due(key)
    possible = state.cursors[key].possible
    gone = [message for message in touched if all(one.has_message(message[1]) for one in possible)]
    for name, consumer in list(state.of_subscription(key)):
        rest = consumer.without(gone)
        state = state.with_consumer(name, replace(rest, asked_twice=rest.asked_twice.difference(gone)))
    due = state.due(key)
    state = membership.passed(state, key, [message for message in gone if message in due])
    return state.taken(key, gone)
