"""The invariant of Key_Shared (KEY-01), judged on every delivery of every machine.

A message is pending at a consumer if it was delivered, is surely unacknowledged, was not nacked, and the consumer is
connected. Two consumers with pending messages of one key break the rule, in any order of delivery.

A batch has the key of its first message. Messages without a key have no key in common. The rule does not hold for a
consumer that allows out-of-order delivery.
"""

from __future__ import annotations

from collections.abc import Iterator

from model.judgement import HOLDS, Allowed, Broken, all_of
from model.key_shared.hashes import AUTO_SPLIT_HASHES, CLASSIC_HASHES, NO_KEY, STICKY_HASHES, sticky_hash
from model.log import Position
from model.rules.catalogue import carries
from model.subscriptions.consumers import Message
from model.subscriptions.evidence import Divided
from model.subscriptions.state import Consumption, is_surely_left
from model.vocabulary import HashRange, SubscriptionId


def key_of(state: Consumption, message: Message) -> str | None:
    """The key of a message's entry; None if it has none."""
    found = state.log(message[0]).keys.get(message[1].position)
    return None if found is None else found.key


def hash_of(state: Consumption, subscription: SubscriptionId, position: Position) -> int:
    """The hash of an entry at a subscription."""
    return sticky_hash(state.log(subscription.topic).keys[position].hashed_by, _hashes_of(state, subscription))


def hash_before_4(state: Consumption, subscription: SubscriptionId, position: Position) -> int:
    """The same on releases before 4.0, which hash all entries without a key alike."""
    found = state.log(subscription.topic).keys[position]
    hashed_by = NO_KEY if found.key is None else found.hashed_by
    return sticky_hash(hashed_by, _hashes_of(state, subscription))


def _hashes_of(state: Consumption, subscription: SubscriptionId) -> HashRange:
    """The hashes of a subscription. Consumers that claim ranges use another range of hashes.

    So does the classic implementation, in which hardly any two keys share a hash. That of 3.3.6 differs little.
    """
    if claims_hashes(state, subscription):
        return STICKY_HASHES
    return AUTO_SPLIT_HASHES if state.topics[subscription.topic].drains else CLASSIC_HASHES


def claims_hashes(state: Consumption, subscription: SubscriptionId) -> bool:
    """Whether consumers claim ranges. Then no hash is reassigned, so none drains."""
    return any(consumer.claims for _, consumer in state.consumers_of(subscription))


def is_ordered(state: Consumption, subscription: SubscriptionId) -> bool:
    """Whether no consumer of a subscription allows out-of-order delivery."""
    return all(consumer.keeps_keys for _, consumer in state.consumers_of(subscription))


@carries("KEY-01")
def divided(
    state: Consumption, subscription: SubscriptionId, name: str, message: Message, *, is_again: bool = False
) -> Allowed[None] | Broken:
    """When a message is delivered, no message of its key is pending at another consumer.

    ``is_again``: it is known that another consumer may have this message itself.
    """
    if not _keeps_keys(state, name) or (own := key_of(state, message)) is None:
        return HOLDS
    return all_of(_divided(state, subscription, name, message, own, is_again=is_again))


def _divided(
    state: Consumption, subscription: SubscriptionId, name: str, message: Message, own: str, *, is_again: bool
) -> Iterator[Allowed[None] | Broken]:
    for other, consumer in state.consumers_of(subscription):
        if other == name or not _keeps_keys(state, other) or consumer.may_repeat:
            continue
        for pending in consumer.unacknowledged:
            is_here = pending[0] == subscription.topic and pending not in consumer.requested_twice
            is_here &= not (is_again and pending == message)
            if is_here and key_of(state, pending) == own and is_surely_left(state, subscription, pending):
                what = f"{name} received {state.words(message)} of key {own}"
                because = f"{what} while {state.words(pending)} of that key is unacknowledged at {other}"
                evidence = Divided(state, subscription, name, message, other, pending[1].position)
                yield Broken("KEY-01", because, evidence=evidence).passing_to(None)


def is_unclaimed(state: Consumption, subscription: SubscriptionId, name: str, position: Position) -> bool:
    """Whether a consumer claims hash ranges, and that of an entry is in none of them."""
    claims, hashed = state.consumers[name].claims, hash_of(state, subscription, position)
    return bool(claims) and not any(hashed in claim for claim in claims)


def exercised_by(state: Consumption, subscription: SubscriptionId, name: str, message: Message) -> tuple[str, ...]:
    """A message with a key exercises the invariant if there is another consumer."""
    if not _keeps_keys(state, name) or key_of(state, message) is None:
        return ()
    return ("KEY-01",) if sum(1 for _ in state.consumers_of(subscription)) > 1 else ()


def excused_by(state: Consumption, subscription: SubscriptionId, name: str, message: Message) -> tuple[str, ...]:
    """The invariant is not judged for a consumer that may receive a message twice after its redelivery request."""
    consumer = state.consumers[name]
    is_exempt = consumer.kind == "Key_Shared" and consumer.keeps_keys and consumer.may_repeat
    has_others = sum(1 for _ in state.consumers_of(subscription)) > 1
    return ("KEY-01",) if is_exempt and has_others and key_of(state, message) is not None else ()


def _keeps_keys(state: Consumption, name: str) -> bool:
    consumer = state.consumers[name]
    return consumer.kind == "Key_Shared" and consumer.keeps_keys and not consumer.may_repeat
