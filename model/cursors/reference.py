"""The reference of a cursor, as document 003 describes it: acks, persistence and recovery.

Acknowledged messages are in :mod:`model.cursors.acked`, and their persisted form in :mod:`model.cursors.info`. There is
no clock: the caller decides when the rate limiter allows the next ack, when the flush interval ends, and when a write
completes. Dispatch is in :mod:`model.cursors.dispatch`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from itertools import islice, takewhile

from msgspec import Struct
from msgspec.structs import replace

from model.cursors import acked
from model.cursors.acked import Acked
from model.cursors.bits import Bits
from model.cursors.info import PositionInfo, info_of, state_of
from model.cursors.log import Place, TopicLog
from model.cursors.variants import DOCUMENT, CursorVariant
from model.events import Range
from model.log import EARLIEST, Position
from model.rules.catalogue import carries


class CursorLedger(enum.Enum):
    """The ledger that a cursor is persisted to. After a load there is none until the first write."""

    NONE = "none"
    OPENING = "opening"
    OPEN = "open"


class Record(Struct, frozen=True, gc=False):
    """A persisted state: position info, and the acks of single messages of batches."""

    info: PositionInfo
    parts: Bits[Position] = Bits()


class CursorSubscription(Struct, frozen=True, kw_only=True, cache_hash=True, gc=False):
    """A subscription. ``origin``: its state when it was created, reset or loaded.

    ``persisted`` survives a kill, and each of ``writes`` may: they are in flight, oldest first. ``limited``: how many
    intervals pass until the rate limiter allows a write. ``stored``: the state in the metadata store. ``miscounted``:
    by how many entries a variant miscounts the backlog.
    """

    variant: CursorVariant
    acked: Acked
    origin: Record
    persisted: Record
    writes: tuple[Record, ...] = ()
    limited: int = 0
    is_dirty: bool = False
    ledger: CursorLedger = CursorLedger.NONE
    stored: PositionInfo | None = None
    miscounted: int = 0


@carries("ACK-07")
def record_of(state: Acked) -> Record:
    return Record(info_of(state), state.parts)


def _to_be_written(subscription: CursorSubscription) -> Record:
    record = record_of(subscription.acked)
    return Record(record.info) if subscription.variant.partial_acks_never_persisted else record


@carries("ACK-07")
def recovered_from(record: Record, log: TopicLog, variant: CursorVariant = DOCUMENT) -> Acked:
    info = record.info
    if variant.range_start_included:
        info = PositionInfo(info.mark_delete, tuple(Range(_before(one.after), one.last) for one in info.ranges))
    return state_of(info, log, record.parts)


def created(state: Acked, variant: CursorVariant = DOCUMENT) -> CursorSubscription:
    """A new subscription; creating it persists it."""
    record = record_of(state)
    return CursorSubscription(variant=variant, acked=state, origin=record, persisted=record)


# -------------------------------------------------------------------------------------------------------------- stats


@carries("ACK-01", "ACK-02")
def stats_position(subscription: CursorSubscription, log: TopicLog) -> PositionInfo:
    """Mark-delete and the ranges after it, as the broker's stats show them."""
    info = info_of(subscription.acked)
    before = log.at_or_before(_before(info.mark_delete))
    if subscription.variant.mark_delete_stays and before != EARLIEST:
        return PositionInfo(before, (Range(before, info.mark_delete), *info.ranges))
    return with_first_ledger(info, log)


def with_first_ledger(info: PositionInfo, log: TopicLog) -> PositionInfo:
    """Position info that begins before the first ledger's entries if nothing is acknowledged."""
    if info.mark_delete != EARLIEST or not log.ledgers:
        return info
    return PositionInfo(Position(log.ledgers[0], -1), info.ranges)


@carries("ACK-01")
def backlog(subscription: CursorSubscription, log: TopicLog) -> int:
    """The number of unacknowledged entries."""
    if subscription.variant.backlog_of_messages:
        return sum(1 for _ in subscription.acked.messages_left(log))
    return max(0, subscription.acked.count_left(log) - subscription.miscounted)


# --------------------------------------------------------------------------------------------------- acknowledgments


@carries("ACK-03")
def acknowledge(subscription: CursorSubscription, log: TopicLog, places: Iterable[Place]) -> CursorSubscription:
    """These messages are acknowledged individually."""
    state = subscription.acked
    by_entry: dict[Position, list[Place]] = {}
    for place in places:
        by_entry.setdefault(place.position, []).append(place)
    for position, several in by_entry.items():
        state = _acknowledge_in(subscription.variant, state, log, position, several)
    is_of_parts = _entries(state) == _entries(subscription.acked) and not len(state.words)
    if subscription.variant.partial_acks_not_persisted and is_of_parts:
        return replace(subscription, acked=state)
    return _changed(subscription, state)


def _acknowledge_in(
    variant: CursorVariant, state: Acked, log: TopicLog, position: Position, places: list[Place]
) -> Acked:
    """Messages of one entry are acknowledged, correctly or as a variant does it."""
    left = tuple(islice(state.unacknowledged(log), 2))
    is_next = not left or position <= left[0]
    after = acked.acknowledge_all(state, log, [Place(position)] if variant.part_takes_whole_batch else places)
    if variant.part_ignored and not after.has(position):
        return state
    if variant.repeated_ack_takes_back and position > state.mark_delete and state.has(position):
        others = [one for one in state.beyond() if one != position]
        return acked.with_entries(Acked(state.mark_delete, parts=state.parts), log, others)
    if variant.lost_at_boundary and not is_next and position.entry == 0:
        return state
    if variant.bit_off_by_one and not is_next and not state.has(position):
        following = log.after(position)
        return state if following is None else acked.acknowledge(state, log, following)
    if variant.hole_jumped and left[1:] == (position,) and after.has(position):
        return acked.acknowledge(after, log, left[0])
    return after


@carries("ACK-04")
def acknowledge_up_to(subscription: CursorSubscription, log: TopicLog, place: Place) -> CursorSubscription:
    """Everything up to a message is acknowledged."""
    variant, state = subscription.variant, subscription.acked
    position, is_last = place.position, place.batch_index in (-1, log.size(place.position) - 1)
    if variant.cumulative_one_too_few and is_last:
        after = _up_to_before(state, log, place)
    elif variant.batch_index_acks_overwritten and not is_last:
        after = acked.overwritten(state, log, place)
    else:
        after = acked.acknowledge_up_to(state, log, place)
    if variant.cumulative_one_too_many and is_last and (following := log.after(position)) is not None:
        after = acked.acknowledge(after, log, following)
    return _changed(subscription, after)


def _up_to_before(state: Acked, log: TopicLog, place: Place) -> Acked:
    if place.batch_index > 0:
        return acked.acknowledge_up_to(state, log, Place(place.position, place.batch_index - 1))
    before = log.at_or_before(_before(place.position))
    return state if before == EARLIEST else acked.acknowledge_up_to(state, log, Place(before))


# ---------------------------------------------------------------------------------------------------- administration


@carries("ACK-04", "ACK-16")
def skip(
    subscription: CursorSubscription, log: TopicLog, count: int, *, is_reopened: bool = False
) -> CursorSubscription:
    """The next entries are acknowledged, which is persisted at once.

    ``is_reopened``: the topic was reloaded since it was terminated.
    """
    count += subscription.variant.skips_one_too_many
    stops_early = subscription.variant.terminated_last_ledger_not_skipped and is_reopened
    skipping = acked.skip_before_last_ledger if stops_early else acked.skip
    return _skipped(subscription, skipping(subscription.acked, log, count))


@carries("ACK-04", "ACK-16")
def skip_all(subscription: CursorSubscription, log: TopicLog) -> CursorSubscription:
    """The whole log is acknowledged, which is persisted at once."""
    if subscription.variant.skip_all_leaves_one:
        return _skipped(subscription, _up_to_before(subscription.acked, log, Place(log.last)))
    return _skipped(subscription, acked.everything(log))


def _skipped(subscription: CursorSubscription, state: Acked) -> CursorSubscription:
    variant = subscription.variant
    if state == subscription.acked:
        return subscription
    if variant.skip_never_persisted or (variant.skip_rate_limited and subscription.limited):
        return replace(subscription, acked=state, is_dirty=True)
    return replace(
        subscription,
        acked=state,
        persisted=record_of(state),
        writes=(),
        is_dirty=False,
        ledger=CursorLedger.OPEN,
    )


@carries("ACK-04")
def expire(subscription: CursorSubscription, log: TopicLog, up_to: Position) -> CursorSubscription:
    if subscription.variant.expires_one_too_many:
        up_to = log.after(up_to) or up_to
    return _changed(subscription, acked.acknowledge_up_to(subscription.acked, log, Place(up_to)))


@carries("ACK-01", "ACK-09", "ACK-16")
def reset(subscription: CursorSubscription, log: TopicLog, to: Position | None) -> CursorSubscription:
    """An entry is the next one (None: the first), and no later one is acknowledged. This is persisted at once."""
    state = acked.set_to(log, to)
    if subscription.variant.set_one_late and to is not None:
        state = Acked(to)
    miscounted = len(subscription.acked.beyond()) if subscription.variant.reset_miscounts_backlog else 0
    record = record_of(state)
    if subscription.variant.reset_keeps_former_ranges:
        former = [one for one in subscription.acked.beyond() if one > state.mark_delete]
        kept = acked.with_entries(state, log, former)
        parts = subscription.acked.parts
        parts = parts.put([(position, 0) for position in parts if kept.has(position)])
        record = record_of(Acked(kept.mark_delete, kept.words, parts))
    return replace(
        subscription,
        acked=state,
        origin=record,
        persisted=record,
        writes=(),
        is_dirty=False,
        ledger=CursorLedger.OPEN,
        miscounted=subscription.miscounted + miscounted,
    )


# ------------------------------------------------------------------------------------------------------- persistence


@carries("ACK-08", "ACK-15")
def _changed(subscription: CursorSubscription, state: Acked) -> CursorSubscription:
    """An ack persists its state, unless the rate limiter rejects it."""
    if state == subscription.acked:
        return subscription
    after = replace(subscription, acked=state)
    if subscription.limited and not subscription.variant.unlimited:
        return replace(after, is_dirty=True)
    return _write(after)


def _write(subscription: CursorSubscription) -> CursorSubscription:
    is_open = subscription.ledger is CursorLedger.OPEN
    return replace(
        subscription,
        writes=(*subscription.writes, _to_be_written(subscription)),
        limited=10 if subscription.variant.limited_tenfold else 1,
        is_dirty=False,
        ledger=CursorLedger.OPEN if is_open else CursorLedger.OPENING,
    )


@carries("ACK-08")
def interval_passed(subscription: CursorSubscription) -> CursorSubscription:
    """The rate limiter's interval is over."""
    return replace(subscription, limited=max(0, subscription.limited - 1))


@carries("ACK-08")
def flushed(subscription: CursorSubscription) -> CursorSubscription:
    """The flush interval is over: a dirty state is persisted."""
    variant = subscription.variant
    is_rejected = variant.flush_rate_limited and subscription.limited
    if not subscription.is_dirty or variant.never_flushed or variant.limited_tenfold or is_rejected:
        return subscription
    return _write(subscription)


@carries("ACK-08")
def written(subscription: CursorSubscription) -> CursorSubscription:
    """The oldest write completes."""
    oldest, *later = subscription.writes
    return replace(subscription, persisted=oldest, writes=tuple(later), ledger=CursorLedger.OPEN)


@carries("ACK-10")
def unloaded(subscription: CursorSubscription, log: TopicLog, stored_ranges: int) -> tuple[CursorSubscription, ...]:
    """The topic is unloaded gracefully and reloaded: nothing is lost.

    Fewer than ``stored_ranges`` ranges are stored in the metadata store, more in the cursor's ledger, and exactly as
    many in either.
    """
    variant, state = subscription.variant, subscription.acked
    if variant.unload_while_cursor_ledger_opens and subscription.ledger is CursorLedger.OPENING:
        state = Acked(recovered_from(subscription.origin, log).mark_delete, state.words, state.parts)
    if variant.unload_loses_ranges:
        state = Acked(state.mark_delete, parts=state.parts)
    if variant.unload_goes_one_further:
        state = _one_more(state, log)
    ranges = len(info_of(state).ranges)
    where = {ranges < stored_ranges, ranges <= stored_ranges}
    if variant.range_limit_ignored_on_unload and subscription.ledger is CursorLedger.NONE:
        where = {True}
    if variant.unload_bypasses_store and ranges:
        where = {False}
    return tuple(_loaded(record_of(state), variant, log, is_stored=is_stored) for is_stored in sorted(where))


@carries("ACK-09")
def killed(subscription: CursorSubscription, log: TopicLog) -> tuple[CursorSubscription, ...]:
    """The broker is killed. The topic recovers the persisted state, or a write that was in flight."""
    variant = subscription.variant
    survivors = (subscription.origin,) if variant.kill_loses_all else (subscription.persisted, *subscription.writes)
    if variant.kill_acknowledges:
        survivors = tuple(record_of(_one_more(recovered_from(one, log), log)) for one in survivors)
    return tuple(_loaded(record, variant, log, is_stored=False) for record in survivors)


def _loaded(record: Record, variant: CursorVariant, log: TopicLog, *, is_stored: bool) -> CursorSubscription:
    if variant.batch_index_acks_not_recovered and is_stored:
        record = Record(record.info)
    loaded = created(recovered_from(record, log, variant), variant)
    return replace(loaded, stored=record.info if is_stored else None)


def _one_more(state: Acked, log: TopicLog) -> Acked:
    return acked.skip(state, log, 1)


def _entries(state: Acked) -> tuple[object, ...]:
    return state.mark_delete, state.words


def _before(position: Position) -> Position:
    return Position(position.ledger, position.entry - 1)


# ------------------------------------------------------------------------------------------------------- the topic


@carries("ACK-05")
def on_one(
    subscriptions: tuple[CursorSubscription, ...],
    number: int,
    change: Callable[[CursorSubscription], CursorSubscription],
) -> tuple[CursorSubscription, ...]:
    """The subscriptions of a topic after an ack of one of them, which does not affect the others."""
    return tuple(
        change(one) if n == number or one.variant.acks_another_subscription else one
        for n, one in enumerate(subscriptions)
    )


@carries("ACK-14")
def deletable(log: TopicLog, closed: Iterable[int], subscriptions: tuple[CursorSubscription, ...]) -> tuple[int, ...]:
    """The closed ledgers that may be deleted: from the first one up to one with an unacknowledged entry."""

    def is_done(ledger: int) -> bool:
        entries = (Position(ledger, entry) for entry in range(log.counts.get(ledger, 0)))
        return all(one.acked.has(position) for position in entries for one in subscriptions)

    ledgers = tuple(closed)
    done = tuple(takewhile(is_done, ledgers))
    too_many = any(one.variant.trims_unacknowledged for one in subscriptions)
    return ledgers[: len(done) + too_many]
