"""The order of messages of one key: no entry is delivered before an earlier one of its key or hash.

Order is judged where all deliveries were received step by step, so that their order is known. An entry is in the replay
queue because its consumer left (KEY-06) or requested its redelivery (KEY-09). New messages are delivered in the order
of the log (KEY-02). A redelivery request lifts the order among the redelivered messages of a key (KEY-08), but new
messages still wait for the replay queue. A delayed message has no place in the order: no document says whether it comes
before or after others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from model.cursors.log import EntryKey
from model.excuses.key_shared import (
    NEW_MESSAGE_OVERTAKES_REPLAY,
    PENDING_ACKS_WITHOUT_HASH,
    PENDING_READ_OUTLIVES_CONSUMERS,
    RECENTLY_JOINED_RECEIVES_REPLAY,
    REPLAY_READ_OVERTAKES_LEAVER,
    UNCLAIMED_MESSAGE_DROPPED,
)
from model.excuses.ways import explained
from model.judgement import HOLDS, Allowed, Broken, all_of
from model.log import Position
from model.rules.catalogue import carries
from model.subscriptions.consumers import Message, RedeliveryReason
from model.subscriptions.invariant import hash_of, were_there
from model.subscriptions.state import Consumption, surely_left
from model.vocabulary import SubscriptionId


def in_order(state: Consumption, subscription: SubscriptionId, name: str, position: Position) -> Allowed[None] | Broken:
    """No earlier entry of the same key or hash had to be delivered first.

    An entry in the replay queue is judged by the rules on that, all others by KEY-02.
    """
    topic = state.topics[subscription.topic]
    own = topic.log.keys[position]
    if not state.consumers[name].keeps_keys or topic.is_delayed(position):
        return HOLDS
    replays = state.keyed_of(subscription).replays
    before = (message for message in waiting(state, subscription) if message[1].position < position)
    before = (message for message in before if not topic.is_delayed(message[1].position))
    earlier = [message for message in before if replays.get(message[1].position, True)]
    of_hash = [
        message
        for message in earlier
        if hash_of(state, subscription, message[1].position) == hash_of(state, subscription, position)
    ]
    of_key = [message for message in of_hash if own.key is not None and _key(state, message).key == own.key]
    what = f"{name} received the entry at {position} ({_words(own)})"
    by_left = _ahead_of_those_left(state, subscription, name, position, of_key, what)
    by_replay = _ahead_of_replay(state, subscription, name, position, of_hash, what)
    if isinstance(by_left, Broken) or isinstance(by_replay, Broken):
        return by_left if isinstance(by_left, Broken) else by_replay
    due = state.due(subscription)
    if by_left.deviations or by_replay.deviations:
        of_key = [one for one in of_key if due.get(one) not in ("left", "nacked") or one[1].position not in replays]
    return all_of((by_left, by_replay, _ahead_of_the_log(state, subscription, name, position, of_key, what)))


def waiting(state: Consumption, subscription: SubscriptionId) -> list[Message]:
    """The messages that are surely unacknowledged and pending at no consumer, in order."""
    pending = {message for _, consumer in state.consumers_of(subscription) for message in consumer.unacknowledged}
    return [message for message in surely_left(state, subscription) if message not in pending]


@carries("KEY-06")
def _ahead_of_those_left(
    state: Consumption,
    subscription: SubscriptionId,
    name: str,
    position: Position,
    earlier: Sequence[Message],
    what: str,
) -> Allowed[None] | Broken:
    """Messages of a consumer that left are delivered before later ones of their key, unless they were nacked.

    Those that one consumer had enter the replay queue together, so no deviation changes their order, unless another
    consumer was sent some of them before it left.
    """
    first = _first(state, subscription, earlier, ("left",))
    if first is None or _was_nacked(state, subscription, position):
        return HOLDS
    because = f"{what} before {state.words(first)}, which was unacknowledged at a consumer that left"
    keyed = state.keyed_of(subscription)
    had = keyed.got.get(position)
    were_together = had is not None and had == keyed.got.get(first[1].position) and not keyed.was_sent_unseen(had)
    causes = _overtaking(state, subscription, name, position, first[1].position, were_together=were_together)
    return explained(Broken("KEY-06", because), causes, None, state.known)


def _overtaking(
    state: Consumption,
    subscription: SubscriptionId,
    name: str,
    position: Position,
    left: Position,
    *,
    were_together: bool = False,
) -> Iterator[str]:
    """The deviations by which an entry is delivered before an earlier one of a consumer that left."""
    if _was_ahead_of_leaver(state, subscription, name, position, left) and not were_together:
        yield RECENTLY_JOINED_RECEIVES_REPLAY
    if _is_passed(state, subscription, name) and not were_together:
        yield PENDING_ACKS_WITHOUT_HASH
    if _may_be_read_for_replay(state, subscription, position, left):
        yield REPLAY_READ_OVERTAKES_LEAVER


def _was_ahead_of_leaver(
    state: Consumption, subscription: SubscriptionId, name: str, position: Position, earlier: Position
) -> bool:
    """Whether a consumer may have been sent an entry before the consumer left that had an earlier one.

    In the classic implementation a consumer that joins may receive both entries if they were read by then, no matter
    which consumer has them. The earlier one was at that consumer when the other one joined, or may have been sent to it
    since.
    """
    keyed = state.keyed_of(subscription)
    joined = keyed.joined.get(name) or keyed.joined_until_leave.get(name)
    if state.topics[subscription.topic].drains or joined is None or keyed.reading_at_leave is None:
        return False
    return position <= min(joined.last, keyed.reading_at_leave) and (
        earlier not in joined.replays or keyed.was_sent_unseen(keyed.got.get(earlier, ""))
    )


def _may_be_read_for_replay(
    state: Consumption, subscription: SubscriptionId, position: Position, earlier: Position
) -> bool:
    """Whether a replay read of an entry may have been pending when the consumer left that had an earlier one, with
    draining hashes.

    The entry was in the log by then, and nothing was delivered since. The replay queue had messages, or got those that
    may have been sent to a consumer that left before.
    """
    keyed = state.keyed_of(subscription)
    had_replays = keyed.has_replays or keyed.is_after_others(keyed.got.get(earlier, ""))
    was_there = had_replays and keyed.reading_at_leave is not None and position <= keyed.reading_at_leave
    return state.topics[subscription.topic].drains and was_there and position not in keyed.got


def _is_passed(state: Consumption, subscription: SubscriptionId, name: str) -> bool:
    """Whether the classic implementation may deliver other messages before those of a consumer that left.

    Those are in the replay queue without their hash. They wait for permits of another consumer, and do not block a read
    that was pending.
    """
    has_others = any(other != name for other, _ in state.consumers_of(subscription))
    return not state.topics[subscription.topic].drains and (
        has_others or state.keyed_of(subscription).reading_at_leave is not None
    )


@carries("KEY-09")
def _ahead_of_replay(
    state: Consumption,
    subscription: SubscriptionId,
    name: str,
    position: Position,
    earlier: Sequence[Message],
    what: str,
) -> Allowed[None] | Broken:
    """A new message is not delivered before messages of its hash in the replay queue.

    A message of a consumer that left is there with its hash, unless a deviation explains the contrary. Then the hash
    of nacked messages does not matter.
    """
    first = _first(state, subscription, earlier, ("nacked", "left"))
    if first is None or position in state.keyed_of(subscription).got:
        return HOLDS
    because = f"{what} as a new message while {state.words(first)} of its hash was in the replay queue"
    causes: list[str] = []
    if (left := _first(state, subscription, earlier, ("left",))) is not None:
        causes += _overtaking(state, subscription, name, position, left[1].position)
    elif _may_be_without_hash(state, subscription, first):
        causes.append(NEW_MESSAGE_OVERTAKES_REPLAY)
    # Whether such a read has the new messages or not, it first of all passes those of the consumer that left.
    rule = "KEY-06" if REPLAY_READ_OVERTAKES_LEAVER in causes else "KEY-09"
    return explained(Broken(rule, because), causes, None, state.known)


def _may_be_without_hash(state: Consumption, subscription: SubscriptionId, nacked: Message) -> bool:
    """Whether the replay queue may not have the hash of a message whose redelivery was requested.

    It has none until the message is read for replay. With draining hashes, that is put off only by earlier messages in
    the queue, which other consumers may have no permits for, or while no consumer has permits.
    """
    keyed = state.keyed_of(subscription)
    had_no_permits = keyed.has_replays and bool(keyed.permits) and not keyed.ready
    if not state.topics[subscription.topic].drains or had_no_permits:
        return True
    is_first = all(
        why != "nacked" or message[1].position >= nacked[1].position for message, why in state.due(subscription).items()
    )
    return not is_first and sum(1 for _ in state.consumers_of(subscription)) > 1


@carries("KEY-02")
def _ahead_of_the_log(
    state: Consumption,
    subscription: SubscriptionId,
    name: str,
    position: Position,
    earlier: Sequence[Message],
    what: str,
) -> Allowed[None] | Broken:
    """Without redelivery requests, messages of a key are delivered in the order of the log.

    pulsar-client may have the earlier one in its queue. Its consumer then has the key, which may be divided.
    """
    if not earlier or _was_nacked(state, subscription, position):
        return HOLDS
    because = f"{what} before {state.words(earlier[0])} of that key, which is earlier in the log"
    keyed = state.keyed_of(subscription)
    unread = all(place.position not in keyed.got for _, place in earlier)
    is_read = keyed.may_be_read_to is not None and position <= keyed.may_be_read_to
    causes = []
    if is_read or (position in keyed.read_ahead and unread):  # its consumer may have left, so that it is replayed
        causes.append(PENDING_READ_OUTLIVES_CONSUMERS)
    if keyed.dropped.issuperset(place.position for _, place in earlier):
        causes.append(UNCLAIMED_MESSAGE_DROPPED)
    others = (consumer for other, consumer in state.consumers_of(subscription) if other != name)
    is_in_queue = any(consumer.client == "official" and consumer.keeps_keys for consumer in others)
    if is_in_queue and were_there(state, subscription, name, position, earlier[0][1].position):
        causes.append(RECENTLY_JOINED_RECEIVES_REPLAY)
    return explained(Broken("KEY-02", because), causes, None, state.known)


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


def _was_nacked(state: Consumption, subscription: SubscriptionId, position: Position) -> bool:
    return state.log(subscription.topic).keys[position].hashed_by in state.keyed_of(subscription).nacked


def _key(state: Consumption, message: Message) -> EntryKey:
    return state.log(message[0]).keys[message[1].position]


def _words(entry_key: EntryKey) -> str:
    return "without a key" if entry_key.key is None else f"of key {entry_key.key}"
