"""Judges a Key_Shared subscription after everything due was received: deliveries, missing messages, the stats."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from model.events import ConsumerRead, Delivery, DueReceived, Starved
from model.excuses import preferred, requires
from model.excuses.cursors import PARTIAL_ACKS_PERSISTED_AS_FIRST
from model.excuses.key_shared import PENDING_READ_OUTLIVES_CONSUMERS, UNCLAIMED_MESSAGE_DROPPED
from model.excuses.ways import explained, required
from model.failpoints import RACES, FailpointKind
from model.immutable.map import Map
from model.judgement import Allowed, Broken, all_of, in_turn, judges_waits
from model.key_shared import stalls, stats
from model.key_shared.hashes import AUTO_SPLIT_HASHES
from model.key_shared.liveness import Open, Receiver, due, owner_of
from model.key_shared.stalls import Look
from model.log import Position
from model.rules.catalogue import carries
from model.subscription_operations import ReceiveDue
from model.subscriptions import claims, deliveries, invariant, membership, order, recently_joined
from model.subscriptions.counts import Starving
from model.subscriptions.state import Consumption, messages_at, surely_left
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
    return membership.woken(state.with_consumer(name, consumer), name, permits=True)


@carries("ACK-12", "SERVE-03")
@judges_waits
def starved(state: Consumption, keys: Sequence[SubscriptionId], because: str) -> Broken:
    """The consumers of these subscriptions receive nothing, although messages are due.

    ACK-12 is broken if messages of a consumer that left, or nacked messages, are due to others.
    """
    rule = "ACK-12" if any(state.due(subscription) for subscription in keys) else "SERVE-03"
    here = {name: None for subscription in keys for name, _ in state.consumers_of(subscription)}
    return Broken(rule, because, evidence=Starving(state, tuple(here))).passing_to(state)


def of_emptied(state: Consumption, subscription: SubscriptionId, judged: Broken, known: frozenset[str]) -> Judged:
    """The same answer, or a known deviation if a batch may be left without messages, which is counted all the same."""
    possible = state.imaginable(subscription) if subscription in state.cursors else ()
    if not any(one.has_emptied(state.log(subscription.topic)) for one in possible):
        return judged
    return explained(judged, (PARTIAL_ACKS_PERSISTED_AS_FIRST,), state, known)


def not_dispatched(
    state: Consumption, subscription: SubscriptionId, outcome: Starved, known: frozenset[str]
) -> Allowed[None] | Broken:
    """As :func:`starved`, when the subscription was read. Deviations may stall a Key_Shared subscription.

    With several consumers it is only known that messages sent to them did not arrive.
    """
    consumers = dict(state.consumers_of(subscription))
    who = " and ".join(consumers) or "the consumers"  # none is known of a subscription that is not tracked
    missing = starved(state, [subscription], f"{who} of {subscription.name}: {outcome.why}")
    if len(consumers) != 1 or any(one.kind != "Key_Shared" or one.client != "wire" for one in consumers.values()):
        return missing
    (name,) = consumers
    arrived = deliveries.received(state, name, outcome.messages, is_all=False, known=known)
    if isinstance(arrived, Broken):
        return arrived
    state = arrived.state
    keyed, unsure = state.keyed_of(subscription), _unsure_hashes(state, subscription)
    entries = [entry for entry in _open(state, subscription) if entry.hashed not in unsure]
    entries = [entry for entry in entries if not keyed.never_drains(entry.hashed, name)]
    alone = [Receiver(name, len(entries), (AUTO_SPLIT_HASHES,))]
    owed = due(entries, alone, drains=invariant.is_ordered(state, subscription))
    if not owed and any(entry.holder is None for entry in _open(state, subscription)):
        return Allowed(None, excused=(missing.rule,))
    look = replace(_look(state, subscription, entries, alone), is_passed_over=keyed.is_woken or keyed.is_skip_kept)
    stalled = stalls.explained(keyed, owed, look, known)
    if not owed or any(position not in stalled for position in owed):
        return missing
    return required([frozenset(stalled[position] for position in owed)], None, known, missing.because)


@carries("KEY-10")
def received(
    state: Consumption,
    operation: ReceiveDue,
    outcome: Outcome,
    known: frozenset[str],
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
    return in_turn(state, steps).then(lambda after: _looked(after, subscription, outcome, known))


def _looked(state: Consumption, subscription: SubscriptionId, outcome: DueReceived, known: frozenset[str]) -> Judged:
    """What is missing is judged, and the stats, after all that arrived."""
    accounted = _accounted(state, subscription, outcome, known)
    if isinstance(accounted, Broken):
        return accounted
    withheld = deliveries.withheld(accounted.state, subscription, outcome.withheld)
    if isinstance(withheld, Broken):
        return withheld
    has_dispatched = any(read.messages for read in outcome.consumers)
    is_stalled = bool(accounted.deviations) or outcome.withheld is not None
    state = _all_seen(withheld.state, subscription, outcome, has_dispatched=has_dispatched, is_stalled=is_stalled)
    return withheld.of(state).after(accounted)


def _all_seen(
    state: Consumption, subscription: SubscriptionId, outcome: DueReceived, *, has_dispatched: bool, is_stalled: bool
) -> Consumption:
    """Everything in flight was received. The replay queue from now on is older than any later dispatch.

    Delayed messages may be dispatched at any time from now on.
    ``is_stalled``: a known deviation keeps the broker from reading the replay queue, or the subscription is blocked.
    Then no order is judged.
    """
    keyed, is_withheld = state.keyed_of(subscription), outcome.withheld is not None
    drains = state.topics[subscription.topic].drains
    left = (place.position for _, place in state.all_left(subscription))
    may_receive_more = any(map(state.topics[subscription.topic].is_not_due, left))
    permits = Map({read.consumer: read.permits for read in outcome.consumers})
    is_any_ready = any(count > 0 for count in permits.values())
    after = replace(
        keyed,
        is_gathered=not may_receive_more,
        replays=Map(dict.fromkeys(keyed.replays, not is_stalled)),
        # Without permits, what was read for a consumer that left is in the replay queue, and is dispatched first.
        may_be_read_to=keyed.may_be_read_to if not has_dispatched or (outcome.in_replay and not is_any_ready) else None,
        skipped_to=None if has_dispatched else keyed.skipped_to,
        is_left_unread=keyed.is_left_unread and (keyed.has_left or not has_dispatched),
        leavers=(),
        reading_at_leave=keyed.reading_at_leave if not has_dispatched else None,
        joined_until_leave=keyed.joined_until_leave if not has_dispatched else Map(),
        has_replays=bool(outcome.in_replay),
        recent=recently_joined.recent(state, subscription),
        replayed=frozenset(),
        read_twice=_still_read_twice(state, subscription, outcome)
        | invariant.replayed_beside_new_messages(state, subscription),
        last=state.log(subscription.topic).last if has_dispatched or keyed.last is None else keyed.last,
        read_to=state.log(subscription.topic).last if outcome.is_waiting else keyed.read_to,
        is_woken=is_withheld and keyed.is_woken,
        is_asked=False,
        is_replaying=drains and keyed.is_woken and not has_dispatched and outcome.in_replay > len(keyed.stalled),
        permitted=keyed.permitted if is_withheld else frozenset(),
        permits=permits,
        is_last_gone=keyed.is_last_gone and not is_any_ready,
        is_skip_kept=keyed.is_skip_kept and not is_any_ready,
        ranges=Map({read.consumer: read.ranges for read in outcome.consumers if read.ranges is not None}),
    )
    return state.with_keyed(subscription, after)


def _still_read_twice(state: Consumption, subscription: SubscriptionId, outcome: DueReceived) -> frozenset[Position]:
    """Entries that were replayed twice and arrived once. The second copy waits only for permits."""
    keyed = state.keyed_of(subscription)
    without_permits = {read.consumer for read in outcome.consumers if read.permits <= 0}
    return frozenset(
        at for at in keyed.read_twice - keyed.replayed if at in keyed.got and keyed.got[at] in without_permits
    )


def _arrived(state: Consumption, subscription: SubscriptionId, read: ConsumerRead, known: frozenset[str]) -> Judged:
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
    placed = _placed(state, subscription, name, dispatched, is_first=is_first)
    if isinstance(placed, Broken):
        return placed
    is_read_ahead = PENDING_READ_OUTLIVES_CONSUMERS in placed.deviations
    received = placed.then(lambda _: deliveries.received(state, name, [dispatched], is_all=False, known=known))
    return received.then(
        lambda after: Allowed(
            _with_delivered(after, subscription, name, dispatched.position, is_read_ahead=is_read_ahead)
        )
    )


def _with_delivered(
    state: Consumption, subscription: SubscriptionId, name: str, position: Position, *, is_read_ahead: bool
) -> Consumption:
    keyed = state.keyed_of(subscription).delivered(position, name)
    if is_read_ahead:
        keyed = replace(keyed, read_ahead=keyed.read_ahead | {position})
    return state.with_keyed(subscription, keyed)


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
    ordered = order.in_order(state, subscription, name, dispatched.position) if is_first else Allowed(None)
    if isinstance(ordered, Broken):
        return ordered
    exercised = () if ordered.deviations else order.exercised_by(state, subscription, name, message)
    if state.topics[subscription.topic].drains:
        return Allowed(None, exercised + _moved(state, subscription, name, dispatched.position)).after(ordered)
    too_soon = recently_joined.too_soon(state, subscription, name, dispatched.position) if is_first else None
    rules = recently_joined.exercised_by(state, subscription, name, dispatched.position)
    return too_soon or Allowed(None, exercised + rules).after(ordered)


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


def _accounted(state: Consumption, subscription: SubscriptionId, outcome: DueReceived, known: frozenset[str]) -> Judged:
    """If the stats suffice: nothing that is due is missing, and the stats are right."""
    receivers = stats.receivers_of(outcome)
    if receivers is None:
        return Allowed(state)
    is_classic = not state.topics[subscription.topic].drains
    if any(consumer.client != "wire" for _, consumer in state.consumers_of(subscription)):
        # The receiver queues of other clients are not known.
        return Allowed(state, excused=("KEY-16",) if is_classic else ("KEY-11", "KEY-13"))
    if is_classic:
        return _with_classic(state, subscription, outcome, receivers, known)
    split = _split(state, subscription, outcome, receivers, known)
    if isinstance(split, Broken):
        return split
    unsure = _unsure_hashes(state, subscription)
    keyed, every = state.keyed_of(subscription), list(_open(state, subscription))
    entries = [entry for entry in every if entry.hashed not in unsure]
    without_permits = [one for one in receivers if one.permits <= 0]
    undeliverable = [one for one in every if one.hashed in unsure and owner_of(one.hashed, without_permits)]
    is_ordered = invariant.is_ordered(state, subscription)
    owed = due(entries, receivers, drains=is_ordered, look_ahead=state.topics[subscription.topic].look_ahead)
    hashes = {entry.position: entry.hashed for entry in entries}
    owed = {at: name for at, name in owed.items() if not keyed.never_drains(hashes[at], name)}
    late = Allowed(keyed.stalled, excused=("KEY-13",) if owed else ())
    if outcome.withheld is None:  # otherwise the stats do not separate the replay queue from what was not read yet
        look = replace(
            _look(state, subscription, [*entries, *undeliverable], receivers),
            is_passed_over=_may_be_passed_over(state, subscription, outcome, owed),
            is_passed_over_unordered=not is_ordered
            and keyed.is_woken
            and 0 < len(owed) < stalls.replays_waiting(outcome),
            has_dispatched=any(read.messages for read in outcome.consumers),
        )
        judged = _late(state, subscription, owed, look, known)
        if isinstance(judged, Broken):
            return judged
        late, keyed = judged, replace(keyed, unread=(), stalled=judged.state)
    if not is_ordered or invariant.claims_hashes(state, subscription):
        return Allowed(state.with_keyed(subscription, keyed)).after(split, late)
    counted = stats.counted(keyed, outcome, entries, receivers, unsure, known)
    if isinstance(counted, Broken):
        return counted
    return counted.of(state.with_keyed(subscription, counted.state)).after(split, late)


def _look(
    state: Consumption, subscription: SubscriptionId, entries: Sequence[Open], receivers: Sequence[Receiver]
) -> Look:
    """A look at which nothing was dispatched."""
    failed = frozenset(message[1].position for message, why in state.due(subscription).items() if why == "nacked")
    is_ordered, mark_delete = invariant.is_ordered(state, subscription), membership.mark_delete(state, subscription)
    return Look(
        entries,
        receivers,
        without_hash=failed if is_ordered else frozenset(entry.position for entry in entries),
        passed=frozenset(
            invariant.hash_of(state, subscription, position)
            for position in state.keyed_of(subscription).passed
            if position <= mark_delete
        ),
        last=state.log(subscription.topic).last,
        is_passed_over=False,
        has_dispatched=False,
    )


def _with_classic(
    state: Consumption,
    subscription: SubscriptionId,
    outcome: DueReceived,
    receivers: Sequence[Receiver],
    known: frozenset[str],
) -> Judged:
    """With the classic implementation, nothing that is due is missing."""
    entries = list(_open(state, subscription))
    owed = recently_joined.owed(state, subscription, entries, receivers, _unsure_hashes(state, subscription))
    if outcome.withheld is not None:  # the stats do not separate the replay queue from what was not read yet
        return Allowed(state, excused=("KEY-16",) if owed else ())
    before_4 = _hashed_before_4(state, subscription, entries)
    keyed = state.keyed_of(subscription)
    keyed = replace(keyed, dropped=stalls.dropped(keyed, before_4, receivers))
    has_dispatched = any(read.messages for read in outcome.consumers)
    lasting = stalls.lasting(
        keyed,
        owed,
        is_passed_over=_may_be_passed_over(state, subscription, outcome, owed),
        is_skipped=membership.is_stalled_by_skip(state, subscription),
        has_dispatched=has_dispatched,
    )
    crowded_out = stalls.crowded_out(owed, entries, receivers, in_replay=stalls.replays_waiting(outcome))
    unread = stalls.unread(keyed, owed, is_waiting=outcome.is_waiting, in_replay=outcome.in_replay)
    stuck = _stuck(state, subscription, owed, entries, receivers, outcome)
    unclaimed = stalls.behind_unclaimed(() if outcome.is_waiting else owed, before_4, receivers)
    is_delayed = state.topics[subscription.topic].is_delayed
    tracked = {entry.position for entry in entries if is_delayed(entry.position) and entry.position not in keyed.got}
    recent = {name: keyed.joined[name].delivered for name in recently_joined.recent(state, subscription)}
    untracked = stalls.untracked(tracked, owed, before_4, receivers, recent=recent, is_waiting=outcome.is_waiting)
    dropped = {at: UNCLAIMED_MESSAGE_DROPPED for at in owed if at in keyed.dropped}
    possible = (untracked, lasting.updated(crowded_out), unread, stuck, unclaimed, dropped)
    names = {at: [each[at] for each in possible if at in each] for at in owed}
    stalled = Map({at: preferred(found, known) for at, found in names.items() if found})
    state = state.with_keyed(subscription, replace(keyed, stalled=stalled))
    starved = all_of(recently_joined.starved(state, subscription, owed, receivers, stalled))
    if isinstance(starved, Broken):
        return starved
    is_tested = not owed and any(entry.holder is not None for entry in entries)
    return Allowed(state, ("KEY-16",) if is_tested else ()).after(starved)


def _hashed_before_4(state: Consumption, subscription: SubscriptionId, entries: Sequence[Open]) -> list[Open]:
    return [replace(entry, hashed=invariant.hash_before_4(state, subscription, entry.position)) for entry in entries]


def _stuck(
    state: Consumption,
    subscription: SubscriptionId,
    owed: Mapping[Position, str],
    entries: Sequence[Open],
    receivers: Sequence[Receiver],
    outcome: DueReceived,
) -> Map[Position, str]:
    """The due entries of consumers whose permits the classic implementation ignored."""
    if (
        not outcome.is_waiting
        or not invariant.is_ordered(state, subscription)
        or recently_joined.is_anybody_surely_recent(state, subscription)
    ):
        return Map()
    return stalls.stuck(
        state.keyed_of(subscription),
        owed,
        _hashed_before_4(state, subscription, entries),
        receivers,
        received={read.consumer: len(read.messages) for read in outcome.consumers},
    )


@judges_waits
def _late(
    state: Consumption,
    subscription: SubscriptionId,
    owed: Mapping[Position, str],
    look: Look,
    known: frozenset[str],
) -> Allowed[Map[Position, str]] | Broken:
    """Nothing that is due is missing, except for entries that known deviations stall."""
    stalled = stalls.explained(state.keyed_of(subscription), owed, look, known)
    unexplained = {at: name for at, name in owed.items() if at not in stalled}
    if unexplained:
        return _late_by_rule(state, subscription, unexplained, look.receivers)
    judged = Allowed(stalled)
    for deviation in dict.fromkeys(stalled[at] for at in owed):
        blocked = {at: name for at, name in owed.items() if stalled[at] == deviation}
        because = _late_by_rule(state, subscription, blocked, look.receivers).because
        required = requires(deviation, stalled, known, because)
        if isinstance(required, Broken):
            return required
        judged = required.after(judged)
    return judged


def _may_be_passed_over(
    state: Consumption, subscription: SubscriptionId, outcome: DueReceived, owed: Mapping[Position, str]
) -> bool:
    """Whether a look-ahead may have passed over the due entries.

    Then the broker waits for a new entry, and all due entries are in the replay queue. This happens in four ways. The
    broker read a new entry although it had a reason to read the replay queue. Or it still read blocked messages there
    when redelivery was requested. Or it set its flag to skip a replay, the last consumer with permits left before a
    read cleared the flag, and the next permit triggered a read that skipped the replay. Or it replayed a delayed
    message that is blocked, of which it knew no hash; then due ones that are delayed may not be in the replay queue
    yet.
    """
    keyed = state.keyed_of(subscription)
    log = state.log(subscription.topic)
    has_read_new_message = log.has_markers or keyed.read_to != log.last  # a marker is new at any time
    is_skip_kept = keyed.is_skip_kept and not any(read.messages for read in outcome.consumers)
    is_raced = keyed.is_woken and (has_read_new_message or (keyed.is_replaying and keyed.is_asked))
    is_skipped = is_raced or (is_skip_kept and keyed.is_permitted)
    if outcome.is_waiting and outcome.in_replay and _is_delayed_message_blocked(state, subscription, owed):
        return True
    return is_skipped and outcome.is_waiting and outcome.in_replay >= len(owed)


def _is_delayed_message_blocked(state: Consumption, subscription: SubscriptionId, owed: Mapping[Position, str]) -> bool:
    """Whether the time of a delayed message has come that is not delivered yet, and that is blocked."""
    topic, got = state.topics[subscription.topic], state.keyed_of(subscription).got
    return any(
        topic.is_delayed(entry.position) and not entry.is_not_due and entry.position not in got
        for entry in _open(state, subscription)
        if entry.holder is None and entry.position not in owed
    )


def _split(
    state: Consumption,
    subscription: SubscriptionId,
    outcome: DueReceived,
    receivers: Sequence[Receiver],
    known: frozenset[str],
) -> Allowed[None] | Broken:
    """Consumers have the ranges that they claim, or share all hashes. Several consumers exercise this."""
    is_all = len(receivers) == sum(1 for _ in state.consumers_of(subscription))
    if invariant.claims_hashes(state, subscription):
        return claims.shown(state, subscription, outcome, known)
    if not receivers or not is_all:
        return Allowed(None)
    return stats.not_split(receivers) or Allowed(None, ("KEY-12",) if len(receivers) > 1 else ())


def _unsure_hashes(state: Consumption, subscription: SubscriptionId) -> frozenset[int]:
    """The hashes whose pending acks, as the broker counts them, are not known.

    An entry of them may or may not be acknowledged. Or it arrived after it was acknowledged, and counts as pending
    until its consumer acknowledges it too.
    """
    cursor, keys = state.cursors[subscription], state.log(subscription.topic).keys
    positions = set(state.keyed_of(subscription).acked_by_others)
    if len(state.imaginable(subscription)) > 1 or cursor.unsure:
        left = {place.position for _, place in state.all_left(subscription)}
        positions |= left.difference(place.position for _, place in surely_left(state, subscription))
    return frozenset(invariant.hash_of(state, subscription, position) for position in positions if position in keys)


def _open(state: Consumption, subscription: SubscriptionId) -> Iterator[Open]:
    """The entries that are surely unacknowledged, in order, and the consumer at which each is pending."""
    keys = state.log(subscription.topic).keys
    holders = {
        message[1].position: name
        for name, consumer in state.consumers_of(subscription)
        for message in consumer.unacknowledged
        if message[0] == subscription.topic
    }
    is_not_due = state.topics[subscription.topic].is_not_due
    for position in dict.fromkeys(place.position for _, place in surely_left(state, subscription)):
        if position in keys:
            hashed = invariant.hash_of(state, subscription, position)
            yield Open(position, hashed, holders.get(position), is_not_due(position))


@carries("KEY-04", "KEY-05", "KEY-07", "KEY-08", "KEY-13")
def _late_by_rule(
    state: Consumption, subscription: SubscriptionId, owed: Mapping[Position, str], receivers: Sequence[Receiver]
) -> Broken:
    """A due entry is missing. Which rule that breaks depends on what might have blocked it."""
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
    if "nacked" in reasons:
        return Broken("KEY-08", f"{what}, for which a redelivery was requested")
    if "left" in reasons or not keyed.draining:
        return Broken("KEY-13", f"{what}; no message of its hash {hashed} is unacknowledged at a consumer")
    return Broken("KEY-04", f"{what}; its hash {hashed} is not draining, only others are")
