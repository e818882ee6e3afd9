"""The unacknowledged entries of a Key_Shared subscription: their hashes, and where they are pending."""

from __future__ import annotations

from collections.abc import Iterator

from model.key_shared.liveness import Open
from model.subscriptions import invariant
from model.subscriptions.state import Consumption, surely_left
from model.vocabulary import SubscriptionId


def unsure_hashes(state: Consumption, subscription: SubscriptionId) -> frozenset[int]:
    """The hashes whose pending acks, as the broker counts them, are not known.

    An entry of them may or may not be acknowledged. Or it arrived after it was acknowledged, and counts as pending
    until its consumer acknowledges it too.
    """
    cursor, keys = state.cursors[subscription], state.log(subscription.topic).keys
    positions = set(state.keyed_of(subscription).acked_by_others)
    if len(cursor.possible) > 1 or cursor.unsure:
        left = {place.position for _, place in state.all_left(subscription)}
        positions |= left.difference(place.position for _, place in surely_left(state, subscription))
    return frozenset(invariant.hash_of(state, subscription, position) for position in positions if position in keys)


def open_entries(state: Consumption, subscription: SubscriptionId) -> Iterator[Open]:
    """The entries that are surely unacknowledged, in order, and the consumer at which each is pending."""
    keys = state.log(subscription.topic).keys
    holders = {
        message[1].position: name
        for name, consumer in state.consumers_of(subscription)
        for message in consumer.unacknowledged
        if message[0] == subscription.topic
    }
    is_not_due = state.topics[subscription.topic].is_not_due
    for position in dict.fromkeys(place.position for _, place in surely_left(state, subscription)):
        if position in keys:
            hashed = invariant.hash_of(state, subscription, position)
            yield Open(position, hashed, holders.get(position), is_not_due(position))
