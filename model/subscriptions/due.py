"""Key_Shared, judged when everything due was received: deliveries, what was due, the broker's stats."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from immutables import Map

from model.deviations import preferred, requires
from model.events import ConsumerRead, Delivery, DueReceived, Starved
from model.failpoints import RACES, FailpointKind
from model.judgement import Allowed, Broken, in_turn
from model.key_shared import stalls, stats
from model.key_shared.hashing import AUTO_SPLIT_HASHES
from model.key_shared.liveness import Open, Receiver, draining, due
from model.key_shared.stalls import Look
from model.key_shared.state import Keyed
from model.log import Position
from model.rules.catalogue import carries
from model.subscription_operations import ReceiveDue
from model.subscriptions import claims, deliveries, invariant, membership, order, recently_joined
from model.subscriptions.state import Consumption, messages_at, surely_left
from model.vocabulary import Outcome, SubscriptionId

Judged = Allowed[Consumption] | Broken

OF_LIVENESS = frozenset({"KEY-04", "KEY-05", "KEY-07", "KEY-08", "KEY-13"})
"""The rules that say what must come."""

OF_DRAINING = ("KEY-03", "KEY-04", "KEY-05", "KEY-07", "KEY-11", "KEY-12", "KEY-13")
"""The rules that say something of draining hashes, and nothing of the classic implementation."""


def permitted(state: Consumption, name: str) -> Consumption:
    """A consumer sent more permits."""
    consumer = state.consumers.get(name)
    if consumer is None:
        return state
    return membership.woken(state.with_consumer(name, replace(consumer, is_settled=False)), name, permits=True)


@carries("ACK-12", "SERVE-03")
def starved(state: Consumption, keys: Sequence[SubscriptionId], because: str) -> Broken:
    """Nothing comes to consumers of these subscriptions, although the broker has something for them.

    Where messages of a consumer that left or failed are to go to others, that is what does not happen.
    """
    return Broken("ACK-12" if any(state.due(subscription) for subscription in keys) else "SERVE-03", because)


def not_dispatched(
    state: Consumption, subscription: SubscriptionId, outcome: Starved, known: frozenset[str]
) -> Allowed[None] | Broken:
    """As :func:`starved`, when the subscription was read; a deviation may stall one that is Key_Shared.

    Where several consumers are there, it is only known that what was sent to them did not arrive.
    """
    consumers = dict(state.consumers_of(subscription))
    missing = starved(state, [subscription], f"{' and '.join(consumers)} of {subscription.name}: {outcome.why}")
    if len(consumers) != 1 or any(one.kind != "Key_Shared" or one.client != "wire" for one in consumers.values()):
        return missing
    (name,) = consumers
    arrived = deliveries.received(state, name, outcome.messages, is_all=False, known=known)
    if isinstance(arrived, Broken):
        return arrived
    state = arrived.state
    keyed, unsure = state.keyed_of(subscription), _unsure_hashes(state, subscription)
    entries = [entry for entry in _open(state, subscription) if entry.hashed not in unsure | keyed.on_top]
    alone = [Receiver(name, len(entries), (AUTO_SPLIT_HASHES,))]
    owed = due(entries, alone, drains=invariant.is_ordered(state, subscription))
    if not owed and any(entry.holder is None for entry in _open(state, subscription)):
        return Allowed(None, excused=(missing.rule,))
    look = replace(_look(state, subscription, entries, alone), is_passed_over=keyed.is_woken or keyed.is_skip_kept)
    stalled = stalls.explained(keyed, owed, look)
    if not owed or any(position not in stalled for position in owed):
        return missing
    return requires(preferred(stalled.values(), known), None, known, missing.because)


@carries("KEY-10")
def received(
    state: Consumption,
    operation: ReceiveDue,
    outcome: Outcome,
    known: frozenset[str],
    slowed: frozenset[FailpointKind],
) -> Judged:
    """Everything due was received; ``slowed``: the failpoints of the topic that are on.

    What is not delivered while calls race one another was added to the pending acks where it must not be.
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
    judged = _gathered(state, subscription, outcome, known)
    if isinstance(judged, Broken) and judged.deviation is None and judged.rule in OF_LIVENESS and RACES & slowed:
        return replace(judged, rule="KEY-10")
    return judged


def _gathered(state: Consumption, subscription: SubscriptionId, outcome: DueReceived, known: frozenset[str]) -> Judged:
    steps: list[Callable[[Consumption], Judged]] = []
    for read in outcome.consumers:
        if read.consumer in state.consumers:
            steps.append(
                partial(deliveries.not_withheld, subscription=subscription, name=read.consumer, messages=read.messages)
            )
            steps.append(partial(_arrived, subscription=subscription, read=read, known=known))
    arrived = in_turn(state, steps)
    if isinstance(arrived, Broken):
        return arrived
    accounted = _accounted(arrived.state, subscription, outcome, known)
    if isinstance(accounted, Broken):
        return accounted
    withheld = deliveries.withheld(accounted.state, subscription, outcome.withheld)
    if isinstance(withheld, Broken):
        return withheld
    has_come = any(read.messages for read in outcome.consumers)
    is_stalled = bool(accounted.deviations) or outcome.withheld is not None
    state = _all_seen(withheld.state, subscription, outcome, has_come=has_come, is_stalled=is_stalled)
    return withheld.of(state).after(arrived, accounted)


def _all_seen(
    state: Consumption, subscription: SubscriptionId, outcome: DueReceived, *, has_come: bool, is_stalled: bool
) -> Consumption:
    """All is gathered that was on its way: what waits for replay from now on was there before anything that comes.

    ``is_stalled``: by a known deviation nobody looks at what waits for replay, or the subscription is blocked; nothing
    is said on what comes before it.
    """
    keyed, is_withheld = state.keyed_of(subscription), outcome.withheld is not None
    ready = [read.consumer for read in outcome.consumers if read.permits > 0]
    after = replace(
        keyed,
        is_gathered=True,
        replays=Map(dict.fromkeys(keyed.replays, not is_stalled)),
        may_be_read=keyed.may_be_read and not has_come,
        has_left=False,
        left_reading=keyed.left_reading if not has_come else None,
        has_replays=bool(outcome.in_replay),
        came=frozenset(),
        read_twice=_still_read_twice(state, subscription, outcome) | invariant.came_beside_news(state, subscription),
        last=state.log(subscription.topic).last if has_come or keyed.last is None else keyed.last,
        read_to=state.log(subscription.topic).last if outcome.is_waiting else keyed.read_to,
        is_woken=is_withheld and keyed.is_woken,
        is_permitted=is_withheld and keyed.is_permitted,
        ready=frozenset(ready) if outcome.in_replay else frozenset(),
        is_skip_kept=keyed.is_skip_kept and not ready,
        ranges=Map({read.consumer: read.ranges for read in outcome.consumers if read.ranges is not None}),
    )
    return state.with_keyed(subscription, after)


def _still_read_twice(state: Consumption, subscription: SubscriptionId, outcome: DueReceived) -> frozenset[Position]:
    """What was replayed twice and has come once: the second time is yet to come only if it finds no permits."""
    keyed = state.keyed_of(subscription)
    without_permits = {read.consumer for read in outcome.consumers if read.permits <= 0}
    return frozenset(at for at in keyed.read_twice - keyed.came if at in keyed.got and keyed.got[at] in without_permits)


def _arrived(state: Consumption, subscription: SubscriptionId, read: ConsumerRead, known: frozenset[str]) -> Judged:
    """A consumer was given messages, in this order."""
    name = read.consumer
    before = [None, *(dispatched.position for dispatched in read.messages)]
    steps = [
        partial(
            _arrived_one,
            subscription=subscription,
            name=name,
            dispatched=one,
            known=known,
            is_first=one.position != previous,
        )
        for one, previous in zip(read.messages, before, strict=False)
    ]
    return in_turn(state, [*steps, partial(deliveries.received, name=name, messages=[], is_all=True, known=known)])


def _arrived_one(
    state: Consumption,
    subscription: SubscriptionId,
    name: str,
    dispatched: Delivery,
    known: frozenset[str],
    *,
    is_first: bool,
) -> Judged:
    placed = _placed(state, subscription, name, dispatched, known, is_first=is_first)
    if isinstance(placed, Broken):
        return placed
    judged = deliveries.received(state, name, [dispatched], is_all=False, known=known)
    return (
        judged
        if isinstance(judged, Broken)
        else judged.of(_got(judged.state, subscription, name, dispatched)).after(placed)
    )


def _placed(
    state: Consumption,
    subscription: SubscriptionId,
    name: str,
    dispatched: Delivery,
    known: frozenset[str],
    *,
    is_first: bool,
) -> Allowed[None] | Broken:
    """Whether a message comes in its order, and what that puts to the test; ``is_first``: of its entry."""
    message = state.place_of(state.consumers[name], dispatched)
    if message is None or dispatched.position not in state.log(subscription.topic).keys:
        return Allowed(None)
    broken = order.out_of_order(state, subscription, name, dispatched.position) if is_first else None
    if broken is not None and broken.deviation in known:
        return Allowed(None, (), (str(broken.deviation),))
    exercised = order.exercised_by(state, subscription, name, message)
    if state.topics[subscription.topic].drains:
        return broken or Allowed(None, exercised + _moved(state, subscription, name, dispatched.position))
    if broken is None and is_first:
        broken = recently_joined.too_soon(state, subscription, name, dispatched.position)
    rules = recently_joined.exercised_by(state, subscription, name, dispatched.position)
    return broken or Allowed(None, exercised + rules)


@carries("KEY-03")
def _moved(state: Consumption, subscription: SubscriptionId, name: str, position: Position) -> tuple[str, ...]:
    """The rules that are put to the test where a hash had drained, or drains, and something of it is delivered.

    That it had drained when it moved needs no judgement of its own: otherwise two consumers have messages of its keys
    (KEY-01).
    """
    keyed = state.keyed_of(subscription)
    hashed = invariant.hash_of(state, subscription, position)
    waited_for = keyed.draining.get(hashed)
    if waited_for is None:
        return ("KEY-04", "KEY-13") if keyed.held_up else ()
    if waited_for == name:
        return ("KEY-07",)
    return ("KEY-03", "KEY-05") if hashed in keyed.held_up else ("KEY-03",)


def _got(state: Consumption, subscription: SubscriptionId, name: str, dispatched: Delivery) -> Consumption:
    keyed = state.keyed_of(subscription)
    position = dispatched.position
    replays = keyed.replays.delete(position) if position in keyed.replays else keyed.replays
    return state.with_keyed(subscription, replace(keyed, got=keyed.got.set(position, name), replays=replays))


# ------------------------------------------------------------------------------------------------- what must have come


def _accounted(state: Consumption, subscription: SubscriptionId, outcome: DueReceived, known: frozenset[str]) -> Judged:
    """The broker's account, where it says enough: nothing is left that must have come, and its stats are right."""
    receivers = receivers_of(outcome)
    if receivers is None:
        return Allowed(state)
    is_classic = not state.topics[subscription.topic].drains
    if any(consumer.client != "wire" for _, consumer in state.consumers_of(subscription)):
        # What waits in the queues of other clients is not known.
        return Allowed(state, excused=("KEY-16",) if is_classic else ("KEY-11", "KEY-13"))
    if is_classic:
        return _with_classic(state, subscription, outcome, receivers, known)
    split = _split(state, subscription, outcome, receivers)
    if isinstance(split, Broken):
        return split
    unsure = _unsure_hashes(state, subscription)
    keyed, entries = (
        state.keyed_of(subscription),
        [entry for entry in _open(state, subscription) if entry.hashed not in unsure],
    )
    is_ordered = invariant.is_ordered(state, subscription)
    owed = due(entries, receivers, drains=is_ordered, look_ahead=state.topics[subscription.topic].look_ahead)
    owed = {at: name for at, name in owed.items() if invariant.hash_of(state, subscription, at) not in keyed.on_top}
    late = Allowed(keyed.stalled, excused=("KEY-13",) if owed else ())
    if outcome.withheld is None:  # else what is to be redelivered is not told from what was not read yet
        look = replace(
            _look(state, subscription, entries, receivers),
            is_passed_over=_may_be_passed_over(state, subscription, outcome, owed),
            has_come=any(read.messages for read in outcome.consumers),
        )
        judged = _late(state, subscription, owed, look, known)
        if isinstance(judged, Broken):
            return judged
        late, keyed = judged, replace(keyed, unread=(), stalled=judged.state)
    if not is_ordered or invariant.claims_hashes(state, subscription):
        return Allowed(state.with_keyed(subscription, keyed)).after(split, late)
    counted = _counted(keyed, outcome, entries, receivers, unsure, known)
    if isinstance(counted, Broken):
        return counted
    return counted.of(state.with_keyed(subscription, counted.state)).after(split, late)


def _look(
    state: Consumption, subscription: SubscriptionId, entries: Sequence[Open], receivers: Sequence[Receiver]
) -> Look:
    """A look at which nothing came."""
    failed = frozenset(message[1].position for message, why in state.due(subscription).items() if why == "failed")
    is_ordered = invariant.is_ordered(state, subscription)
    return Look(
        entries,
        receivers,
        without_hash=failed if is_ordered else frozenset(entry.position for entry in entries),
        passed=frozenset(
            invariant.hash_of(state, subscription, position) for position in state.keyed_of(subscription).passed
        ),
        is_passed_over=False,
        has_come=False,
    )


def _with_classic(
    state: Consumption,
    subscription: SubscriptionId,
    outcome: DueReceived,
    receivers: Sequence[Receiver],
    known: frozenset[str],
) -> Judged:
    """The classic implementation's account: nothing is left that must have come."""
    entries = list(_open(state, subscription))
    owed = recently_joined.owed(state, subscription, entries, receivers, _unsure_hashes(state, subscription))
    if outcome.withheld is not None:  # what is to be redelivered is not told from what was not read yet
        return Allowed(state, excused=("KEY-16",) if owed else ())
    starved = recently_joined.starved(state, subscription, owed, receivers)
    if starved is not None:
        return Allowed(state, (), (starved.deviation,)) if starved.deviation in known else starved
    is_tested = any(entry.holder is not None for entry in entries)
    return Allowed(state, ("KEY-16",) if is_tested else ())


def _late(
    state: Consumption,
    subscription: SubscriptionId,
    owed: Mapping[Position, str],
    look: Look,
    known: frozenset[str],
) -> Allowed[Map[Position, str]] | Broken:
    """Nothing is left that must have come, but for what a release is known to leave, each entry by a deviation."""
    stalled = stalls.explained(state.keyed_of(subscription), owed, look)
    unexplained = {at: name for at, name in owed.items() if at not in stalled}
    if unexplained:
        return _late_by_rule(state, subscription, unexplained, look.receivers)
    judged = Allowed(stalled)
    for deviation in dict.fromkeys(stalled[at] for at in owed):
        held_up = {at: name for at, name in owed.items() if stalled[at] == deviation}
        because = _late_by_rule(state, subscription, held_up, look.receivers).because
        required = requires(deviation, stalled, known, because)
        if isinstance(required, Broken):
            return required
        judged = required.after(judged)
    return judged


def _may_be_passed_over(
    state: Consumption, subscription: SubscriptionId, outcome: DueReceived, owed: Mapping[Position, str]
) -> bool:
    """Whether a look ahead may have passed over what is owed.

    Then the broker waits for a new entry, and everything owed is in the replay queue. Either it read a new entry, and
    had another reason to read that queue; or it set its flag to skip a replay, the last consumer with permits left
    before the read that clears the flag, and the next permit triggered a read that skipped the replay.
    """
    keyed = state.keyed_of(subscription)
    has_read_news = keyed.read_to != state.log(subscription.topic).last
    is_skip_kept = keyed.is_skip_kept and not any(read.messages for read in outcome.consumers)
    is_skipped = (keyed.is_woken and has_read_news) or (is_skip_kept and keyed.is_permitted)
    return is_skipped and outcome.is_waiting and outcome.in_replay >= len(owed)


def _counted(
    keyed: Keyed,
    outcome: DueReceived,
    entries: Sequence[Open],
    receivers: Sequence[Receiver],
    unsure: frozenset[int],
    known: frozenset[str],
) -> Allowed[Keyed] | Broken:
    """The broker's stats are right, but for hashes that a release is known to count on top of themselves.

    Of hashes that are ``unsure`` nothing is said.
    """
    before = keyed.draining.update(keyed.back)
    if keyed.has_left:  # what went away and came back since the last look is known to be with its consumer only
        before = before.update({entry.hashed: entry.holder for entry in entries if entry.holder is not None})
    # What drained when it was looked last may have come back since, and gone away once more.
    back = keyed.back.update(keyed.draining) if keyed.has_left else keyed.back
    on_top, deviations = keyed.on_top, tuple[str, ...]()
    excused = ("KEY-11",) * len(unsure)
    for mismatch in stats.mismatches(outcome, entries, receivers, before):
        if mismatch.hashed in on_top | unsure:
            excused += ("KEY-11",) if mismatch.hashed in on_top else ()
            continue
        broken = stats.wrong(mismatch, back, keyed.uncounted)
        if broken.deviation not in known:
            return broken
        on_top, deviations = on_top | {mismatch.hashed}, (*deviations, str(broken.deviation))
    drained = {hashed: name for hashed, name in keyed.draining.items() if hashed not in on_top | unsure}
    wrong = stats.wrong_sums(outcome) or stats.miscounted(outcome, receivers, drained, keyed.cleared)
    if wrong is not None and wrong.deviation not in known:
        return wrong
    uncounted = keyed.uncounted
    if wrong is not None:
        uncounted |= stats.no_longer_shown(outcome, drained)
        deviations = (*deviations, str(wrong.deviation))
    drains = draining(entries, receivers)
    after = replace(
        keyed,
        draining=Map(drains),
        back=Map(stats.lingering(outcome, entries, receivers, before)),
        held_up=frozenset(entry.hashed for entry in entries if entry.holder is None and entry.hashed in drains),
        cleared=Map({read.consumer: read.cleared for read in outcome.consumers}),
        on_top=on_top,
        uncounted=uncounted,
    )
    return Allowed(after, ("KEY-11",) if drains or keyed.draining else (), deviations, excused)


def _split(
    state: Consumption, subscription: SubscriptionId, outcome: DueReceived, receivers: Sequence[Receiver]
) -> Allowed[None] | Broken:
    """Consumers have the ranges that they claim, or all hashes among them; exercised where there are several."""
    is_all = len(receivers) == sum(1 for _ in state.consumers_of(subscription))
    if invariant.claims_hashes(state, subscription):
        return claims.shown_wrongly(state, outcome) or Allowed(None)
    if not receivers or not is_all:
        return Allowed(None)
    return stats.not_split(receivers) or Allowed(None, ("KEY-12",) if len(receivers) > 1 else ())


def receivers_of(outcome: DueReceived) -> list[Receiver] | None:
    """The consumers as the broker shows them; None if it does not show their ranges."""
    receivers = []
    for read in outcome.consumers:
        if read.ranges is None:
            return None
        receivers.append(Receiver(read.consumer, read.permits, tuple(sorted(read.ranges))))
    return receivers


def _unsure_hashes(state: Consumption, subscription: SubscriptionId) -> frozenset[int]:
    """The hashes of which it is not known who has what for the broker.

    Something of them may be acknowledged, and may not be; or it came when it was acknowledged already, and who has it
    counts until it says so again.
    """
    cursor, keys = state.cursors[subscription], state.log(subscription.topic).keys
    positions = set(state.keyed_of(subscription).outdone)
    if len(cursor.possible) > 1 or cursor.unsure:
        positions |= {
            place.position for _, place in state.all_left(subscription).difference(surely_left(state, subscription))
        }
    return frozenset(invariant.hash_of(state, subscription, position) for position in positions if position in keys)


def _open(state: Consumption, subscription: SubscriptionId) -> Iterator[Open]:
    """The entries that are surely not acknowledged, in order, and who has them."""
    keys = state.log(subscription.topic).keys
    holders = {
        message[1].position: name
        for name, consumer in state.consumers_of(subscription)
        for message in consumer.unacknowledged
        if message[0] == subscription.topic
    }
    for position in dict.fromkeys(place.position for _, place in surely_left(state, subscription)):
        if position in keys:
            yield Open(position, invariant.hash_of(state, subscription, position), holders.get(position))


@carries("KEY-04", "KEY-05", "KEY-07", "KEY-08", "KEY-13")
def _late_by_rule(
    state: Consumption, subscription: SubscriptionId, owed: Mapping[Position, str], receivers: Sequence[Receiver]
) -> Broken:
    """Something must have come and did not: which rule that is depends on what it might have waited for."""
    keyed, log, due_again = state.keyed_of(subscription), state.log(subscription.topic), state.due(subscription)
    position, name = next(iter(owed.items()))
    hashed = invariant.hash_of(state, subscription, position)
    reasons = {due_again.get(message) for message in messages_at(subscription.topic, log, position)}
    permits = next(one.permits for one in receivers if one.name == name)
    what = f"{name} has {permits} permits, but does not receive {', '.join(log.entries[position])} at {position}"
    if keyed.draining.get(hashed) == name:
        return Broken("KEY-07", f"{what}; its hash {hashed} was reassigned to this consumer while it drained there")
    if hashed in keyed.draining:
        return Broken("KEY-05", f"{what}; its hash {hashed} has finished draining at {keyed.draining[hashed]}")
    if "failed" in reasons:
        return Broken("KEY-08", f"{what}, for which a redelivery was requested")
    if "left" in reasons or not keyed.draining:
        return Broken("KEY-13", f"{what}; no message of its hash {hashed} is unacknowledged at a consumer")
    return Broken("KEY-04", f"{what}; its hash {hashed} is not draining, only others are")
