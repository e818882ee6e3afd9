"""The order of messages of one key: no entry is delivered before an earlier one of its key or hash.

Order is judged where all deliveries were received step by step, so that their order is known. An entry is in the replay
queue because its consumer left (KEY-06) or requested its redelivery (KEY-09). New messages are delivered in the order
of the log (KEY-02). A redelivery request lifts the order among the redelivered messages of a key (KEY-08), but new
messages still wait for the replay queue. A delayed message has no place in the order: no document says whether it comes
before or after others.
"""

from __future__ import annotations

from collections.abc import Sequence

from model.cursors.log import EntryKey
from model.judgement import HOLDS, Allowed, Broken, all_of
from model.rules.catalogue import carries
from model.subscriptions.consumers import Message, RedeliveryReason
from model.subscriptions.evidence import OvertakesInLog, OvertakesLeaver, OvertakesReplay
from model.subscriptions.invariant import hash_of
from model.subscriptions.state import Consumption, surely_left
from model.vocabulary import SubscriptionId


def in_order(state: Consumption, subscription: SubscriptionId, name: str, message: Message) -> Allowed[None] | Broken:
    """No earlier entry of the same key or hash had to be delivered first.

    An entry in the replay queue is judged by the rules on that, all others by KEY-02.
    """
    topic, position = state.topics[subscription.topic], message[1].position
    own = topic.log.keys[position]
    if not state.consumers[name].keeps_keys or topic.is_delayed(position):
        return HOLDS
    replays = state.keyed_of(subscription).replays
    before = (one for one in waiting(state, subscription) if one[1].position < position)
    before = (one for one in before if not topic.is_delayed(one[1].position))
    earlier = [one for one in before if replays.get(one[1].position, True)]
    of_hash = [
        one
        for one in earlier
        if hash_of(state, subscription, one[1].position) == hash_of(state, subscription, position)
    ]
    of_key = [one for one in of_hash if own.key is not None and _key(state, one).key == own.key]
    what = f"{name} received the entry at {position} ({_words(own)})"
    by_left = _ahead_of_those_left(state, subscription, name, message, of_key, what)
    by_replay = _ahead_of_replay(state, subscription, name, message, of_hash, what)
    if isinstance(by_left, Broken) or isinstance(by_replay, Broken):
        due = state.due(subscription)
        of_key = [one for one in of_key if due.get(one) not in ("left", "nacked") or one[1].position not in replays]
    return all_of((by_left, by_replay, _ahead_of_the_log(state, subscription, name, message, of_key, what)))


def waiting(state: Consumption, subscription: SubscriptionId) -> list[Message]:
    """The messages that are surely unacknowledged and pending at no consumer, in order."""
    pending = {message for _, consumer in state.consumers_of(subscription) for message in consumer.unacknowledged}
    return [message for message in surely_left(state, subscription) if message not in pending]


@carries("KEY-06")
def _ahead_of_those_left(
    state: Consumption, subscription: SubscriptionId, name: str, message: Message, earlier: Sequence[Message], what: str
) -> Allowed[None] | Broken:
    """Messages of a consumer that left are delivered before later ones of their key, unless they were nacked."""
    first = _first(state, subscription, earlier, ("left",))
    if first is None or _was_nacked(state, subscription, message):
        return HOLDS
    because = f"{what} before {state.words(first)}, which was unacknowledged at a consumer that left"
    return Broken("KEY-06", because, evidence=OvertakesLeaver(state, subscription, name, message, first)).passing_to(
        None
    )


@carries("KEY-09")
def _ahead_of_replay(
    state: Consumption, subscription: SubscriptionId, name: str, message: Message, earlier: Sequence[Message], what: str
) -> Allowed[None] | Broken:
    """A new message is not delivered before messages of its hash in the replay queue."""
    first = _first(state, subscription, earlier, ("nacked", "left"))
    if first is None or message[1].position in state.keyed_of(subscription).got:
        return HOLDS
    because = f"{what} as a new message while {state.words(first)} of its hash was in the replay queue"
    left = _first(state, subscription, earlier, ("left",))
    evidence = OvertakesReplay(state, subscription, name, message, first, left)
    return Broken("KEY-09", because, evidence=evidence).passing_to(None)


@carries("KEY-02")
def _ahead_of_the_log(
    state: Consumption, subscription: SubscriptionId, name: str, message: Message, earlier: Sequence[Message], what: str
) -> Allowed[None] | Broken:
    """Without redelivery requests, messages of a key are delivered in the order of the log."""
    if not earlier or _was_nacked(state, subscription, message):
        return HOLDS
    because = f"{what} before {state.words(earlier[0])} of that key, which is earlier in the log"
    evidence = OvertakesInLog(state, subscription, name, message, earlier[0], earlier)
    return Broken("KEY-02", because, evidence=evidence).passing_to(None)


def exercised_by(state: Consumption, subscription: SubscriptionId, name: str, message: Message) -> tuple[str, ...]:
    """The rules that a message exercises which is delivered in order."""
    keyed, own = state.keyed_of(subscription), _key(state, message)
    if not state.consumers[name].keeps_keys or state.topics[subscription.topic].is_delayed(message[1].position):
        return ()
    why = state.due(subscription).get(message)
    keys = state.log(subscription.topic).keys
    rules = []
    if own.key is not None and any(who != name and keys[at].key == own.key for at, who in keyed.got.items()):
        rules += [] if own.hashed_by in keyed.nacked else ["KEY-02"]
    if why == "left":
        rules.append("KEY-06")
    if why == "nacked":
        rules.append("KEY-08")
    if why in ("left", "nacked") and _has_later_new_message(state, subscription, message):
        rules.append("KEY-09")
    return tuple(rules)


def _has_later_new_message(state: Consumption, subscription: SubscriptionId, message: Message) -> bool:
    """Whether a later message of the same hash was never delivered."""
    got, hashed = state.keyed_of(subscription).got, hash_of(state, subscription, message[1].position)
    later = (other[1].position for other in waiting(state, subscription) if other[1].position > message[1].position)
    return any(position not in got and hash_of(state, subscription, position) == hashed for position in later)


def _first(
    state: Consumption, subscription: SubscriptionId, messages: Sequence[Message], why: tuple[RedeliveryReason, ...]
) -> Message | None:
    """The first of these messages that is in the replay queue for one of these reasons."""
    due, replays = state.due(subscription), state.keyed_of(subscription).replays
    return next((one for one in messages if due.get(one) in why and one[1].position in replays), None)


def _was_nacked(state: Consumption, subscription: SubscriptionId, message: Message) -> bool:
    return _key(state, message).hashed_by in state.keyed_of(subscription).nacked


def _key(state: Consumption, message: Message) -> EntryKey:
    return state.log(message[0]).keys[message[1].position]


def _words(entry_key: EntryKey) -> str:
    return "without a key" if entry_key.key is None else f"of key {entry_key.key}"
