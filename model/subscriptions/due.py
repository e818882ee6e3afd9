"""Judges a Key_Shared subscription after everything due was received: deliveries, missing messages, the stats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from model.events import ConsumerRead, Delivery, DueReceived, Starved
from model.failpoints import RACES, FailpointKind
from model.immutable.map import Map
from model.judgement import Allowed, Broken, in_turn, judges_waits
from model.key_shared import stats
from model.key_shared.hashes import AUTO_SPLIT_HASHES
from model.key_shared.liveness import Receiver, due, owner_of
from model.log import Position
from model.rules.catalogue import carries
from model.subscription_operations import ReceiveDue
from model.subscriptions import claims, deliveries, draining, invariant, membership, order, recently_joined
from model.subscriptions.counts import Starving
from model.subscriptions.entries import open_entries, unsure_hashes
from model.subscriptions.evidence import Undispatched
from model.subscriptions.state import Consumption, messages_at
from model.vocabulary import Outcome, SubscriptionId

Judged = Allowed[Consumption] | Broken

OF_LIVENESS = frozenset({"KEY-04", "KEY-05", "KEY-07", "KEY-08", "KEY-13"})
"""The rules on what must be dispatched."""

OF_DRAINING = ("KEY-03", "KEY-04", "KEY-05", "KEY-07", "KEY-11", "KEY-12", "KEY-13")
"""The rules on draining hashes, which do not apply to the classic implementation."""


def permitted(state: Consumption, name: str) -> Consumption:
    consumer = state.consumers.get(name)
    if consumer is None:
        return state
    consumer = replace(consumer, is_settled=False, had_permits_left=True)
    return membership.permitted(state.with_consumer(name, consumer), name)


@carries("ACK-12", "SERVE-03")
@judges_waits
def starved(state: Consumption, keys: Sequence[SubscriptionId], because: str) -> Broken:
    """The consumers of these subscriptions receive nothing, although messages are due.

    ACK-12 is broken if messages of a consumer that left, or nacked messages, are due to others.
    """
    rule = "ACK-12" if any(state.due(subscription) for subscription in keys) else "SERVE-03"
    here = {name: None for subscription in keys for name, _ in state.consumers_of(subscription)}
    return Broken(rule, because, evidence=Starving(state, tuple(here))).passing_to(state)


def not_dispatched(state: Consumption, subscription: SubscriptionId, outcome: Starved) -> Allowed[None] | Broken:
    """As :func:`starved`, when the subscription was read.

    With several consumers it is only known that messages sent to them did not arrive.
    """
    consumers = dict(state.consumers_of(subscription))
    who = " and ".join(consumers) or "the consumers"  # none is known of a subscription that is not tracked
    missing = starved(state, [subscription], f"{who} of {subscription.name}: {outcome.why}")
    if len(consumers) != 1 or any(one.kind != "Key_Shared" or one.client != "wire" for one in consumers.values()):
        return missing
    (name,) = consumers
    arrived = deliveries.received(state, name, outcome.messages, is_all=False)
    return arrived.then(lambda after: _not_dispatched(after, subscription, name, missing))


def _not_dispatched(
    state: Consumption, subscription: SubscriptionId, name: str, missing: Broken
) -> Allowed[None] | Broken:
    """The only consumer of a subscription is sent nothing more."""
    every, unsure = list(open_entries(state, subscription)), unsure_hashes(state, subscription)
    entries = [entry for entry in every if entry.hashed not in unsure]
    alone = [Receiver(name, len(entries), (AUTO_SPLIT_HASHES,))]
    owed = due(entries, alone, drains=invariant.is_ordered(state, subscription))
    if not owed:
        return Allowed(None, excused=(missing.rule,)) if any(one.holder is None for one in every) else missing
    starving = Starving(state, (name,))
    every_one = Undispatched(state, subscription, entries, alone, owed, frozenset(owed), starving=starving)
    return _missing(every_one, lambda _: missing).then(lambda _: Allowed(None))


@carries("KEY-10")
def received(
    state: Consumption,
    operation: ReceiveDue,
    outcome: Outcome,
    slowed: frozenset[FailpointKind],
) -> Judged:
    """Everything due was received. ``slowed``: the active failpoints of the topic.

    If a message is missing while calls race, it was wrongly added to the pending acks.
    """
    subscription = SubscriptionId(operation.topic, operation.subscription)
    if isinstance(outcome, Starved) and any(state.consumers_of(subscription)):
        return starved(state, [subscription], f"consumers of subscription {subscription.name}: {outcome.why}")
    if (
        not isinstance(outcome, DueReceived)
        or subscription not in state.cursors
        or not state.topics[subscription.topic].is_sure
    ):
        return Allowed(state)
    judged = _gathered(state, subscription, outcome)
    if isinstance(judged, Broken) and RACES & slowed:
        return judged.changed(lambda one: replace(one, rule="KEY-10") if one.rule in OF_LIVENESS else one)
    return judged


def _gathered(state: Consumption, subscription: SubscriptionId, outcome: DueReceived) -> Judged:
    steps: list[Callable[[Consumption], Judged]] = []
    for read in outcome.consumers:
        if read.consumer in state.consumers:
            steps.append(
                partial(deliveries.not_withheld, subscription=subscription, name=read.consumer, messages=read.messages)
            )
            steps.append(partial(_arrived, subscription=subscription, read=read))
    return in_turn(state, steps).then(lambda after: _looked(after, subscription, outcome))


def _looked(state: Consumption, subscription: SubscriptionId, outcome: DueReceived) -> Judged:
    """What is missing is judged, and the stats, after all that arrived."""
    accounted = _accounted(state, subscription, outcome)
    return accounted.then(
        lambda after: deliveries.withheld(after.state, subscription, outcome.withheld).then(
            lambda state: Allowed(_all_seen(state, subscription, outcome, is_stalled=after.is_stalled))
        )
    )


def _all_seen(
    state: Consumption, subscription: SubscriptionId, outcome: DueReceived, *, is_stalled: bool
) -> Consumption:
    """Everything in flight was received. The replay queue from now on is older than any later dispatch.

    Delayed messages may be dispatched at any time from now on.
    ``is_stalled``: due entries are missing, so the broker does not read the replay queue. Nor does it while the
    subscription is blocked. Then no order is judged.
    """
    keyed, is_withheld = state.keyed_of(subscription), outcome.withheld is not None
    is_any_ready = any(read.permits > 0 for read in outcome.consumers)
    left = (place.position for _, place in state.all_left(subscription))
    may_receive_more = any(map(state.topics[subscription.topic].is_not_due, left))
    after = replace(
        keyed,
        is_gathered=not may_receive_more,
        replays=Map(dict.fromkeys(keyed.replays, not (is_stalled or is_withheld))),
        has_left=False,
        may_have_permits=is_any_ready or (is_withheld and keyed.may_have_permits),
    )
    return state.with_keyed(subscription, after)


def _arrived(state: Consumption, subscription: SubscriptionId, read: ConsumerRead) -> Judged:
    name = read.consumer
    before = [None, *(dispatched.position for dispatched in read.messages)]
    steps = [
        partial(
            _arrived_one,
            subscription=subscription,
            name=name,
            dispatched=one,
            is_first=one.position != previous,
        )
        for one, previous in zip(read.messages, before, strict=False)
    ]
    return in_turn(state, [*steps, partial(deliveries.received, name=name, messages=[], is_all=True)])


def _arrived_one(
    state: Consumption,
    subscription: SubscriptionId,
    name: str,
    dispatched: Delivery,
    *,
    is_first: bool,
) -> Judged:
    placed = _placed(state, subscription, name, dispatched, is_first=is_first)
    received = placed.then(lambda _: deliveries.received(state, name, [dispatched], is_all=False))
    return received.then(lambda after: Allowed(_with_delivered(after, subscription, name, dispatched.position)))


def _with_delivered(state: Consumption, subscription: SubscriptionId, name: str, position: Position) -> Consumption:
    return state.with_keyed(subscription, state.keyed_of(subscription).delivered(position, name))


def _placed(
    state: Consumption,
    subscription: SubscriptionId,
    name: str,
    dispatched: Delivery,
    *,
    is_first: bool,
) -> Allowed[None] | Broken:
    """Judges the order of a message. ``is_first``: it is the first of its entry."""
    message = state.place_of(state.consumers[name], dispatched)
    if message is None or dispatched.position not in state.log(subscription.topic).keys:
        return Allowed(None)
    ordered = order.in_order(state, subscription, name, message) if is_first else Allowed(None)
    exercised = () if isinstance(ordered, Broken) else order.exercised_by(state, subscription, name, message)
    if state.topics[subscription.topic].drains:
        moved = _moved(state, subscription, name, dispatched.position)
        return ordered.then(lambda _: Allowed(None, exercised + moved))
    too_soon = recently_joined.too_soon(state, subscription, name, dispatched.position) if is_first else None
    rules = recently_joined.exercised_by(state, subscription, name, dispatched.position)
    return ordered.then(lambda _: too_soon or Allowed(None, exercised + rules))


@carries("KEY-03")
def _moved(state: Consumption, subscription: SubscriptionId, name: str, position: Position) -> tuple[str, ...]:
    """The rules that a delivery exercises if its hash drains, or drained before.

    If a hash is reassigned before it has drained, two consumers have messages of its keys, which KEY-01 judges.
    """
    keyed = state.keyed_of(subscription)
    hashed = invariant.hash_of(state, subscription, position)
    waited_for = keyed.draining.get(hashed)
    if waited_for is None:
        return ("KEY-04", "KEY-13") if keyed.blocked else ()
    if waited_for == name:
        return ("KEY-07",)
    return ("KEY-03", "KEY-05") if hashed in keyed.blocked else ("KEY-03",)


# ------------------------------------------------------------------------------------------- what must be dispatched


@dataclass(frozen=True, slots=True)
class _Accounted:
    """The state after a look was judged. ``is_stalled``: due entries are missing, which a deviation explains."""

    state: Consumption
    is_stalled: bool = False


def _accounted(state: Consumption, subscription: SubscriptionId, outcome: DueReceived) -> Allowed[_Accounted] | Broken:
    """If the stats suffice: nothing that is due is missing, and the stats are right."""
    receivers = stats.receivers_of(outcome)
    if receivers is None:
        return Allowed(_Accounted(state))
    is_classic = not state.topics[subscription.topic].drains
    if any(consumer.client != "wire" for _, consumer in state.consumers_of(subscription)):
        # The receiver queues of other clients are not known.
        return Allowed(_Accounted(state), excused=("KEY-16",) if is_classic else ("KEY-11", "KEY-13"))
    missing = undispatched(state, subscription, outcome, receivers)
    if is_classic:
        return _with_classic(missing).then(lambda is_stalled: Allowed(_Accounted(state, is_stalled)))
    judged = _split(state, subscription, outcome, receivers).then(lambda _: _with_draining(missing))
    if not invariant.is_ordered(state, subscription) or invariant.claims_hashes(state, subscription):
        return judged.then(lambda is_stalled: Allowed(_Accounted(state, is_stalled)))
    return judged.then(
        lambda is_stalled: draining.counted(state, subscription, outcome, receivers).then(
            lambda after: Allowed(_Accounted(after, is_stalled))
        )
    )


def undispatched(
    state: Consumption, subscription: SubscriptionId, outcome: DueReceived, receivers: Sequence[Receiver]
) -> Undispatched:
    """The due entries that a look did not receive. ``state``: after all that it received."""
    every, unsure = list(open_entries(state, subscription)), unsure_hashes(state, subscription)
    topic = state.topics[subscription.topic]
    if not topic.drains:
        owed = recently_joined.owed(state, subscription, every, receivers, unsure)
        return Undispatched(state, subscription, every, receivers, owed, frozenset(owed), outcome)
    entries = [entry for entry in every if entry.hashed not in unsure]
    drains = invariant.is_ordered(state, subscription)
    owed = due(entries, receivers, drains=drains, look_ahead=topic.look_ahead)
    without_permits = [one for one in receivers if one.permits <= 0]
    entries += [one for one in every if one.hashed in unsure and owner_of(one.hashed, without_permits)]
    return Undispatched(state, subscription, entries, receivers, owed, frozenset(owed), outcome)


def _with_draining(missing: Undispatched) -> Allowed[bool] | Broken:
    """Nothing that is due is missing. Returns whether something is, which is explained."""
    if missing.outcome is not None and missing.outcome.withheld is not None:
        # The stats do not separate the replay queue from what was not read yet.
        return Allowed(False, excused=("KEY-13",) if missing.owed else ())
    return _missing(missing, _late_by_rule)


def _with_classic(missing: Undispatched) -> Allowed[bool] | Broken:
    """The same with the classic implementation."""
    if missing.outcome is not None and missing.outcome.withheld is not None:
        return Allowed(False, excused=("KEY-16",) if missing.owed else ())
    is_tested = not missing.owed and any(entry.holder is not None for entry in missing.entries)
    return Allowed(None, ("KEY-16",) if is_tested else ()).then(lambda _: _missing(missing, recently_joined.starved))


@judges_waits
def _missing(missing: Undispatched, rule: Callable[[Undispatched], Broken]) -> Allowed[bool] | Broken:
    """The violation if due entries are missing. Those that a deviation explains may stay so."""
    if not missing.left:
        return Allowed(bool(missing.owed))
    return replace(rule(missing), evidence=missing, passed=lambda part: _missing(missing.without(part), rule))


def _split(
    state: Consumption,
    subscription: SubscriptionId,
    outcome: DueReceived,
    receivers: Sequence[Receiver],
) -> Allowed[None] | Broken:
    """Consumers have the ranges that they claim, or share all hashes. Several consumers exercise this."""
    is_all = len(receivers) == sum(1 for _ in state.consumers_of(subscription))
    if invariant.claims_hashes(state, subscription):
        return claims.shown(state, outcome)
    if not receivers or not is_all:
        return Allowed(None)
    return stats.not_split(receivers) or Allowed(None, ("KEY-12",) if len(receivers) > 1 else ())


@carries("KEY-04", "KEY-05", "KEY-07", "KEY-08", "KEY-13")
def _late_by_rule(missing: Undispatched) -> Broken:
    """A due entry is missing. Which rule that breaks depends on what might have blocked it."""
    state, subscription, keyed = missing.state, missing.subscription, missing.keyed
    log, due_again = state.log(subscription.topic), state.due(subscription)
    position, name = next(iter(missing.open.items()))
    hashed = invariant.hash_of(state, subscription, position)
    reasons = {due_again.get(message) for message in messages_at(subscription.topic, log, position)}
    permits = next(one.permits for one in missing.receivers if one.name == name)
    what = f"{name} has {permits} permits, but does not receive {', '.join(log.entries[position])} at {position}"
    if keyed.draining.get(hashed) == name:
        return Broken("KEY-07", f"{what}; its hash {hashed} was reassigned to this consumer while it drained there")
    if hashed in keyed.draining:
        return Broken("KEY-05", f"{what}; its hash {hashed} has finished draining at {keyed.draining[hashed]}")
    if "nacked" in reasons:
        return Broken("KEY-08", f"{what}, for which a redelivery was requested")
    if "left" in reasons or not keyed.draining:
        return Broken("KEY-13", f"{what}; no message of its hash {hashed} is unacknowledged at a consumer")
    return Broken("KEY-04", f"{what}; its hash {hashed} is not draining, only others are")
