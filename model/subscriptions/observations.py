"""Compares a subscription's stats, stored cursor and deliveries with its possible states."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TypeVar

from model.cursors import deleted_ledgers, diagnosis
from model.cursors.acked import Acked, acknowledge_all
from model.cursors.cursor import Cursor, Moment, Persisting
from model.cursors.info import PositionInfo, info_of, state_of
from model.cursors.ledger import Interval
from model.cursors.log import Place, TopicLog
from model.events import CursorRead, Delivery, MessagePeeked, StoredCursorRead
from model.judgement import Allowed, Broken, in_turn
from model.log import Position
from model.rules.catalogue import carries
from model.subscriptions import deliveries
from model.subscriptions.acks import taken_from
from model.subscriptions.consumers import SHARED
from model.subscriptions.counts import Count, MarkDeleteLags, Peeked, StoredBeyondLimit, TakenTwice
from model.subscriptions.state import Consumption, upper
from model.vocabulary import SubscriptionId

Judged = Allowed[Consumption] | Broken

T = TypeVar("T")

FIRST_WRITES = 4
"""How many writes may happen at once: a new ledger's first entry, one permit, one saved permit, and one in progress."""
UNSEEN = frozenset({"ACK-15"})
"""The rules on parts of batches. The stats of a cursor do not show these; a delivery of the rest does."""
WRITES_EACH = 3
"""The most writes of one change by an administrator."""


@carries("ACK-01", "ACK-05")
def read(state: Consumption, subscription: SubscriptionId, stats: CursorRead, at: Interval) -> Judged:
    """The stats of a subscription were read while nothing was in flight."""
    steps = [
        partial(deliveries.received, name=one.consumer, messages=one.messages, is_all=True)
        for one in stats.arrived
        if one.consumer in state.consumers
    ]
    return in_turn(state, steps).then(lambda after: _read(after, subscription, stats, at))


def _read(state: Consumption, subscription: SubscriptionId, stats: CursorRead, at: Interval) -> Judged:
    log, cursor = state.log(subscription.topic), state.cursors[subscription]
    actual = state_of(PositionInfo(stats.mark_delete, stats.ranges), log)
    persisting = state.topics[subscription.topic].persisting
    if not log.has_markers:  # a dispatcher acknowledges markers at any time, which may have opened the cursor's ledger
        too_often = persisted_too_often(cursor, subscription, stats.written, at, persisting)
        if too_often is not None:
            return too_often
    shown, actual = actual, deleted_ledgers.without_deleted(actual, cursor, stats, log)
    observed = cursor.observed(lambda one: fitted(one, actual, cursor, log))
    if observed is None:
        return _wrong(state, subscription, actual)
    lags = _mark_delete_lags(observed, subscription, stats, shown, log)
    counted = lags.then(lambda one: _counted(state, one, subscription, stats, actual))
    return counted.then(lambda after: _compared(state, subscription, cursor, after, stats, at))


@carries("ACK-01", "ACK-05")
def _compared(
    state: Consumption,
    subscription: SubscriptionId,
    before: Cursor,
    seen: Cursor,
    stats: CursorRead,
    at: Interval,
) -> Judged:
    """The counts of unacknowledged messages, once the state of the cursor was observed."""
    if seen.possible != before.possible:  # uncertain acks are now certain
        state = taken_from(state.with_cursor(subscription, seen), subscription)

    def settling(after: Consumption) -> Judged:
        tested = ("SERVE-04", "ACK-01", *sorted(before.since - UNSEEN), *(("ACK-07",) if stats.ranges else ()))
        tested += _independence(after, subscription)
        after = after.with_cursor(subscription, settled(before, seen, at))
        return Allowed(after, tested)

    steps: list[Callable[[Consumption], Judged]] = [
        *_at_consumers(state, subscription, seen, stats),
        lambda after: _counted_in_all(after, subscription, stats),
        lambda after: deliveries.not_blocked(after, subscription, stats).then(lambda _: Allowed(after)),
        settling,
    ]
    return in_turn(state, steps)


@carries("ACK-01")
def peeked(state: Consumption, subscription: SubscriptionId, nth: int, outcome: MessagePeeked) -> Judged:
    """An administrator's peek returns the ``nth`` unacknowledged entry.

    A peek excludes no state, because acks may be in flight.
    """
    log, cursor = state.log(subscription.topic), state.cursors[subscription]

    def nth_of(one: Acked) -> Position | None:
        return next(islice(one.unacknowledged(log), nth - 1, None), None)

    if any(nth_of(one) == outcome.position for one in cursor.possible):
        return Allowed(state, ("ACK-01",))
    if any(_may_be_nth(one, cursor, log, nth, outcome.position) for one in cursor.possible if cursor.unsure):
        return Allowed(state, excused=("ACK-01",))
    peek = f"a peek at unacknowledged entry {nth} of subscription {subscription.name}"
    because = f"{peek} returned {outcome.position or 'none'}"
    suspects = cursor.suspects
    is_untouched = not suspects - UNSEEN and len(state.cursors) > 1
    broken = diagnosis.for_state(suspects, because, is_untouched=is_untouched)
    return replace(broken, evidence=Peeked(cursor.possible, log, nth, outcome.position)).passing_to(state)


def _may_be_nth(state: Acked, cursor: Cursor, log: TopicLog, nth: int, position: Position | None) -> bool:
    """Whether an entry is the ``nth`` unacknowledged one (None: there are fewer) if some acks took effect that may
    have."""
    most = upper(state, cursor, log)
    if position is None:
        return most.count_left(log) < nth
    if position not in log or state.has(position):
        return False
    fewest = 1 + sum(left < position for left in most.unacknowledged(log))
    return fewest <= nth <= sum(left <= position for left in state.unacknowledged(log))


@carries("ACK-08")
def persisted_too_often(
    cursor: Cursor, subscription: SubscriptionId, written: int, at: Interval, persisting: Persisting
) -> Broken | None:
    """The rate limit allows the first ack, one per interval, and one saved permit to be persisted.

    The limit applies to acks. The periodic flush of a dirty cursor adds one write per flush interval.
    """
    if not persisting.interval_ms or cursor.ledger.since_ms is None:
        return None
    since_ms = at.completed_ms - cursor.ledger.since_ms
    allowed = FIRST_WRITES + since_ms / persisting.interval_ms + WRITES_EACH * cursor.ledger.by_administrators
    if persisting.flush_ms:
        allowed += since_ms / persisting.flush_ms
    if written <= allowed:
        return None
    what = f"the cursor of {subscription.name} was persisted {written} times in {since_ms:.0f} ms"
    return Broken("ACK-08", f"{what}; the rate limit allows one write per {persisting.interval_ms:.0f} ms")


@carries("SERVE-04")
def _counted(
    state: Consumption, cursor: Cursor, subscription: SubscriptionId, stats: CursorRead, actual: Acked
) -> Allowed[Cursor] | Broken:
    """The backlog is the number of unacknowledged entries."""
    backlog, left = stats.backlog, actual.count_left(state.log(subscription.topic))
    if backlog == left:
        return Allowed(cursor)
    because = f"{subscription.name} has {left} unacknowledged entries, but the stats show a backlog of {backlog}"
    count = Count("backlog", state, subscription, backlog - left, shown=backlog)
    return Broken("SERVE-04", because, evidence=count).passing_to(cursor)


def settled(before: Cursor, cursor: Cursor, at: Interval) -> Cursor:
    """The cursor after its state was observed. Nothing is in flight, except for grouped acks of clients."""
    past, last = cursor.past, cursor.past[len(cursor.past) - 1]
    ledger = cursor.ledger
    if cursor.possible < last.states:
        past = past.with_last(replace(last, states=cursor.possible))
    elif cursor.possible != before.possible:
        past = past.then(Moment(at, cursor.possible))
        ledger = ledger.changed(Interval(last.at.invoked_ms, at.completed_ms), surely=False)  # by a grouped ack
    # Nothing is in flight any more, but acks of parts of batches are not visible here.
    stray = tuple(ack for ack in before.stray if any(place.batch_index >= 0 for place in ack.places))
    return replace(cursor, past=past, stray=stray, since=before.since & UNSEEN, ledger=ledger)


@carries("ACK-02")
def _mark_delete_lags(
    cursor: Cursor, subscription: SubscriptionId, stats: CursorRead, shown: Acked, log: TopicLog
) -> Allowed[Cursor] | Broken:
    """Mark-delete advances to the last entry that is acknowledged without a gap."""
    if log.at_or_before(stats.mark_delete) == shown.mark_delete:
        return Allowed(cursor)
    what = f"the mark-delete position is still {stats.mark_delete}"
    because = f"{what}, although everything up to {shown.mark_delete} is acknowledged"
    return Broken("ACK-02", because, evidence=MarkDeleteLags(subscription, stats.mark_delete)).passing_to(cursor)


def _at_consumers(
    state: Consumption, subscription: SubscriptionId, cursor: Cursor, stats: CursorRead
) -> Iterator[Callable[[Consumption], Judged]]:
    """The comparison of the counts at consumers."""
    if len(cursor.possible) > 1 or cursor.unsure:
        yield lambda after: Allowed(after, excused=("SERVE-04",) if stats.arrived else ())
        return
    (seen,) = cursor.possible
    for arrived in stats.arrived:
        consumer = state.consumers.get(arrived.consumer)
        is_known = consumer is not None and consumer.client == "wire" and consumer.kind in SHARED
        if consumer is not None and is_known and len(consumer.topics) == 1:
            count = arrived.unacknowledged
            difference = min(0, count - consumer.least) + max(0, count - consumer.most)
            one = Count("at consumer", state, subscription, difference, arrived.consumer, count, seen)
            yield partial(_counted_at_consumer, count=one)


@carries("ACK-12", "SERVE-04")
def _counted_at_consumer(state: Consumption, count: Count) -> Judged:
    """The broker counts the unacknowledged messages of a consumer.

    No document says when it stops counting messages that others acknowledged.
    """
    if not count.difference:
        return Allowed(state, ("SERVE-04",))
    because = f"{len(state.consumers[count.consumer].unacknowledged)} messages are unacknowledged at {count.consumer}"
    because = f"{because}, but the stats show {count.shown}"
    return Broken("SERVE-04", because, evidence=count).passing_to(state)


@carries("SERVE-04")
def _counted_in_all(state: Consumption, subscription: SubscriptionId, stats: CursorRead) -> Judged:
    """On Shared and Key_Shared, the subscription's count is the sum of its consumers' counts.

    A deviation that makes a consumer's count wrong makes the subscription's equally wrong. The counts of
    pulsar-client's consumers are not read.
    """
    consumers = dict(state.consumers_of(subscription))
    shown = {one.consumer: one.unacknowledged for one in stats.arrived}
    if consumers.keys() != shown.keys() or not all(one.kind in SHARED for one in consumers.values()):
        return Allowed(state)
    if stats.unacknowledged == sum(shown.values()):
        return Allowed(state, ("SERVE-04",))
    because = f"the stats show {stats.unacknowledged} unacknowledged messages of subscription {subscription.name}"
    because = f"{because}, but {sum(shown.values())} in total at its consumers"
    difference = stats.unacknowledged - sum(shown.values())
    count = Count("in all", state, subscription, difference, shown=stats.unacknowledged)
    return Broken("SERVE-04", because, evidence=count).passing_to(state)


def fitted(state: Acked, actual: Acked, cursor: Cursor, log: TopicLog) -> Acked | None:
    """The state, if it fits the stats. The stats do not show its parts of batches."""
    if not cursor.unsure:
        is_same = (state.mark_delete, state.words) == (actual.mark_delete, actual.words)
        return state if is_same else None
    lower_left = frozenset(state.unacknowledged(log))
    left = frozenset(actual.unacknowledged(log))
    if left <= lower_left and frozenset(upper(state, cursor, log).unacknowledged(log)) <= left:
        whole = [(position, 0) for position in state.parts if actual.has(position)]
        return replace(actual, parts=state.parts.put(whole))
    return None


def _nearest(expected: Iterable[frozenset[T]], left: frozenset[T]) -> tuple[frozenset[T], frozenset[T]]:
    """What is missing and what is too much, compared with the nearest expectation."""
    differences = ((one - left, left - one) for one in expected)
    return min(differences, key=lambda pair: len(pair[0]) + len(pair[1]))


def difference(state: Consumption, subscription: SubscriptionId, actual: Acked) -> str:
    """The difference from the nearest possible state, in words."""
    log, cursor = state.log(subscription.topic), state.cursors[subscription]
    left = frozenset(actual.unacknowledged(log))
    too_many, too_few = _nearest([frozenset(one.unacknowledged(log)) for one in cursor.possible], left)
    differences = [f"has {diagnosis.some(list(map(str, too_many)))} as acknowledged without an ack"] if too_many else []
    differences += [f"lacks the ack of {diagnosis.some(list(map(str, too_few)))}"] if too_few else []
    return f"the cursor of subscription {subscription.name} {' and '.join(differences)}"


def _wrong(state: Consumption, subscription: SubscriptionId, actual: Acked) -> Broken:
    cursor = state.cursors[subscription]
    because = difference(state, subscription, actual)
    grouped = {"ACK-04" if ack.cumulative else "ACK-01" for ack in cursor.unsure}
    since = (cursor.suspects - UNSEEN) | grouped
    return diagnosis.for_state(since, because, is_untouched=not since and len(state.cursors) > 1)


def _independence(state: Consumption, subscription: SubscriptionId) -> tuple[str, ...]:
    """ACK-05 is exercised if another subscription or partition is in another state."""
    mine = state.cursors[subscription].possible
    others = (cursor.possible for other, cursor in state.cursors.items() if other != subscription)
    return ("ACK-05",) if any(other != mine for other in others) else ()


@carries("ACK-10")
def stored(state: Consumption, subscription: SubscriptionId, in_store: StoredCursorRead) -> Judged:
    """Right after an unload the metadata store has the whole state, unless that has too many ranges.

    It lacks later acks, and is not judged while more than one state is possible.
    """
    cursor, tracked = state.cursors[subscription], state.topics[subscription.topic]
    if (
        not cursor.is_unloaded
        or tracked.log.has_markers  # which split and join ranges
        or len(cursor.possible) != 1
    ):
        # The next read of the cursor decides which state it is.
        return Allowed(state, excused=("ACK-10",) if cursor.is_unloaded else ())
    (expected,) = cursor.possible
    ranges = len(info_of(expected).ranges)
    limit = tracked.persisting.stored_ranges
    if in_store.mark_delete is None:
        if cursor.was_opening:
            return Allowed(state, excused=("ACK-10",))
        if ranges < limit:
            because = f"{subscription.name} was unloaded with {ranges} ranges, below the limit of {limit}"
            return Broken("ACK-10", f"{because}, but its state is not in the metadata store")
        return Allowed(state, ("ACK-10",))
    shown = _stored(state, subscription, in_store)
    if ranges <= limit:
        return shown
    unloaded = f"{subscription.name} was unloaded into the metadata store with {ranges} ranges"
    because = f"{unloaded}, above the limit of {limit}"
    return Broken("ACK-10", because, evidence=StoredBeyondLimit(subscription)).passing_to(None).then(lambda _: shown)


@carries("ACK-07")
def _stored(state: Consumption, subscription: SubscriptionId, in_store: StoredCursorRead) -> Judged:
    """The metadata store has the cursor in this state."""
    cursor, tracked = state.cursors[subscription], state.topics[subscription.topic]
    if in_store.mark_delete is None:
        return Allowed(state)
    (expected,) = cursor.possible
    ranges = len(info_of(expected).ranges)
    actual = state_of(PositionInfo(in_store.mark_delete, in_store.ranges), tracked.log)
    if expected in deleted_ledgers.shown_states(actual, in_store.mark_delete, cursor, tracked.log):
        actual = expected
    entries = (actual.mark_delete, actual.words)
    if (expected.mark_delete, expected.words) != entries:
        return _wrong(state, subscription, actual)
    return Allowed(state, ("ACK-10", *(("ACK-07",) if ranges else ())))


@carries("ACK-01", "ACK-09", "ACK-10", "ACK-15")
def taken_all(state: Consumption, subscription: SubscriptionId, messages: Sequence[Delivery], at: Interval) -> Judged:
    """A new consumer received all unacknowledged messages, and nothing else."""
    if not state.topics[subscription.topic].is_sure:
        return Allowed(state)
    got = []
    for dispatched in messages:
        place = Place(dispatched.position, dispatched.batch_index)
        if not state.is_sent(subscription.topic, place, dispatched.business_id):
            return Broken(
                "ACK-06", f"{dispatched.business_id} at {dispatched.position} was delivered, but it was never stored"
            )
        got.append(place)
    twice = [place for place, times in Counter(got).items() if times > 1]
    left = frozenset(got)
    if twice:
        because = f"the broker dispatched {state.words((subscription.topic, twice[0]))} twice to one consumer"
        sent_twice = frozenset((subscription.topic, place) for place in twice)
        broken = Broken("ACK-12", because, evidence=TakenTwice(subscription, sent_twice)).passing_to(state)
        return broken.then(lambda after: _left_were(after, subscription, left, at))
    return _left_were(state, subscription, left, at)


def _left_were(state: Consumption, subscription: SubscriptionId, left: frozenset[Place], at: Interval) -> Judged:
    """These messages were unacknowledged, and no others."""
    log, cursor = state.log(subscription.topic), state.cursors[subscription]
    observed = cursor.observed(lambda one: _leaving(one, left, cursor, log))
    if observed is None:
        return _wrong_delivery(state, subscription, left)
    exercised = ("ACK-01", *sorted(cursor.since))
    after = replace(settled(cursor, observed, at), stray=(), since=frozenset())
    return Allowed(state.with_cursor(subscription, after), exercised)


def _leaving(state: Acked, left: frozenset[Place], cursor: Cursor, log: TopicLog) -> Acked | None:
    """The state, if its unacknowledged messages may be these, with the acks that they imply."""
    lower_left = frozenset(state.messages_left(log))
    if not cursor.unsure:
        return state if left == lower_left else None
    if left <= lower_left and frozenset(upper(state, cursor, log).messages_left(log)) <= left:
        return acknowledge_all(state, log, lower_left - left)
    return None


def _wrong_delivery(state: Consumption, subscription: SubscriptionId, left: frozenset[Place]) -> Broken:
    """The wrong or missing deliveries in words. If the entries are right, parts of batches are wrong (ACK-15)."""
    log, cursor = state.log(subscription.topic), state.cursors[subscription]
    missing, extra = _nearest([frozenset(one.messages_left(log)) for one in cursor.possible], left)
    topic = subscription.topic
    differences = []
    if missing:
        words = diagnosis.some([state.words((topic, place)) for place in missing])
        differences.append(f"does not receive {words}, which no consumer acknowledged")
    if extra:
        words = diagnosis.some([state.words((topic, place)) for place in extra])
        differences.append(f"receives {words} again, although it is acknowledged")
    expected = (left - extra) | missing
    if "ACK-15" in cursor.since and {place.position for place in expected} == {place.position for place in left}:
        return Broken("ACK-15", f"subscription {subscription.name} {', and '.join(differences)}")
    return diagnosis.for_state(cursor.suspects, f"subscription {subscription.name} {', and '.join(differences)}")
