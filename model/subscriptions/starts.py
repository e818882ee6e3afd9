"""Where a subscription begins, and how it ends: ACK-18 and ACK-19.

A subscription begins when a consumer or an administrator creates it, and again when its cursor is reset or a consumer
seeks. The first read of its state afterwards exercises ACK-18. On a trimmed topic no client sees when a ledger is
deleted, so it may begin after any ledger that all durable subscriptions acknowledged.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from model.cursors import acked, cursor
from model.cursors.acked import Acked
from model.cursors.cursor import Cursor
from model.cursors.ledger import Interval
from model.events import CursorRead, Done, Refused
from model.immutable.map import Map
from model.judgement import Allowed, Broken
from model.log import Position
from model.rules.catalogue import carries
from model.subscriptions.state import Consumption
from model.vocabulary import Outcome, Start, SubscriptionId

Judged = Allowed[Consumption] | Broken

BEGINS = "ACK-18"
ENDS = "ACK-19"


def at_entry(state: Consumption, topic: str, to: Position | None) -> tuple[Acked, ...]:
    """The possible states of a cursor whose next entry is this one, or the first retained one after it; None: the
    earliest that is retained."""
    beginnings = state.beginnings(topic)
    if to is None:
        return beginnings
    asked = acked.set_to(state.log(topic), to)
    return tuple(dict.fromkeys(one if one.mark_delete > asked.mark_delete else asked for one in beginnings))


def _deleted_before(state: Consumption, topic: str, states: Iterable[Acked]) -> frozenset[Position]:
    """The last entries of deleted ledgers, perhaps, after which these states begin."""
    ends = {one.mark_delete for one in state.beginnings(topic) if one != Acked()}
    return frozenset(one.mark_delete for one in states if one.mark_delete in ends)


@carries("ACK-18")
def created(
    state: Consumption,
    subscription: SubscriptionId,
    start: Start,
    at: Interval,
    *,
    durable: bool = True,
    to: Position | None = None,
) -> Cursor:
    """The cursor of a new subscription. ``to``: the entry that it begins with."""
    topic = subscription.topic
    is_latest = start == "latest" and to is None
    states = (acked.everything(state.log(topic)),) if is_latest else at_entry(state, topic, to)
    after = cursor.created(states[0], at, others=frozenset(states[1:]), durable=durable)
    since = frozenset({BEGINS, state.deleted[subscription]} if subscription in state.deleted else {BEGINS})
    begins_after = frozenset[Position]() if is_latest else _deleted_before(state, topic, states)
    return replace(after, since=since, begins_after=begins_after)


@carries("ACK-18")
def reset(state: Consumption, subscription: SubscriptionId, to: Position | None, at: Interval) -> Cursor:
    """The cursor of a subscription that was reset to an entry; None: the earliest that is retained."""
    states = at_entry(state, subscription.topic, to)
    after = cursor.reset(state.cursors[subscription], states[0], at, others=frozenset(states[1:]))
    begins_after = _deleted_before(state, subscription.topic, states)
    return replace(after, since=frozenset({BEGINS}), begins_after=begins_after)


def created_again(state: Consumption, topic: str, name: str) -> Consumption:
    """A subscription that was deleted exists again, or may, on each partition."""
    parts = state.partitions.get(topic, (topic,))
    return without_deleted(state, [SubscriptionId(part, name) for part in parts])


def without_deleted(state: Consumption, again: Collection[SubscriptionId]) -> Consumption:
    """Subscriptions exist again, or may."""
    return replace(state, deleted=Map({one: rule for one, rule in state.deleted.items() if one not in again}))


def unsubscribed(state: Consumption, name: str, outcome: Outcome) -> Consumption:
    """A consumer removed its subscription, and is gone with it."""
    if not isinstance(outcome, Done):
        return state
    if name not in state.consumers:
        return state.without_untracked_consumer(name)
    return ended(state.without_consumer(name), state.consumers[name].subscriptions)


def ended(state: Consumption, subscriptions: Collection[SubscriptionId], rule: str = ENDS) -> Consumption:
    """Subscriptions were deleted, with the wire client's consumers. ``rule``: what is broken if one still exists.

    A consumer of pulsar-client reconnects by itself, which creates its subscription again at an unknown time.
    """
    gone = [one for one in subscriptions if one in state.cursors]
    consumers = {name: one for subscription in gone for name, one in state.consumers_of(subscription)}
    returns = any(one.client != "wire" for one in consumers.values())
    for name in consumers:
        state = state.without_tracking(name)
    for subscription in gone:
        state = state.without_keyed(subscription).without_cursor(subscription)
        if returns:
            state = state.with_untracked(subscription.topic)
    return state if returns else replace(state, deleted=state.deleted.updated(dict.fromkeys(gone, rule)))


@carries("ACK-19", "SERVE-11")
def looked_up(state: Consumption, subscription: SubscriptionId, outcome: Outcome) -> Judged:
    """The state of a subscription that was deleted was read: it does not exist."""
    if isinstance(outcome, CursorRead):
        because = f"subscription {subscription.name}, which was deleted, is still in the stats"
        return Broken(state.deleted[subscription], because, evidence=outcome).passing_to(state)
    return Allowed(state, (state.deleted[subscription],) if isinstance(outcome, Refused) else ())
