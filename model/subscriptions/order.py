"""In what order messages of one key come: an entry is delivered, and earlier ones of its key or hash are not.

Judged where every delivery was gathered, step by step, so that what was delivered before what is known. An entry that
is due again waits for replay: its consumer left (KEY-06), or asked for it (KEY-09). One that was never delivered comes
in the order of the log (KEY-02). Where a consumer asked for messages of a key again, no order is promised among those
messages (KEY-08), but what was never delivered stays behind what waits for replay.
"""

from __future__ import annotations

from collections.abc import Sequence

from model.cursors.log import EntryKey
from model.deviations import DEVIATIONS
from model.deviations.key_shared import (
    NEW_MESSAGE_OVERTAKES_REPLAY,
    PENDING_ACKS_WITHOUT_HASH,
    PENDING_READ_OUTLIVES_CONSUMERS,
    REPLAY_READ_OVERTAKES_LEAVER,
)
from model.judgement import Broken
from model.log import Position
from model.rules.catalogue import carries
from model.subscriptions.consumers import Freed, Message
from model.subscriptions.invariant import hash_of
from model.subscriptions.state import Consumption, surely_left
from model.vocabulary import SubscriptionId


def out_of_order(state: Consumption, subscription: SubscriptionId, name: str, position: Position) -> Broken | None:
    """A consumer is given an entry for which others of its key, or hash, had to come first; None if it is in order."""
    own = state.log(subscription.topic).keys[position]
    if not state.consumers[name].keeps_keys:
        return None
    replays = state.keyed_of(subscription).replays
    before = (message for message in waiting(state, subscription) if message[1].position < position)
    earlier = [message for message in before if replays.get(message[1].position, True)]
    of_hash = [
        message
        for message in earlier
        if hash_of(state, subscription, message[1].position) == hash_of(state, subscription, position)
    ]
    of_key = [message for message in of_hash if own.key is not None and _key(state, message).key == own.key]
    what = f"{name} received the entry at {position} ({_words(own)})"
    return (
        _ahead_of_those_left(state, subscription, name, position, of_key, what)
        or _ahead_of_replay(state, subscription, name, position, of_hash, what)
        or _ahead_of_the_log(state, subscription, position, of_key, what)
    )


def waiting(state: Consumption, subscription: SubscriptionId) -> list[Message]:
    """The messages that are surely not acknowledged and that nobody has, in order."""
    held = {message for _, consumer in state.consumers_of(subscription) for message in consumer.unacknowledged}
    return [message for message in surely_left(state, subscription) if message not in held]


@carries("KEY-06")
def _ahead_of_those_left(
    state: Consumption,
    subscription: SubscriptionId,
    name: str,
    position: Position,
    earlier: Sequence[Message],
    what: str,
) -> Broken | None:
    """What a consumer had that left comes before later messages of its key, unless it was asked for again before."""
    first = _first(state, subscription, earlier, ("left",))
    if first is None or _was_failed(state, subscription, position):
        return None
    because = f"{what} before {state.words(first)}, which was unacknowledged at a consumer that left"
    if _is_passed(state, subscription, name):
        return DEVIATIONS[PENDING_ACKS_WITHOUT_HASH].broken(because)
    if _may_be_read_for_replay(state, subscription, position):
        return DEVIATIONS[REPLAY_READ_OVERTAKES_LEAVER].broken(because)
    return Broken("KEY-06", because)


def _may_be_read_for_replay(state: Consumption, subscription: SubscriptionId, position: Position) -> bool:
    """Whether an entry may have been on its way from the replay queue when a consumer left, with draining hashes.

    Messages were in the queue, nothing was delivered since then, and the entry was there before.
    """
    keyed = state.keyed_of(subscription)
    was_there = keyed.has_replays and keyed.left_reading is not None and position <= keyed.left_reading
    return state.topics[subscription.topic].drains and was_there and position not in keyed.got


def _is_passed(state: Consumption, subscription: SubscriptionId, name: str) -> bool:
    """Whether the classic implementation may give a consumer what is new before what another one had that left.

    That waits without its hash: for permits of another consumer, and without holding up what was being read just then.
    """
    has_others = any(other != name for other, _ in state.consumers_of(subscription))
    return not state.topics[subscription.topic].drains and (
        has_others or state.keyed_of(subscription).left_reading is not None
    )


@carries("KEY-09")
def _ahead_of_replay(
    state: Consumption,
    subscription: SubscriptionId,
    name: str,
    position: Position,
    earlier: Sequence[Message],
    what: str,
) -> Broken | None:
    """What was never delivered does not come before what waits for replay, of the same hash."""
    first = _first(state, subscription, earlier, ("failed", "left"))
    if first is None or position in state.keyed_of(subscription).got:
        return None
    because = f"{what} as a new message while {state.words(first)} of its hash was in the replay queue"
    if state.due(subscription).get(first) == "failed" and not state.topics[subscription.topic].drains:
        return DEVIATIONS[NEW_MESSAGE_OVERTAKES_REPLAY].broken(because)
    if state.due(subscription).get(first) == "left":
        if _is_passed(state, subscription, name):
            return DEVIATIONS[PENDING_ACKS_WITHOUT_HASH].broken(because)
        if _may_be_read_for_replay(state, subscription, position):
            return DEVIATIONS[REPLAY_READ_OVERTAKES_LEAVER].broken(because)
    return Broken("KEY-09", because)


@carries("KEY-02")
def _ahead_of_the_log(
    state: Consumption, subscription: SubscriptionId, position: Position, earlier: Sequence[Message], what: str
) -> Broken | None:
    """Without redelivery requests, messages of a key come in the order of the log."""
    if not earlier or _was_failed(state, subscription, position):
        return None
    because = f"{what} before {state.words(earlier[0])} of that key, which is earlier in the log"
    if state.keyed_of(subscription).may_be_read:
        return DEVIATIONS[PENDING_READ_OUTLIVES_CONSUMERS].broken(because)
    return Broken("KEY-02", because)


def exercised_by(state: Consumption, subscription: SubscriptionId, name: str, message: Message) -> tuple[str, ...]:
    """The rules that are put to the test by a message that comes in its order."""
    keyed, own = state.keyed_of(subscription), _key(state, message)
    if not state.consumers[name].keeps_keys:
        return ()
    why = state.due(subscription).get(message)
    keys = state.log(subscription.topic).keys
    rules = []
    if own.key is not None and any(who != name and keys[at].key == own.key for at, who in keyed.got.items()):
        rules += [] if own.hashed_by in keyed.failed else ["KEY-02"]
    if why == "left":
        rules.append("KEY-06")
    if why == "failed":
        rules.append("KEY-08")
    if why in ("left", "failed") and _has_news_behind(state, subscription, message):
        rules.append("KEY-09")
    return tuple(rules)


def _has_news_behind(state: Consumption, subscription: SubscriptionId, message: Message) -> bool:
    """Whether something of a message's hash that was never delivered waits behind it."""
    got, hashed = state.keyed_of(subscription).got, hash_of(state, subscription, message[1].position)
    behind = (other[1].position for other in waiting(state, subscription) if other[1].position > message[1].position)
    return any(position not in got and hash_of(state, subscription, position) == hashed for position in behind)


def _first(
    state: Consumption, subscription: SubscriptionId, messages: Sequence[Message], why: tuple[Freed, ...]
) -> Message | None:
    """The first of these that waits for replay, for one of these reasons."""
    due, replays = state.due(subscription), state.keyed_of(subscription).replays
    return next((one for one in messages if due.get(one) in why and one[1].position in replays), None)


def _was_failed(state: Consumption, subscription: SubscriptionId, position: Position) -> bool:
    return state.log(subscription.topic).keys[position].hashed_by in state.keyed_of(subscription).failed


def _key(state: Consumption, message: Message) -> EntryKey:
    return state.log(message[0]).keys[message[1].position]


def _words(entry_key: EntryKey) -> str:
    return "without a key" if entry_key.key is None else f"of key {entry_key.key}"
