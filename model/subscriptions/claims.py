"""STICKY consumers of a Key_Shared subscription (KEY-15): the hash ranges that they claim, and what they receive.

A message is not dispatched until a consumer claims its hash. :mod:`model.key_shared.liveness` judges that messages of
claimed hashes are dispatched. Releases with draining hashes hash a message without a key by its producer and sequence
id. The classic implementation has one hash for all of them, so they are not judged there. Consumers with different
policies belong to KEY-17.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from model.events import DueReceived
from model.judgement import HOLDS, Allowed, Broken, all_of
from model.key_shared.hashes import STICKY_HASHES
from model.key_shared.ranges import Assigned, joined_up
from model.key_shared.selectors import RangesRefused, claimed
from model.rules.catalogue import carries
from model.subscriptions.consumers import Consumer, Message
from model.subscriptions.evidence import OwnOverlap, RangesShown, Unclaimed
from model.subscriptions.invariant import hash_of, is_unclaimed, key_of
from model.subscriptions.state import Consumption
from model.vocabulary import HashRange, SubscriptionId


def claims_of(ranges: Iterable[tuple[int, int]]) -> tuple[HashRange, ...]:
    return tuple(sorted(HashRange(first, last) for first, last in ranges))


@carries("KEY-15")
def overlapping(claims: Sequence[HashRange], others: Mapping[str, Consumer], name: str) -> Broken | None:
    """The violation if a consumer with these claims is let in: they overlap another consumer's, or each other."""
    if not claims:
        return None
    taken = tuple(Assigned(own, other) for other, one in others.items() for own in one.claims)
    try:
        for claim in claims:
            claimed(taken, name, (claim,))
    except RangesRefused as refused:
        return Broken("KEY-15", f"{name} is let in, although {refused}")
    try:
        claimed((), name, tuple(claims))
    except RangesRefused as refused:
        return Broken("KEY-15", f"{name} is let in, although {refused}", evidence=OwnOverlap()).passing_to(None)
    return None


@carries("KEY-15")
def not_claimed(
    state: Consumption, subscription: SubscriptionId, name: str, message: Message
) -> Allowed[None] | Broken:
    """The hash of a delivered message must be in a range that its consumer claims."""
    claims, position = state.consumers[name].claims, message[1].position
    if not claims or not _has_hash(state, subscription, message):
        return HOLDS
    if not is_unclaimed(state, subscription, name, position):
        return HOLDS
    hashed = hash_of(state, subscription, position)
    because = f"{name}, which claims {_words(claims)}, received {state.words(message)} of hash {hashed}"
    return Broken("KEY-15", because, evidence=Unclaimed(state, subscription, name, message)).passing_to(None)


@carries("KEY-15")
def shown(state: Consumption, outcome: DueReceived) -> Allowed[None] | Broken:
    """The stats show the ranges that the consumers claim."""
    return all_of(_shown(state, outcome))


def _shown(state: Consumption, outcome: DueReceived) -> Iterator[Broken]:
    for read in outcome.consumers:
        consumer = state.consumers.get(read.consumer)
        if consumer is None or read.ranges is None or _joined_up(read.ranges) == _joined_up(consumer.claims):
            continue
        because = f"{read.consumer} claims {_words(consumer.claims)}, but the stats show {_words(read.ranges)}"
        yield Broken("KEY-15", because, evidence=RangesShown(read.consumer, read.ranges)).passing_to(None)


def bounds(state: Consumption, subscription: SubscriptionId) -> Iterator[tuple[int, str]]:
    """The bounds of all claims, with their consumers."""
    for name, consumer in state.consumers_of(subscription):
        for claim in consumer.claims:
            yield from ((claim.first, name), (claim.last, name))


def exercised_by(state: Consumption, subscription: SubscriptionId, name: str, message: Message) -> tuple[str, ...]:
    """A message exercises the rule if its consumer does not claim all hashes."""
    claims = state.consumers[name].claims
    has_all = sum(map(len, claims)) >= len(STICKY_HASHES)
    return ("KEY-15",) if claims and not has_all and _has_hash(state, subscription, message) else ()


def _has_hash(state: Consumption, subscription: SubscriptionId, message: Message) -> bool:
    return state.topics[subscription.topic].drains or key_of(state, message) is not None


def _joined_up(ranges: Iterable[HashRange]) -> list[HashRange]:
    return [one.hashes for one in joined_up(Assigned(own, "") for own in sorted(ranges))]


def _words(claims: Iterable[HashRange]) -> str:
    return ", ".join(map(str, claims)) or "no hash"
