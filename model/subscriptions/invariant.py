"""The invariant of Key_Shared (KEY-01), judged with every message that any consumer is given, in every machine.

Unacknowledged at a consumer is what was delivered to it, is surely not acknowledged, and was not nacked, while the
consumer is connected. Two consumers with unacknowledged messages of one key break the rule in whatever order they
received them, so nothing else needs to be known here.

A batch goes by its own key, which is that of its first message. Messages without a key have none in common, and a
consumer that allows messages out of order gave the promise up.
"""

from __future__ import annotations

from dataclasses import replace

from model.deviations import DEVIATIONS
from model.deviations.key_shared import RECENTLY_JOINED_RECEIVES_REPLAY
from model.judgement import Broken
from model.key_shared.hashing import AUTO_SPLIT_HASHES, CLASSIC_HASHES, STICKY_HASHES, sticky_hash
from model.log import Position
from model.rules.catalogue import carries
from model.subscriptions.consumers import Message
from model.subscriptions.state import Consumption, is_surely_left
from model.vocabulary import SubscriptionId


def key_of(state: Consumption, message: Message) -> str | None:
    """A message's key, that of its entry; None if it has none."""
    found = state.log(message[0]).keys.get(message[1].position)
    return None if found is None else found.key


def hash_of(state: Consumption, subscription: SubscriptionId, position: Position) -> int:
    """The hash of an entry, as a subscription has it: consumers that claim ranges share another space.

    So does the classic implementation, in which hardly any keys share one (that of 3.3.6 is as good as the same).
    """
    within = AUTO_SPLIT_HASHES if state.topics[subscription.topic].drains else CLASSIC_HASHES
    if claims_hashes(state, subscription):
        within = STICKY_HASHES
    return sticky_hash(state.log(subscription.topic).keys[position].hashed_by, within)


def claims_hashes(state: Consumption, subscription: SubscriptionId) -> bool:
    """Whether consumers have ranges for themselves; then no hash moves, so none drains."""
    return any(consumer.claims for _, consumer in state.consumers_of(subscription))


def is_ordered(state: Consumption, subscription: SubscriptionId) -> bool:
    """Whether the consumers of a subscription did not allow messages of a key out of order."""
    return all(consumer.keeps_keys for _, consumer in state.consumers_of(subscription))


@carries("KEY-01")
def divided(state: Consumption, subscription: SubscriptionId, name: str, message: Message) -> Broken | None:
    """A consumer is given a message: no other consumer may have one of its key unacknowledged."""
    if not _keeps_keys(state, name) or (own := key_of(state, message)) is None:
        return None
    for other, consumer in state.consumers_of(subscription):
        if other == name or not _keeps_keys(state, other) or consumer.may_repeat:
            continue
        for held in consumer.unacknowledged:
            is_here = held[0] == subscription.topic and held not in consumer.asked_twice
            if is_here and key_of(state, held) == own and is_surely_left(state, subscription, held):
                what = f"{name} received {state.words(message)} of key {own}"
                because = f"{what} while {state.words(held)} of that key is unacknowledged at {other}"
                if _is_earlier(state, subscription, name, message[1].position):
                    return DEVIATIONS[RECENTLY_JOINED_RECEIVES_REPLAY].broken(because)
                return Broken("KEY-01", because)
    return None


def _is_earlier(state: Consumption, subscription: SubscriptionId, name: str, position: Position) -> bool:
    """Whether a consumer of the classic implementation may have been given what was read before it joined.

    That one looks only at what was read when, not at who has messages of the key.
    """
    joined = state.keyed_of(subscription).joined.get(name)
    return not state.topics[subscription.topic].drains and joined is not None and position <= joined.last


def may_be_replayed_twice(state: Consumption, subscription: SubscriptionId, name: str, message: Message) -> bool:
    """Whether a message may be given to a consumer once more than it should.

    Both reads dispatch it by its hash, so to the consumer that has it. Only with the classic implementation may the
    hash belong to another one meanwhile, which joined since.
    """
    position = message[1].position
    if position not in state.keyed_of(subscription).read_twice and position not in came_beside_news(
        state, subscription
    ):
        return False
    has_moved = not state.topics[subscription.topic].drains and name in state.keyed_of(subscription).joined
    return message in state.consumers[name].unacknowledged or has_moved


def came_beside_news(state: Consumption, subscription: SubscriptionId) -> frozenset[Position]:
    """The entries that were replayed since the last look at which some came, if the broker had new messages as well.

    Then it may have looked for what it is to replay while it was sending still, and have read them once more; what of
    that finds no permits is put aside, and comes when there are some.
    """
    keyed = state.keyed_of(subscription)
    return keyed.came if keyed.last is not None and keyed.last != state.log(subscription.topic).last else frozenset()


def with_delivered(
    state: Consumption, subscription: SubscriptionId, position: Position, *, is_due_again: bool
) -> Consumption:
    """An entry was delivered to a consumer; before the first check for due messages, nothing depends on that.

    Only entries of the replay queue may be read twice: those that were due again, or that were in the log at the last
    check and had not been delivered by then. A newer entry is read once.
    """
    keyed = state.keyed_of(subscription)
    if keyed.last is None or not (is_due_again or position <= keyed.last):
        return state
    return state.with_keyed(subscription, replace(keyed, came=keyed.came | {position}))


def exercised_by(state: Consumption, subscription: SubscriptionId, name: str, message: Message) -> tuple[str, ...]:
    """The invariant is put to the test where a message with a key could have gone to somebody else."""
    if not _keeps_keys(state, name) or key_of(state, message) is None:
        return ()
    return ("KEY-01",) if sum(1 for _ in state.consumers_of(subscription)) > 1 else ()


def excused_by(state: Consumption, subscription: SubscriptionId, name: str, message: Message) -> tuple[str, ...]:
    """The invariant is not judged of a consumer that may be given once more what it asked for again."""
    consumer = state.consumers[name]
    is_let_off = consumer.kind == "Key_Shared" and consumer.keeps_keys and consumer.may_repeat
    has_others = sum(1 for _ in state.consumers_of(subscription)) > 1
    return ("KEY-01",) if is_let_off and has_others and key_of(state, message) is not None else ()


def _keeps_keys(state: Consumption, name: str) -> bool:
    consumer = state.consumers[name]
    return consumer.kind == "Key_Shared" and consumer.keeps_keys and not consumer.may_repeat
