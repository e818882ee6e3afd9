"""The reference: the dispatcher of one Key_Shared subscription, as document 004 describes it.

A subscription is a value. Each function takes a subscription and an event, and returns the next subscription. The
caller makes all choices: the assignment of hashes after a join (:mod:`model.key_shared.selectors`), when a dispatched
message is added to the pending acks, and which consumer acknowledges which message.

A dispatch has two steps, so that other events may happen between them. First, :func:`choose` selects the consumer that
owns the hash, unless the hash drains elsewhere or the consumer has no permits. A message that cannot be sent enters the
replay queue. Then :func:`add` adds it to the pending acks and sends it, or returns it to the replay queue.

The replay queue is dispatched before new messages, in order. A message that cannot be sent blocks later ones of its
hash (KEY-06, KEY-09). If nothing can be sent, the dispatcher rests. A join, a leave, a permit, a redelivery request or
a drained hash wakes it.

Where the document is silent, this module chooses what its rules require. Each choice has a variant that shows what
breaks otherwise (:mod:`model.key_shared.variants`):

- A hash drains from the moment at which it is reassigned.
- A message is added to the pending acks only if its hash still belongs to that consumer. Otherwise, or if the consumer
  is gone, it enters the replay queue.
- A hash that moved away and back while a message of it was in flight leaves the draining set when that message is
  added. Otherwise the message would be pending without being counted.

A delayed message is passed over when it is read before its time, and enters the replay queue when its time has come.

Not modelled: the unblocking interval, limits of the replay queue, batches.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from model.key_shared import classic, draining_hashes
from model.key_shared.classic import NOBODY, Recent
from model.key_shared.draining_hashes import NONE_DRAINING, DrainingEffect, DrainingHashes
from model.key_shared.variants import DOCUMENT, KeysVariant
from model.rules.catalogue import carries


class KeySharedConsumer(Struct, frozen=True, cache_hash=True, gc=False):
    """A consumer: its permits, and the positions of its pending acks in the order of dispatch."""

    name: str
    permits: int
    pending: tuple[int, ...] = ()


class PendingDispatch(Struct, frozen=True, gc=False):
    """A message between the two steps: its position, its consumer, and whether it is a replay."""

    position: int
    consumer: str
    replayed: bool


Owners = tuple[tuple[int, str], ...]
"""The owner of each hash, in the order of the hashes; other hashes have none."""


class KeySharedSubscription(Struct, frozen=True, kw_only=True, cache_hash=True, gc=False):
    """One Key_Shared subscription in its broker.

    ``hashes``: those of the topic's messages, by position from 0. ``read``: the read position. ``replay``: the replay
    queue. ``leaving``: hashes that were reassigned and do not drain yet, with their former owners. Only one variant has
    any. ``delayed``: the delayed messages whose time has not come.
    """

    variant: KeysVariant = DOCUMENT
    hashes: tuple[int, ...]
    read: int = 0
    acknowledged: frozenset[int] = frozenset()
    replay: tuple[int, ...] = ()
    delayed: frozenset[int] = frozenset()
    owners: Owners = ()
    consumers: tuple[KeySharedConsumer, ...] = ()
    gone: tuple[KeySharedConsumer, ...] = ()
    draining: DrainingHashes = NONE_DRAINING
    leaving: Owners = ()
    recent: Recent = NOBODY
    sending: PendingDispatch | None = None
    awake: bool = False

    def consumer(self, name: str) -> KeySharedConsumer | None:
        return next((consumer for consumer in self.consumers if consumer.name == name), None)

    def owner(self, hashed: int) -> KeySharedConsumer | None:
        name = next((name for one, name in self.owners if one == hashed), None)
        return None if name is None else self.consumer(name)

    def pending_of(self, hashed: int, consumer: KeySharedConsumer) -> int:
        return sum(self.hashes[position] == hashed for position in consumer.pending)

    @property
    def first_unacknowledged(self) -> int:
        return next((n for n in range(len(self.hashes)) if n not in self.acknowledged), len(self.hashes))


class DispatchOutcome(enum.Enum):
    """The result of an attempt to send a message."""

    CHOSEN = "a consumer is chosen"
    SENT = "it is sent"
    NOBODY = "no consumer owns its hash"
    NO_PERMITS = "its consumer has no permits"
    BEHIND_REPLAY = "the replay queue has others of its hash"
    DRAINS = "its hash drains elsewhere"
    RECENT = "its consumer joined recently"
    GONE = "its consumer is gone"
    MOVED = "its hash was reassigned"
    RESTS = "nothing can be sent"


def new_subscription(hashes: Iterable[int], *, variant: KeysVariant = DOCUMENT) -> KeySharedSubscription:
    """A subscription without consumers, at the beginning of a topic whose messages have these hashes."""
    return KeySharedSubscription(variant=variant, hashes=tuple(hashes))


@carries("KEY-03")
def join(subscription: KeySharedSubscription, name: str, *, permits: int, owners: Owners) -> KeySharedSubscription:
    """A consumer joins, which assigns the hashes to ``owners``. ValueError for a name that is connected.

    Pending messages of a reassigned hash stay at their consumer, and the hash drains (KEY-03).
    """
    if subscription.consumer(name) is not None:
        raise ValueError(f"{name} is connected already")
    after = replace(subscription, consumers=(*subscription.consumers, KeySharedConsumer(name, permits)), awake=True)
    if subscription.variant.is_classic and subscription.consumers and subscription.first_unacknowledged < after.read:
        after = replace(after, recent=classic.joined(after.recent, name, read=after.read))
    return _moved(after, owners)


@carries("KEY-06", "KEY-10", "KEY-13")
def leave(subscription: KeySharedSubscription, name: str, *, owners: Owners) -> KeySharedSubscription:
    """A consumer disconnects, which assigns the hashes to ``owners``. ValueError if it is not connected.

    Its pending messages enter the replay queue (KEY-06) and are no longer counted (KEY-13). After the last consumer
    left, the dispatcher reads from the first unacknowledged message again.
    """
    leaver = subscription.consumer(name)
    if leaver is None:
        raise ValueError(f"{name} is not connected")
    after = replace(
        subscription,
        consumers=tuple(consumer for consumer in subscription.consumers if consumer.name != name),
        awake=True,
    )
    if subscription.variant.is_classic:
        after = replace(after, recent=classic.left(after.recent, name, others=len(after.consumers)))
    for position in leaver.pending:
        if not subscription.variant.leaver_forgotten:
            after = _to_replay(after, position)
        if not subscription.variant.not_counted_down_on_disconnect:
            after = _removed(after, leaver.name, position, closing=True)
    if not after.consumers:
        return replace(
            after,
            read=after.first_unacknowledged,
            replay=(),
            owners=(),
            leaving=(),
            draining=NONE_DRAINING,
            awake=False,
        )
    return _moved(after, owners)


def _moved(subscription: KeySharedSubscription, owners: Owners) -> KeySharedSubscription:
    """The hashes belong to ``owners``. A reassigned hash drains if messages of it are pending at its former owner."""
    before = dict(subscription.owners)
    now = dict(owners)
    moved = tuple((one, had) for one, had in before.items() if now.get(one) != had)
    after = replace(subscription, owners=owners)
    if subscription.variant.is_classic or subscription.variant.no_draining:
        return after
    if subscription.variant.registered_late:
        return replace(after, leaving=tuple(sorted((*subscription.leaving, *moved))))
    return register(replace(after, leaving=moved))


@carries("KEY-03", "KEY-04")
def register(subscription: KeySharedSubscription) -> KeySharedSubscription:
    """Reassigned hashes drain if messages of them are pending, and no others do (KEY-04)."""
    drains = subscription.draining
    for hashed, name in subscription.leaving:
        consumer = subscription.consumer(name)
        pending = 0 if consumer is None else subscription.pending_of(hashed, consumer)
        if pending:
            counted = drains.of(hashed) if subscription.variant.draining_refcount_doubled else None
            pending += 0 if counted is None else counted.pending
            drains = draining_hashes.moved(drains, hashed, consumer=name, pending=pending)
    return replace(subscription, draining=drains, leaving=())


def ask(subscription: KeySharedSubscription, name: str, *, permits: int) -> KeySharedSubscription:
    """The number of a consumer's permits changes."""
    return replace(
        subscription,
        consumers=tuple(replace(c, permits=permits) if c.name == name else c for c in subscription.consumers),
        awake=True,
    )


@carries("KEY-05")
def acknowledge(subscription: KeySharedSubscription, name: str, position: int) -> KeySharedSubscription:
    """A consumer acknowledges a pending message. A hash that has drained wakes the dispatcher (KEY-05)."""
    after = _without_pending(subscription, name, position)
    after = replace(after, acknowledged=after.acknowledged | {position})
    if subscription.variant.is_classic:
        recent = classic.caught_up(after.recent, unacknowledged=after.first_unacknowledged)
        after = replace(after, recent=recent, awake=after.awake or recent != after.recent)
    return _removed(after, name, position)


@carries("KEY-08")
def request_redelivery(
    subscription: KeySharedSubscription, name: str, positions: Iterable[int]
) -> KeySharedSubscription:
    """A consumer requests redelivery: the messages enter the replay queue (KEY-08)."""
    after = subscription
    for position in positions:
        if not subscription.variant.nack_kept:
            after = _without_pending(after, name, position)
        after = _removed(_to_replay(after, position), name, position)
    return replace(after, awake=True)


def time_came(subscription: KeySharedSubscription, position: int) -> KeySharedSubscription:
    """The time of a delayed message has come. If the dispatcher passed it over, it enters the replay queue."""
    after = replace(subscription, delayed=subscription.delayed - {position}, awake=bool(subscription.consumers))
    is_passed_over = bool(after.consumers) and position < after.read and position not in after.acknowledged
    return _to_replay(after, position) if is_passed_over else after


@carries("KEY-02", "KEY-04", "KEY-06", "KEY-09")
def choose(subscription: KeySharedSubscription) -> tuple[KeySharedSubscription, DispatchOutcome, int | None]:
    """The dispatcher is awake and no message is in flight: it looks for a message to send.

    Returns the result and the position of the message. That is the first message of the replay queue that can be sent.
    If there is none, it is the next message read, which enters the replay queue if it cannot be sent.
    """
    looks_ahead = subscription.variant.ahead_of_replay and subscription.read < len(subscription.hashes)
    after, replayed = (subscription, None) if looks_ahead else _choose_replay(subscription)
    if replayed is not None:
        return replace(after, sending=replayed), DispatchOutcome.CHOSEN, replayed.position
    if after.read == len(after.hashes) or not any(consumer.permits for consumer in after.consumers):
        return replace(after, awake=False), DispatchOutcome.RESTS, None
    position = after.read
    after = replace(after, read=position + 1)
    if position in after.acknowledged or position in after.delayed:
        return choose(after)
    after, outcome = _judged(after, position, replayed=False)
    if outcome is not DispatchOutcome.CHOSEN:
        return _to_replay(after, position), outcome, position
    return (
        replace(after, sending=PendingDispatch(position, _name_of_owner(after, position), replayed=False)),
        outcome,
        position,
    )


def _choose_replay(subscription: KeySharedSubscription) -> tuple[KeySharedSubscription, PendingDispatch | None]:
    """The first message of the replay queue that can be sent. One that cannot blocks later ones of its hash."""
    passed_over: set[int] = set()
    order = reversed(subscription.replay) if subscription.variant.replay_reversed else subscription.replay
    for position in order:
        hashed = subscription.hashes[position]
        if hashed in passed_over:
            continue
        subscription, outcome = _judged(subscription, position, replayed=True)
        if outcome is DispatchOutcome.CHOSEN:
            return subscription, PendingDispatch(position, _name_of_owner(subscription, position), replayed=True)
        passed_over.add(hashed)
    return subscription, None


def _judged(
    subscription: KeySharedSubscription, position: int, *, replayed: bool
) -> tuple[KeySharedSubscription, DispatchOutcome]:
    """Whether a message can be sent to the owner of its hash. Draining hashes count this as an attempt."""
    hashed, variant = subscription.hashes[position], subscription.variant
    consumer = subscription.owner(hashed)
    if consumer is None:
        return subscription, DispatchOutcome.NOBODY
    if not consumer.permits:
        return subscription, DispatchOutcome.NO_PERMITS
    if not (replayed or variant.ahead_of_replay) and _waits_for_replay(subscription, hashed):
        return subscription, DispatchOutcome.BEHIND_REPLAY
    if variant.is_classic:
        ever = not variant.classic_by_letter
        may = classic.may_receive(subscription.recent, consumer.name, position, replayed=replayed, ever=ever)
        return subscription, DispatchOutcome.CHOSEN if may else DispatchOutcome.RECENT
    return _offered(subscription, hashed, consumer, replayed=replayed)


def _offered(
    subscription: KeySharedSubscription, hashed: int, consumer: KeySharedConsumer, *, replayed: bool
) -> tuple[KeySharedSubscription, DispatchOutcome]:
    variant = subscription.variant
    if variant.never_blocked or (replayed and variant.replay_not_asked):
        return subscription, DispatchOutcome.CHOSEN
    if variant.range_blocked and subscription.draining.entries:
        return subscription, DispatchOutcome.DRAINS
    asking = "another" if variant.own_blocked else consumer.name
    drains, may = draining_hashes.offered(subscription.draining, hashed, consumer=asking)
    return replace(subscription, draining=drains), DispatchOutcome.CHOSEN if may else DispatchOutcome.DRAINS


@carries("KEY-01", "KEY-09", "KEY-10")
def add(subscription: KeySharedSubscription) -> tuple[KeySharedSubscription, DispatchOutcome]:
    """The message in flight is added to the pending acks and sent, or enters the replay queue (KEY-01, KEY-10).

    It enters the replay queue if its consumer is gone, if its hash was reassigned or drains elsewhere, or if it is new
    and the replay queue now has others of its hash (KEY-09).
    """
    sending = subscription.sending
    if sending is None:
        raise ValueError("no message is in flight")
    after, outcome = _checked(replace(subscription, sending=None), sending)
    if outcome is DispatchOutcome.SENT:
        consumers = tuple(
            replace(c, permits=c.permits - 1, pending=(*c.pending, sending.position))
            if c.name == sending.consumer
            else c
            for c in after.consumers
        )
        return replace(_without_replay(after, sending.position), consumers=consumers), outcome
    if outcome is DispatchOutcome.GONE and subscription.variant.closed_dropped:
        return _without_replay(after, sending.position), outcome
    if outcome is DispatchOutcome.GONE and subscription.variant.closed_given:
        gone = KeySharedConsumer(sending.consumer, 0, (sending.position,))
        return replace(_without_replay(after, sending.position), gone=(*after.gone, gone)), DispatchOutcome.SENT
    return replace(_to_replay(after, sending.position), awake=True), outcome


def _checked(
    subscription: KeySharedSubscription, sending: PendingDispatch
) -> tuple[KeySharedSubscription, DispatchOutcome]:
    """Whether a message may still be sent to its chosen consumer, and why not."""
    hashed, variant = subscription.hashes[sending.position], subscription.variant
    consumer = subscription.consumer(sending.consumer)
    if consumer is None:
        return subscription, DispatchOutcome.GONE
    if variant.is_classic:
        return subscription, DispatchOutcome.SENT
    if not variant.moved_not_noticed and subscription.owner(hashed) != consumer:
        return subscription, DispatchOutcome.MOVED
    if not (sending.replayed or variant.replay_not_noticed or variant.ahead_of_replay) and _waits_for_replay(
        subscription, hashed
    ):
        return subscription, DispatchOutcome.BEHIND_REPLAY
    if variant.back_not_noticed and _drains_at(subscription, hashed, consumer):
        return subscription, DispatchOutcome.SENT
    after, outcome = _offered(subscription, hashed, consumer, replayed=sending.replayed)
    return after, DispatchOutcome.SENT if outcome is DispatchOutcome.CHOSEN else outcome


def _drains_at(subscription: KeySharedSubscription, hashed: int, consumer: KeySharedConsumer) -> bool:
    entry = subscription.draining.of(hashed)
    return entry is not None and entry.consumer == consumer.name


def _name_of_owner(subscription: KeySharedSubscription, position: int) -> str:
    return dict(subscription.owners)[subscription.hashes[position]]


def _waits_for_replay(subscription: KeySharedSubscription, hashed: int) -> bool:
    return any(subscription.hashes[position] == hashed for position in subscription.replay)


def _to_replay(subscription: KeySharedSubscription, position: int) -> KeySharedSubscription:
    """A message enters the replay queue, unless it is still to be read."""
    if position >= subscription.read:
        return subscription
    return replace(subscription, replay=tuple(sorted({*subscription.replay, position})))


def _without_replay(subscription: KeySharedSubscription, position: int) -> KeySharedSubscription:
    return replace(subscription, replay=tuple(one for one in subscription.replay if one != position))


def _without_pending(subscription: KeySharedSubscription, name: str, position: int) -> KeySharedSubscription:
    """The subscription without this pending message; ValueError if it is not pending there."""
    consumer = subscription.consumer(name)
    if consumer is None or position not in consumer.pending:
        raise ValueError(f"message {position} is not pending at {name}")
    left = replace(consumer, pending=tuple(one for one in consumer.pending if one != position))
    return replace(subscription, consumers=tuple(left if c.name == name else c for c in subscription.consumers))


def _removed(
    subscription: KeySharedSubscription, name: str, position: int, *, closing: bool = False
) -> KeySharedSubscription:
    """A draining hash no longer counts this pending message. If it has drained, the dispatcher retries blocked ones."""
    variant = subscription.variant
    drains, hashed, woken = subscription.draining, subscription.hashes[position], False
    for _ in range(2 if variant.counted_down_twice and not closing else 1):
        drains, effect = draining_hashes.removed(drains, hashed, consumer=name, closing=closing)
        woken = woken or (effect is DrainingEffect.UNBLOCK and not variant.never_unblocked)
    return replace(subscription, draining=drains, awake=subscription.awake or woken)
