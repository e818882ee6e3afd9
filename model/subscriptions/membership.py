"""What happens to a Key_Shared subscription besides deliveries: consumers join, leave, and ask for messages again."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from immutables import Map

from model.key_shared.state import Joined, Keyed
from model.log import Position
from model.subscriptions.consumers import SHARED, Consumer, Message
from model.subscriptions.state import Consumption
from model.vocabulary import SubscriptionId


def joined(state: Consumption, subscription: SubscriptionId, name: str) -> Consumption:
    """A consumer is about to join; others may be there, to which something was delivered."""
    keyed = state.keyed_of(subscription)
    if not keyed.got or not any(state.consumers_of(subscription)):
        return state
    joined = Joined(delivered=max(keyed.got), last=state.log(subscription.topic).last)
    return state.with_keyed(subscription, replace(keyed, joined=keyed.joined.set(name, joined)))


def left(state: Consumption, subscription: SubscriptionId, name: str, had: Collection[Message]) -> Consumption:
    """A consumer has left. With the last one, all is read anew; one that is alone has nobody to wait for."""
    rest = [other for other, _ in state.consumers_of(subscription)]
    if not rest:
        before = state.keyed_of(subscription)
        state = state.without_keyed(subscription)
        is_sure = before.is_gathered and not before.may_be_read
        return state if is_sure else state.with_keyed(subscription, Keyed(may_be_read=True))
    keyed = state.keyed_of(subscription).without(name).freed((place.position for _, place in had), is_gone=True)
    if name in keyed.ready:
        ready = keyed.ready - {name}
        keyed = replace(keyed, ready=ready, is_skip_kept=not ready and not keyed.is_permitted)
    unread = keyed.unread if had else (*keyed.unread, *keyed.ranges_of(name))
    keyed = replace(keyed, unread=unread, has_left=True, left_reading=state.log(subscription.topic).last, is_woken=True)
    return state.with_keyed(subscription, keyed if len(rest) > 1 else replace(keyed, joined=Map()))


def with_replay_read(state: Consumption, subscription: SubscriptionId, last: Consumer) -> Consumption:
    """The last consumer is gone: what was in the replay queue may be being read, and the next one may receive that.

    What the last consumer had was not in the queue, unless it asked for it again. What nobody had was, if it was due
    again, or if it was read when there were no permits for it.
    """
    if last.kind not in SHARED:
        return state
    queued = [message for message, why in state.due(subscription).items() if why != "moved"]
    may_be_queued = frozenset(queued if last.is_settled else state.all_left(subscription))
    had = () if last.may_repeat else (message for message in last.unacknowledged if message not in last.asked_twice)
    return state.with_replaying(subscription, may_be_queued.difference(had))


def failed(state: Consumption, subscription: SubscriptionId, messages: Collection[Message]) -> Consumption:
    """A consumer asked for messages again: of their keys, no order is promised for what was delivered already."""
    keys = state.log(subscription.topic).keys
    again = {keys[place.position].hashed_by for _, place in messages if place.position in keys}
    if not again:
        return state
    keyed = state.keyed_of(subscription).freed((place.position for _, place in messages), is_gone=False)
    return state.with_keyed(
        subscription, replace(keyed, failed=keyed.failed.update(dict.fromkeys(again)), is_woken=True)
    )


def woken(state: Consumption, name: str, *, permits: bool) -> Consumption:
    """A consumer acknowledged, or permitted more: the broker looks whether it can send what is in the replay queue."""
    consumer = state.consumers[name]
    for subscription in consumer.subscriptions if consumer.kind == "Key_Shared" else ():
        keyed = state.keyed_of(subscription)
        keyed = replace(keyed, is_woken=True, is_permitted=keyed.is_permitted or permits)
        state = state.with_keyed(subscription, keyed)
    return state


def stirred(state: Consumption) -> Consumption:
    """Something happened, and the broker may have sent messages since all was gathered."""
    for subscription, keyed in state.keyed.items():
        if keyed.is_gathered:
            state = state.with_keyed(subscription, replace(keyed, is_gathered=False))
    return state


def passed(state: Consumption, subscription: SubscriptionId, messages: Collection[Message]) -> Consumption:
    """Messages were acknowledged; some of them may have been waiting to come again."""
    keys = state.log(subscription.topic).keys
    waiting = frozenset(place.position for _, place in messages if place.position in keys)
    if not waiting:
        return state
    keyed = state.keyed_of(subscription)
    return state.with_keyed(subscription, replace(keyed, passed=keyed.passed | waiting))


def outdone(
    state: Consumption, subscription: SubscriptionId, name: str, positions: Collection[Position]
) -> Consumption:
    """Others acknowledged entries that a consumer has or will receive; the broker may still count them for it."""
    if not positions:
        return state
    keyed = state.keyed_of(subscription)
    return state.with_keyed(subscription, replace(keyed, outdone=keyed.outdone.update(dict.fromkeys(positions, name))))


def acknowledged(
    state: Consumption, subscription: SubscriptionId, name: str, positions: Collection[Position]
) -> Consumption:
    """A consumer acknowledged entries, so the broker no longer counts them, even if others had acknowledged them."""
    keyed = state.keyed_of(subscription)
    outdone = {at: who for at, who in keyed.outdone.items() if who != name or at not in positions}
    return (
        state
        if len(outdone) == len(keyed.outdone)
        else state.with_keyed(subscription, replace(keyed, outdone=Map(outdone)))
    )
