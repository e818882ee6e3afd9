"""The world in which Key_Shared is explored: one subscription, its consumers, and the possible next steps.

:mod:`model.key_shared.dispatcher` is the subscription. This module has the choices that it leaves open. The hashes that
a joining consumer takes, and the consumers that take over from a leaving one, are chosen in every way that consistent
hashing allows. No hash moves between consumers that stay.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import combinations, product

from msgspec import Struct
from msgspec.structs import replace

from model.key_shared import dispatcher
from model.key_shared.dispatcher import DispatchOutcome, KeySharedSubscription, Owners
from model.key_shared.variants import DOCUMENT, KeysVariant

NAMES = "ABCDE"
"""The consumers, in the order in which they join. A consumer that reconnects is another one for the broker."""


class Setup(Struct, frozen=True, kw_only=True):
    """A small configuration: the messages by their keys, and how often each step may happen.

    ``same_hash`` are keys that share one hash. The first consumer has every hash; ``joins`` more may join, and at most
    ``leaves`` may disconnect. Each sends ``permits`` permits, and as many again when they are used. ``backs``
    is how often messages may be nacked. The consumers in ``stuck`` acknowledge nothing. With ``claims``, consumers
    take unassigned hashes, which are unassigned again when they leave, like STICKY ranges; the first has one hash.
    """

    keys: tuple[str, ...]
    same_hash: frozenset[str] = frozenset()
    joins: int = 1
    leaves: int = 0
    permits: int = 2
    backs: int = 0
    stuck: str = ""
    claims: bool = False
    classic_rule: bool = False
    variant: KeysVariant = DOCUMENT

    def hash_of(self, key: str) -> int:
        """The hash of a key; small numbers will do."""
        of_key = {one: min(self.same_hash) if one in self.same_hash else one for one in self.keys}
        return 1 + sorted(set(of_key.values())).index(of_key[key])

    @property
    def hashes(self) -> tuple[int, ...]:
        """The hash of each message."""
        return tuple(self.hash_of(key) for key in self.keys)


class World(Struct, frozen=True, cache_hash=True, gc=False):
    """A state: the subscription, the consumers that may still join, and how often each step may still happen."""

    subscription: KeySharedSubscription
    next_name: int
    joins: int
    leaves: int
    backs: int


class Step(Struct, frozen=True, gc=False):
    """A transition: its kind, its description, and its consumer and message, if any."""

    kind: str
    words: str
    consumer: str = ""
    position: int = -1

    def __str__(self) -> str:
        return self.words


Next = Iterator[tuple[Step, World]]
"""The possible next steps, each with the world after it."""

ASIDE = {
    DispatchOutcome.NO_PERMITS: "no permits",
    DispatchOutcome.BEHIND_REPLAY: "waits for replay",
    DispatchOutcome.DRAINS: "draining",
    DispatchOutcome.RECENT: "joined recently",
    DispatchOutcome.NOBODY: "unassigned",
}
"""The kinds of steps in which a message that was read is added to the replay queue."""

REFUSED = {
    DispatchOutcome.GONE: "gone",
    DispatchOutcome.MOVED: "moved",
    DispatchOutcome.DRAINS: "draining at last",
    DispatchOutcome.BEHIND_REPLAY: "waits for replay at last",
}
"""The kinds of steps in which a chosen message is not sent."""


def kinds(setup: Setup) -> frozenset[str]:
    """The kinds of steps that can happen in this configuration."""
    is_classic = setup.variant.is_classic
    drains = setup.joins > 0 and not is_classic and not setup.claims
    conditional = {
        "joins": setup.joins > 0,
        "leaves": setup.leaves > 0,
        "nacks": setup.backs > 0,
        "no permits": setup.permits < len(setup.keys),
        "draining": drains,
        "unassigned": setup.claims,
        "waits for replay": setup.joins > 0 and not setup.claims and max(Counter(setup.hashes).values()) > 2,
        "joined recently": setup.joins > 0 and is_classic,
        "gone": setup.leaves > 0,
        "moved": drains,
        "waits for replay at last": setup.backs > 0 and not is_classic,
    }
    always = {"chosen", "sent", "rests", "acknowledges", "asks"}
    return frozenset(always | {kind for kind, is_possible in conditional.items() if is_possible})


def initial(setup: Setup) -> World:
    """All messages are stored, and the first consumer has every hash, or has claimed one."""
    subscription = dispatcher.new_subscription(setup.hashes, variant=setup.variant)
    taken = sorted(set(setup.hashes))[: 1 if setup.claims else None]
    owners = tuple((hashed, NAMES[0]) for hashed in taken)
    subscription = dispatcher.join(subscription, NAMES[0], permits=setup.permits, owners=owners)
    return World(subscription, 1, setup.joins, setup.leaves, setup.backs)


def steps(setup: Setup, world: World) -> Next:
    """Every possible next step."""
    yield from dispatches(setup, world)
    yield from consumers(setup, world)
    yield from joins(setup, world)
    yield from leaves(setup, world)
    if world.subscription.leaving:
        registered = dispatcher.register(world.subscription)
        yield Step("registers", "the hashes that moved drain from now on"), replace(world, subscription=registered)


def dispatches(setup: Setup, world: World) -> Next:
    """The broker continues with the chosen message, or chooses another one."""
    sending = world.subscription.sending
    if sending is not None:
        after, outcome = dispatcher.add(world.subscription)
        message = in_words(setup, sending.position)
        if outcome is DispatchOutcome.SENT:
            step = Step("sent", f"{sending.consumer} is sent {message}", sending.consumer, sending.position)
        else:
            words = f"{message} is not sent to {sending.consumer}: {outcome.value}"
            step = Step(REFUSED[outcome], words, sending.consumer, sending.position)
        yield step, replace(world, subscription=after)
    elif world.subscription.awake:
        after, outcome, position = dispatcher.choose(world.subscription)
        if position is None:
            step = Step("rests", "no message can be sent, and the broker waits")
        elif after.sending is not None:
            again = " for replay" if after.sending.replayed else ""
            consumer = after.sending.consumer
            step = Step("chosen", f"{consumer} is chosen for {in_words(setup, position)}{again}", consumer, position)
        else:
            words = f"{in_words(setup, position)} is read and added to the replay queue: {outcome.value}"
            step = Step(ASIDE[outcome], words, "", position)
        yield step, replace(world, subscription=after)


def consumers(setup: Setup, world: World) -> Next:
    """A consumer acknowledges a message, nacks messages, or sends permits."""
    subscription = world.subscription
    for consumer in subscription.consumers:
        name = consumer.name
        if not consumer.permits:
            asked = dispatcher.ask(subscription, name, permits=setup.permits)
            yield Step("asks", f"{name} asks for more", name), replace(world, subscription=asked)
        for position in consumer.pending if name not in setup.stuck else ():
            after = dispatcher.acknowledge(subscription, name, position)
            words = f"{name} acknowledges {in_words(setup, position)}"
            yield Step("acknowledges", words, name, position), replace(world, subscription=after)
        if not world.backs:
            continue
        for position in consumer.pending:
            after = dispatcher.request_redelivery(subscription, name, (position,))
            words = f"{name} nacks {in_words(setup, position)}"
            step = Step("nacks", words, name, position)
            yield step, replace(world, subscription=after, backs=world.backs - 1)


def joins(setup: Setup, world: World) -> Next:
    """A consumer joins, and takes some hashes from others, or unassigned ones."""
    subscription = world.subscription
    if not world.joins:
        return
    name = NAMES[world.next_name]
    hashes = sorted(set(setup.hashes) - ({one for one, _ in subscription.owners} if setup.claims else set()))
    takes_all = not subscription.consumers and not setup.claims
    for number in range(len(hashes) if takes_all else 1, len(hashes) + 1):
        for taken in combinations(hashes, number):
            owners = _with(subscription.owners, dict.fromkeys(taken, name))
            after = dispatcher.join(subscription, name, permits=setup.permits, owners=owners)
            words = f"{name} joins, and takes {hashes_in_words(setup, taken)}"
            yield (
                Step("joins", words, name),
                replace(world, subscription=after, next_name=world.next_name + 1, joins=world.joins - 1),
            )


def leaves(setup: Setup, world: World) -> Next:
    """A consumer disconnects, and each of its hashes moves to any other consumer, or becomes unassigned."""
    subscription = world.subscription
    if not world.leaves:
        return
    for consumer in subscription.consumers:
        name = consumer.name
        others = [other.name for other in subscription.consumers if other is not consumer and not setup.claims]
        given = [hashed for hashed, owner in subscription.owners if owner == name]
        for heirs in product(others, repeat=len(given)) if others else [()]:
            kept = tuple(pair for pair in subscription.owners if pair[1] != name)
            owners = _with(kept, dict(zip(given, heirs, strict=False)))
            after = dispatcher.leave(subscription, name, owners=owners)
            to = sorted(set(heirs))
            words = f"{name} disconnects" + (f", {' and '.join(to)} {_take(to)} over" if to else "")
            yield Step("leaves", words, name), replace(world, subscription=after, leaves=world.leaves - 1)


def _take(names: list[str]) -> str:
    return "takes" if len(names) == 1 else "take"


def _with(owners: Owners, changes: dict[int, str]) -> Owners:
    return tuple(sorted((dict(owners) | changes).items()))


def in_words(setup: Setup, position: int) -> str:
    """A message in words: its number and its key."""
    return f"message {position + 1} ({setup.keys[position]})"


def hashes_in_words(setup: Setup, hashes: tuple[int, ...]) -> str:
    """Hashes in words: by the keys that have them."""
    return " and ".join(key for key in sorted(set(setup.keys)) if setup.hash_of(key) in hashes)


def good_ending(setup: Setup, world: World) -> bool:
    """All messages are acknowledged, except those of a stuck consumer, those that they block, and unassigned ones."""
    subscription = world.subscription
    held = {subscription.hashes[p] for c in subscription.consumers if c.name in setup.stuck for p in c.pending}
    if setup.claims:
        held |= set(setup.hashes) - {hashed for hashed, _ in subscription.owners}
    return all(
        position in subscription.acknowledged or hashed in held for position, hashed in enumerate(subscription.hashes)
    )


def merge(world: World) -> World:
    """The same state without what has no effect: further attempts that a hash blocked, the number of cleared hashes."""
    draining = world.subscription.draining
    entries = tuple((one, replace(entry, blocked=min(entry.blocked, 1))) for one, entry in draining.entries)
    if entries == draining.entries and not draining.cleared:
        return world
    return replace(
        world, subscription=replace(world.subscription, draining=replace(draining, entries=entries, cleared=0))
    )
