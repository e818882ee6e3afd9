"""Changes of a Key_Shared subscription other than deliveries: joins, leaves, redelivery requests, acks, permits."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from model.excuses.key_shared import PERMITS_OF_STUCK_CONSUMER_IGNORED
from model.immutable.map import Map
from model.key_shared.state import Joined, Keyed, Leaver, Unread
from model.log import EARLIEST, Position
from model.subscriptions import recently_joined
from model.subscriptions.consumers import SHARED, Consumer, Message
from model.subscriptions.state import Consumption
from model.vocabulary import SubscriptionId


def joined(state: Consumption, subscription: SubscriptionId, name: str) -> Consumption:
    """A consumer is about to join. Other consumers may have been sent messages before, if they had permits."""
    keyed = state.keyed_of(subscription)
    others = [consumer for _, consumer in state.consumers_of(subscription)]
    had_permits = keyed.is_permitted or keyed.ready or any(consumer.had_permits_left for consumer in others)
    if not others or not (keyed.got or had_permits):
        return state
    joined = Joined(
        delivered=max(keyed.got, default=EARLIEST),
        last=state.log(subscription.topic).last,
        replays=frozenset(keyed.replays),
    )
    return state.with_keyed(subscription, replace(keyed, joined=keyed.joined.set(name, joined)))


def left(state: Consumption, subscription: SubscriptionId, name: str, had: Collection[Message]) -> Consumption:
    """A consumer left. After the last one, the broker reads from the mark-delete position again."""
    before, last = state.keyed_of(subscription), state.log(subscription.topic).last
    rest = [other for other, _ in state.consumers_of(subscription)]
    if not rest:
        state = state.without_keyed(subscription)
        is_sure = before.is_gathered and before.may_be_read_to is None
        keyed = Keyed(may_be_read_to=last, had_leavers=bool(before.leavers))
        return state if is_sure else state.with_keyed(subscription, keyed)
    keyed = before.without(name).freed((place.position for _, place in had), is_gone=True)
    if name in before.ready | before.permitted:
        is_last = not keyed.ready and not keyed.permitted - {name}
        may_replay = before.has_replays or before.is_asked
        keyed = replace(keyed, is_last_gone=is_last, is_skip_kept=is_last and may_replay)
    keyed = replace(
        keyed,
        unread=() if had else keyed.unread,
        leavers=(*before.leavers, Leaver(name, name in before.ready | before.permitted)),
        reading_at_leave=last,
        is_woken=True,
        skipped_to=None,
        is_left_unread=False,
        stalled=_read_again(keyed),
    )
    had_permits = name in before.ready and not before.is_woken  # so no message was blocked for it
    if not had and not had_permits:
        keyed = replace(keyed, unread=(*keyed.unread, Unread(before.ranges_of(name), last)))
    if len(rest) > 1:
        return state.with_keyed(subscription, keyed)
    is_recent = bool(recently_joined.recent(state.with_keyed(subscription, keyed), subscription))
    is_left_unread = is_recent and not had and state.consumers[rest[0]].keeps_keys
    after = replace(keyed, joined=Map(), joined_until_leave=keyed.joined, is_left_unread=is_left_unread)
    return state.with_keyed(subscription, after)


def with_replay_read(state: Consumption, subscription: SubscriptionId, last: Consumer) -> Consumption:
    """The last consumer is gone. A replay read may be pending, and the next consumer may receive its messages."""
    if last.kind not in SHARED:
        return state
    messages, keyed = _in_replay(state, subscription, last), state.keyed_of(subscription)
    if messages and keyed.may_be_read_to is not None:
        may_be_pending = _may_be_replayed(state, subscription, last, had_leavers=keyed.had_leavers)
        state = state.with_keyed(subscription, replace(keyed, may_be_replay_read=may_be_pending))
    return state.with_replaying(subscription, messages)


def _in_replay(state: Consumption, subscription: SubscriptionId, last: Consumer) -> frozenset[Message]:
    """What may have been in the replay queue as the last consumer left.

    Its own pending messages were not, unless it requested their redelivery. Other messages were if they were due for
    redelivery, or were read without permits, or are delayed.
    """
    topic = state.topics[subscription.topic]
    left = state.all_left(subscription) if topic.delayed or not last.is_settled else ()
    if last.is_settled:
        delayed = (message for message in left if topic.is_delayed(message[1].position))
        may_be_queued = _redelivered(state, subscription).union(delayed)
    else:
        may_be_queued = frozenset(left)
    had = () if last.may_repeat else (message for message in last.unacknowledged if message not in last.requested_twice)
    return may_be_queued.difference(had)


def _redelivered(state: Consumption, subscription: SubscriptionId) -> frozenset[Message]:
    return frozenset(message for message, why in state.due(subscription).items() if why != "unloaded")


def _may_be_replayed(state: Consumption, subscription: SubscriptionId, last: Consumer, *, had_leavers: bool) -> bool:
    """Whether a replay read may have been pending as the last consumer left, if it is not known what was in flight.

    That a delayed message is replayed in the very moment is no reason to expect it on Shared.
    """
    return last.kind == "Key_Shared" or had_leavers or bool(_redelivered(state, subscription))


def all_gone(state: Consumption, subscription: SubscriptionId) -> Consumption:
    """The broker disconnects all consumers at once: it replays the messages of each to those that are left."""
    consumers = [consumer for _, consumer in state.consumers_of(subscription)]
    if len(consumers) > 1 and consumers[0].kind in SHARED:
        return state.with_replaying(subscription, state.all_left(subscription))
    return with_replay_read(state, subscription, consumers[0]) if consumers else state


def may_wait_before_rewind(state: Consumption, subscription: SubscriptionId) -> bool:
    """Whether a replay read may have been pending when the last consumer left, and nothing was written since."""
    keyed = state.keyed_of(subscription)
    return keyed.may_be_replay_read and keyed.may_be_read_to == state.log(subscription.topic).last


def leaves_replay_read(state: Consumption, subscription: SubscriptionId) -> bool:
    """Whether a replay read may be pending if all consumers leave now."""
    consumers = [consumer for _, consumer in state.consumers_of(subscription) if consumer.kind in SHARED]
    if len(consumers) != 1:
        return len(consumers) > 1 and bool(state.all_left(subscription))
    (last,), had_leavers = consumers, bool(state.keyed_of(subscription).leavers)
    may_be_replayed = _may_be_replayed(state, subscription, last, had_leavers=had_leavers)
    return may_be_replayed and bool(_in_replay(state, subscription, last))


def nacked(state: Consumption, subscription: SubscriptionId, messages: Collection[Message]) -> Consumption:
    """A consumer requested redelivery. For delivered messages of those keys no order is guaranteed."""
    keys = state.log(subscription.topic).keys
    again = {keys[place.position].hashed_by for _, place in messages if place.position in keys}
    if not again:
        return state
    keyed = state.keyed_of(subscription).freed((place.position for _, place in messages), is_gone=False)
    nacked = keyed.nacked.updated(dict.fromkeys(again))
    keyed = replace(
        keyed,
        nacked=nacked,
        unread=(),
        is_woken=True,
        is_asked=True,
        is_left_unread=False,
        stalled=_read_again(keyed),
    )
    return state.with_keyed(subscription, keyed)


def woken(state: Consumption, name: str, *, permits: bool) -> Consumption:
    """An ack or a permit triggers a read of the replay queue."""
    consumer = state.consumers[name]
    for subscription in consumer.subscriptions if consumer.kind == "Key_Shared" else ():
        keyed = state.keyed_of(subscription)
        is_read = permits and name not in keyed.joined
        keyed = replace(
            keyed,
            is_woken=True,
            unread=() if permits else keyed.unread,
            permitted=keyed.permitted | {name} if permits else keyed.permitted,
            skipped_to=None if is_read else keyed.skipped_to,
            is_left_unread=keyed.is_left_unread and not permits,
            stalled=_read_again(keyed) if permits else keyed.stalled,
        )
        state = state.with_keyed(subscription, keyed)
    return state


def _read_again(keyed: Keyed) -> Map[Position, str]:
    """The entries that stay stalled if the dispatcher reads the replay queue again."""
    return Map({at: name for at, name in keyed.stalled.items() if name != PERMITS_OF_STUCK_CONSUMER_IGNORED})


def skipped(before: Consumption, after: Consumption, subscription: SubscriptionId) -> Consumption:
    """An administrator skipped messages. In the classic implementation, recently joined consumers may wait for them."""
    state = expired(before, after, subscription)
    keyed = state.keyed_of(subscription)
    if state.topics[subscription.topic].drains or not keyed.joined:
        return state
    return state.with_keyed(subscription, replace(keyed, skipped_to=mark_delete(state, subscription)))


def expired(before: Consumption, after: Consumption, subscription: SubscriptionId) -> Consumption:
    """Messages expired or were skipped. Those that no consumer had may have been in the replay queue."""
    if all(consumer.kind != "Key_Shared" for _, consumer in before.consumers_of(subscription)):
        return after
    pending = {message for _, consumer in before.consumers_of(subscription) for message in consumer.unacknowledged}
    gone = before.all_left(subscription) - after.all_left(subscription) - pending
    return passed(after, subscription, gone)


def is_stalled_by_skip(state: Consumption, subscription: SubscriptionId) -> bool:
    """Whether nothing made the broker look at recently joined consumers since a skip, nor moved mark-delete."""
    skipped_to = state.keyed_of(subscription).skipped_to
    return skipped_to is not None and mark_delete(state, subscription) <= skipped_to


def mark_delete(state: Consumption, subscription: SubscriptionId) -> Position:
    return max(one.mark_delete for one in state.cursors[subscription].possible)


def stirred(state: Consumption) -> Consumption:
    """After any operation the broker may have dispatched messages since the last look."""
    for subscription, keyed in state.keyed.items():
        if keyed.is_gathered:
            state = state.with_keyed(subscription, replace(keyed, is_gathered=False))
    return state


def passed(state: Consumption, subscription: SubscriptionId, messages: Collection[Message]) -> Consumption:
    """Messages were acknowledged, some of which may have been in the replay queue."""
    keys = state.log(subscription.topic).keys
    waiting = frozenset(place.position for _, place in messages if place.position in keys)
    if not waiting:
        return state
    keyed = state.keyed_of(subscription)
    return state.with_keyed(subscription, replace(keyed, passed=keyed.passed | waiting))


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
