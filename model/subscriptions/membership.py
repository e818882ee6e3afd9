"""Changes of a Key_Shared subscription other than deliveries: joins, leaves, redelivery requests, acks, permits."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from model.immutable.map import Map
from model.key_shared.state import Joined
from model.log import EARLIEST, Position
from model.subscriptions.consumers import Message
from model.subscriptions.state import Consumption
from model.vocabulary import SubscriptionId


def joined(state: Consumption, subscription: SubscriptionId, name: str) -> Consumption:
    """A consumer is about to join. Other consumers may have been sent messages before, if they had permits."""
    keyed = state.keyed_of(subscription)
    others = [consumer for _, consumer in state.consumers_of(subscription)]
    had_permits = keyed.may_have_permits or any(consumer.had_permits_left for consumer in others)
    if not others or not (keyed.got or had_permits):
        return state
    joined = Joined(delivered=max(keyed.got, default=EARLIEST), last=state.log(subscription.topic).last)
    return state.with_keyed(subscription, replace(keyed, joined=keyed.joined.set(name, joined)))


def left(state: Consumption, subscription: SubscriptionId, name: str, had: Collection[Message]) -> Consumption:
    """A consumer left. After the last one, the broker reads from the mark-delete position again."""
    before = state.keyed_of(subscription)
    rest = sum(1 for _ in state.consumers_of(subscription))
    if not rest:
        return state.without_keyed(subscription)
    keyed = before.without(name).freed((place.position for _, place in had), is_gone=True)
    joined = keyed.joined if rest > 1 else Map[str, Joined]()
    return state.with_keyed(subscription, replace(keyed, has_left=True, joined=joined))


def nacked(state: Consumption, subscription: SubscriptionId, messages: Collection[Message]) -> Consumption:
    """A consumer requested redelivery. For delivered messages of those keys no order is guaranteed."""
    keys = state.log(subscription.topic).keys
    again = {keys[place.position].hashed_by for _, place in messages if place.position in keys}
    if not again:
        return state
    keyed = state.keyed_of(subscription).freed((place.position for _, place in messages), is_gone=False)
    return state.with_keyed(subscription, replace(keyed, nacked=keyed.nacked.updated(dict.fromkeys(again))))


def permitted(state: Consumption, name: str) -> Consumption:
    """A consumer sent permits."""
    consumer = state.consumers[name]
    for subscription in consumer.subscriptions if consumer.kind == "Key_Shared" else ():
        keyed = state.keyed_of(subscription)
        state = state.with_keyed(subscription, replace(keyed, may_have_permits=True))
    return state


def mark_delete(state: Consumption, subscription: SubscriptionId) -> Position:
    return max(one.mark_delete for one in state.cursors[subscription].possible)


def stirred(state: Consumption) -> Consumption:
    """After any operation the broker may have dispatched messages since the last look."""
    for subscription, keyed in state.keyed.items():
        if keyed.is_gathered:
            state = state.with_keyed(subscription, replace(keyed, is_gathered=False))
    return state


def acked_by_others(
    state: Consumption, subscription: SubscriptionId, name: str, positions: Collection[Position]
) -> Consumption:
    """Others acknowledged entries that a consumer has or will receive. The broker may still count them as pending."""
    if not positions:
        return state
    keyed = state.keyed_of(subscription)
    return state.with_keyed(
        subscription, replace(keyed, acked_by_others=keyed.acked_by_others.updated(dict.fromkeys(positions, name)))
    )


def acknowledged(
    state: Consumption, subscription: SubscriptionId, name: str, positions: Collection[Position]
) -> Consumption:
    """A consumer acknowledged entries. The broker no longer counts them, even if others had acknowledged them."""
    keyed = state.keyed_of(subscription)
    acked_by_others = {at: who for at, who in keyed.acked_by_others.items() if who != name or at not in positions}
    return (
        state
        if len(acked_by_others) == len(keyed.acked_by_others)
        else state.with_keyed(subscription, replace(keyed, acked_by_others=Map(acked_by_others)))
    )
