"""Document 000, deduplication, seen from outside: which states of one producer on one topic are still possible.

A *lane* (:mod:`model.deduplication.producer_state`) is what the broker holds of one producer name on one topic: its
entries in the log, and the highest sequence ids *pushed* and *persisted*. Lanes do not influence one another
(DEDUP-07), so possible states are kept lane by lane, and their number is a sum, not a product. A send of unknown
outcome leaves several lanes, one for each number of entries that the broker may have taken; what is observed later
(the id that a reopened producer learns, the answer to the next send, the log read back) leaves fewer. None left: a
rule is broken, and :mod:`model.deduplication.diagnosis` says which.

Not modelled here: what the broker does inside (that is ``model.deduplication.reference``, the reference), consumers
and acknowledgments, markers of replication. Chunks of one message share a sequence id and have a model of their own.

Batches: the document speaks of single messages. A batch is one entry with a lowest and a highest sequence id; it is new
when the lowest is above *pushed*, a duplicate when the highest is at or below *persisted*. A batch that overlaps cannot
be confirmed without losing or repeating a message, so it may only be refused.

Deviations of releases are lanes too: a lane that is possible only because of one says so in ``shown``. When no other
lane is left, the deviation was seen (:func:`model.deduplication.topic_observer.account_for`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import assert_never

from model.deduplication.producer_state import NONE, UNKNOWN_STATUS, Circumstances, Kept, Lane
from model.deviations.deduplication import (
    BATCH_WITHOUT_HIGHEST_ID,
    DEDUPLICATION_ENABLED_IN_FLIGHT,
    OVERLAPPING_BATCH_DROPPED,
    PUSHED_ID_IN_PRODUCER_SUCCESS,
    SECOND_RECOVERY_NOT_AWAITED,
    SNAPSHOT_POSITION_AHEAD,
)
from model.events import Answer, Duplicate, LoggedEntry, Refused, Stored, Unknown
from model.log import Position
from model.rules.catalogue import carries
from model.vocabulary import Entry


def send(lane: Lane, entry: Entry, answer: Answer, around: Circumstances) -> tuple[Lane, ...]:
    """The lanes that are possible after this entry was sent and this answer came; none: the answer is not allowed."""
    before = _perhaps_behind(lane)
    if around.by_pulsar_client and around.enabled and not isinstance(answer, Unknown):
        tried = [after for found in before for after in _send_once(found, entry, Unknown("an earlier try"), around)]
        before += [replace(found, cut=False) for found in tried]
    return tuple(after for found in before for after in _send_once(found, entry, answer, around))


def _send_once(lane: Lane, entry: Entry, answer: Answer, around: Circumstances) -> tuple[Lane, ...]:
    if lane.cut:
        return (lane,) if isinstance(answer, Unknown) else ()
    if not around.enabled:
        return _send_unjudged(lane, entry, answer, around)
    if around.switched_on:
        return _send_across_switch(lane, entry, answer, around)
    lanes = _judge(lane, entry, entry.highest, answer, around)
    if around.leaves_open(entry):
        endless = replace(lane, shown=lane.shown | {BATCH_WITHOUT_HIGHEST_ID})
        lanes += _judge(endless, entry, entry.lowest, answer, around)
    return lanes


def _judge(lane: Lane, entry: Entry, highest: int, answer: Answer, around: Circumstances) -> tuple[Lane, ...]:
    """What the broker may do with an entry whose highest id it takes to be ``highest``."""
    match answer:
        case Stored(position):
            is_next = is_new(lane, entry.lowest) and _is_behind(lane, position)
            return (_store(lane, entry, highest, position, around),) if is_next else ()
        case Duplicate():
            return tuple(_confirm(lane, entry.lowest, highest))
        case Refused(code):
            return _refuse(lane, entry.lowest, highest, code, around)
        case Unknown():
            return tuple(_lose_sight(lane, entry, highest, around))
        case _:
            assert_never(answer)


@carries("DEDUP-02", "DEDUP-06", "DEDUP-08", "DEDUP-12", "DEDUP-14")
def is_new(lane: Lane, lowest: int) -> bool:
    """Above *pushed*, or, after a failed write, above what was written, to which *pushed* falls back (DEDUP-06).

    Only the number counts: neither gaps (DEDUP-08) nor what the message is about (DEDUP-14). After a recovery *pushed*
    is the highest id of the entries stored (DEDUP-12).
    """
    return lowest > (lane.written if lane.failed else lane.pushed)


@carries("DEDUP-03", "DEDUP-05")
def is_duplicate(lane: Lane, highest: int) -> bool:
    """At or below *persisted*, which follows the writes (DEDUP-05) and so may by now be all that was written."""
    return highest <= max(lane.persisted, lane.written)


@carries("DEDUP-14")
def is_about_something_old(lane: Lane, entry: Entry) -> bool:
    """Whether something in the lane was about the same business, which must not matter (DEDUP-14)."""
    business = {message.business_id for message in entry.messages}
    return any(message.business_id in business for kept in lane.kept for message in kept.entry.messages)


@carries("DEDUP-04", "DEDUP-05")
def is_of_unknown_status(lane: Lane, lowest: int, highest: int) -> bool:
    """Above *persisted*, at or below *pushed*: only while a write is in flight or has failed (DEDUP-05)."""
    return lane.persisted < highest and lowest <= lane.pushed


def overlaps(lane: Lane, lowest: int, highest: int) -> bool:
    """A batch whose first message is not new, and whose last one is."""
    return lowest <= lane.pushed < highest


def _store(lane: Lane, entry: Entry, highest: int, position: Position | None, around: Circumstances) -> Lane:
    earlier = tuple(_overtaken(k) if k.entry.highest <= highest else k for k in lane.kept)
    is_fragile = around.may_fail and position is None
    ends = highest if around.leaves_open(entry) else None
    kept = Kept(entry, position, is_fragile=is_fragile, ends=ends, in_move=around.may_fail)
    is_over = entry.lowest > lane.stored and not _has_stored_again(lane)
    shown = lane.shown - _OVERTAKEN if is_over else lane.shown
    return replace(
        lane,
        kept=(*earlier, kept),
        pushed=max(lane.pushed, highest),
        persisted=min(lane.persisted, highest) if lane.lags else lane.persisted,
        moved=False,
        lags=lane.lags and highest < lane.written,
        shown=shown if highest == entry.highest else shown | {BATCH_WITHOUT_HIGHEST_ID},
    )


_OVERTAKEN = frozenset({BATCH_WITHOUT_HIGHEST_ID, SNAPSHOT_POSITION_AHEAD, DEDUPLICATION_ENABLED_IN_FLIGHT})
"""The deviations of which nothing can be seen any more once an entry is stored behind all ids in the log."""


def _has_stored_again(lane: Lane) -> bool:
    """Whether what the log holds of the lane shows that something was stored again."""
    return any(after.entry.lowest <= before.entry.highest for before, after in pairwise(lane.kept[lane.since :]))


def _overtaken(kept: Kept) -> Kept:
    """An entry if one with a higher id is later in the log: how the broker counted it makes no difference any more."""
    if kept.ends is None and not kept.is_forgotten:
        return kept
    return replace(kept, ends=None, is_endless=kept.is_endless or kept.ends is not None, is_forgotten=False)


def _confirm(lane: Lane, lowest: int, highest: int) -> Iterable[Lane]:
    """A duplicate: *persisted* has reached its highest id; or, the deviation, only its lowest."""
    if is_duplicate(lane, highest):
        yield replace(lane, persisted=max(lane.persisted, highest), moved=False)
    if lowest < highest and lane.persisted < highest and lowest <= lane.written:
        yield replace(lane, persisted=max(lane.persisted, lowest), shown=lane.shown | {OVERLAPPING_BATCH_DROPPED})


def _refuse(lane: Lane, lowest: int, highest: int, code: str, around: Circumstances) -> tuple[Lane, ...]:
    """A refusal stores nothing and confirms nothing: of an unknown status, of an overlap, or of a write that failed."""
    if code == UNKNOWN_STATUS:
        return (lane,) if is_of_unknown_status(lane, lowest, highest) else ()
    if overlaps(lane, lowest, highest):
        return (lane,)
    return (_fail(lane, highest),) if around.may_fail else ()


def _fail(lane: Lane, highest: int) -> Lane:
    return replace(lane, pushed=max(lane.pushed, highest), failed=True)


def _lose_sight(lane: Lane, entry: Entry, highest: int, around: Circumstances) -> Iterable[Lane]:
    """No answer: the broker never saw the entry (nor those behind it), or did, and stored it if it was new."""
    if lane.failed and not around.by_pulsar_client:
        # The producer of a write that failed is closed: what it sent behind that is not stored.
        yield _fail(lane, highest)
        return
    yield replace(lane, cut=True)
    if not is_new(lane, entry.lowest):
        yield lane
        return
    yield _store(lane, entry, highest, None, around)
    if around.may_fail:
        yield _fail(lane, highest)


def _is_behind(lane: Lane, position: Position) -> bool:
    """Whether a position is behind those of the lane, as that of a later entry is."""
    known = (kept.position for kept in reversed(lane.kept) if kept.position is not None)
    return (last := next(known, None)) is None or position > last


@carries("DEDUP-01")
def _send_unjudged(lane: Lane, entry: Entry, answer: Answer, around: Circumstances) -> tuple[Lane, ...]:
    """Deduplication is off: whatever is sent is stored (DEDUP-01)."""
    match answer:
        case Stored(position):
            return (_keep(lane, entry, position),) if _is_behind(lane, position) else ()
        case Duplicate():
            return ()
        case Refused():
            return (lane,) if around.may_fail else ()
        case Unknown():
            kept = (*lane.kept, Kept(entry, maybe=lane.unanswered))
            return (replace(lane, kept=kept),)
        case _:
            assert_never(answer)


@carries("DEDUP-01", "DEDUP-05")
def _send_across_switch(lane: Lane, entry: Entry, answer: Answer, around: Circumstances) -> tuple[Lane, ...]:
    """Deduplication was switched on while the entry was on its way.

    Either it came to the broker behind that and was judged, or before it and was not. Then, either it was stored before
    deduplication was on and does not count, or behind that and counts for both *pushed* and *persisted*; or, the
    deviation, for *persisted* alone.
    """
    lanes = _judge(lane, entry, entry.highest, answer, around)
    if lane.since == len(lane.kept):
        lanes += tuple(replace(old, since=len(old.kept)) for old in _send_unjudged(lane, entry, answer, around))
    if isinstance(answer, Stored) and _is_behind(lane, answer.position):
        lanes += (_store(lane, entry, entry.highest, answer.position, around),)
        if lane.pushed < entry.highest:
            lagging = _keep(lane, entry, answer.position)
            lanes += (replace(lagging, lags=True, shown=_in_flight(lane)),)
    return lanes


def _keep(lane: Lane, entry: Entry, position: Position | None) -> Lane:
    return replace(lane, kept=(*lane.kept, Kept(entry, position)))


def settle(lane: Lane, *, all_answered: bool) -> Lane:
    """The entries of one send are through: *persisted* is at least what was confirmed, or stands before that.

    The log has one order, so the writes before one that is confirmed are over. Behind it, writes of which nobody was
    told may be in flight.
    """
    lane = _with_last_recorded(lane) if lane.lags else lane
    places = (n for n, kept in enumerate(lane.kept, start=1) if n > lane.since and kept.position is not None)
    confirmed = max(places, default=lane.since)
    counted = (kept for kept in lane.kept[lane.since : confirmed] if not kept.is_forgotten)
    persisted = max((kept.highest for kept in counted), default=NONE)
    kept = tuple(replace(k, is_fragile=False) if k.is_fragile and n < confirmed else k for n, k in enumerate(lane.kept))
    unanswered = lane.unanswered + (not all_answered)
    return replace(lane, kept=kept, cut=False, persisted=max(lane.persisted, persisted), unanswered=unanswered)


def _with_last_recorded(lane: Lane) -> Lane:
    """A lane that lags, when its last entry has a lower id than others: that id is what was recorded last, and counts.

    Nowhere else does an entry stand behind one with a higher id.
    """
    last = lane.kept[-1] if len(lane.kept) > lane.since else None
    if last is None or last.position is None or last.highest >= lane.written:
        return lane
    kept = tuple(
        replace(k, is_forgotten=True) if n >= lane.since and k.highest > last.highest else k
        for n, k in enumerate(lane.kept)
    )
    return replace(lane, kept=kept, persisted=min(lane.persisted, last.highest), lags=lane.pushed < last.highest)


@carries("DEDUP-09", "DEDUP-12")
def opened(lane: Lane, last_sequence_id: int) -> tuple[Lane, ...]:
    """A reopened producer learns the highest id stored for it; no other lane could have told it this."""
    on_time, *late = _perhaps_behind(lane)
    if on_time.is_behind and last_sequence_id == on_time.pushed:
        return (replace(on_time, moved=False),)
    possible = (on_time, *without_pending(on_time, only_fragile=True))
    still_late = (replace(found, moved=False) for found in late if found.pushed == last_sequence_id)
    return (*(_told(found) for found in possible if found.told == last_sequence_id), *still_late)


def _told(lane: Lane) -> Lane:
    kept = tuple(replace(k, told=k.position is None) for k in lane.kept)
    return replace(lane, kept=kept, pushed=lane.told, failed=False, moved=False, is_behind=False)


@carries("DEDUP-10", "DEDUP-11", "DEDUP-12")
def recover(lane: Lane, *, may_be_forgotten: bool, may_race: bool, ledger_room: int | None = None) -> tuple[Lane, ...]:
    """The topic was closed and loaded again: its highest ids are those of the entries stored (DEDUP-12).

    Whatever the last snapshot was, or whether one failed (DEDUP-11): the entries behind it are replayed. Only a
    producer that a full snapshot had no room for may be forgotten (DEDUP-10). Entries whose answers never came may
    have been lost with the broker, those too of which it is known that they were in flight.
    """
    lanes = [_recovered(possible) for possible in (lane, *without_pending(lane, only_fragile=False))]
    if _ends_with_its_ledger(lane, ledger_room):
        lanes.append(_recovered(_forgetting_the_last(lane)))
    if may_race:
        lanes = [replace(found, may_be_behind=True, raced=len(found.kept)) for found in lanes]
    if may_be_forgotten:
        lanes += [replace(found, pushed=NONE, persisted=NONE, since=len(found.kept)) for found in lanes]
    return tuple(lanes)


def _recovered(lane: Lane) -> Lane:
    return replace(
        lane,
        pushed=lane.written,
        persisted=lane.written,
        failed=False,
        cut=False,
        moved=True,
        may_be_behind=False,
        is_behind=False,
        lags=False,
        shown=lane.shown - {DEDUPLICATION_ENABLED_IN_FLIGHT}
        if lane.lags and not _has_stored_again(lane)
        else lane.shown,
    )


def _ends_with_its_ledger(lane: Lane, ledger_room: int | None) -> bool:
    """Whether its last entry is known to be the last that there was room for in its ledger."""
    last = lane.kept[-1] if len(lane.kept) > lane.since else None
    return last is not None and last.position is not None and last.position.entry + 1 == ledger_room


def _forgetting_the_last(lane: Lane) -> Lane:
    """The same lane when the snapshot stands at its last entry without having its id."""
    kept = (*lane.kept[:-1], replace(lane.kept[-1], is_forgotten=True))
    return replace(lane, kept=kept, shown=lane.shown | {SNAPSHOT_POSITION_AHEAD})


def _perhaps_behind(lane: Lane) -> list[Lane]:
    """The lane, and the same when only some of its entries were replayed by the time that producers were let in."""
    if not lane.may_be_behind:
        return [lane]
    lane = replace(lane, may_be_behind=False)
    late = replace(lane, is_behind=True, shown=lane.shown | {SECOND_RECOVERY_NOT_AWAITED})
    known = {NONE, *(kept.highest for kept in lane.kept[lane.since :])} - {lane.written}
    return [lane, *(replace(late, pushed=highest, persisted=highest) for highest in known)]


def expose(lane: Lane) -> Lane:
    """Writes may fail from now on, those too that are in flight already."""
    kept = tuple(
        replace(k, is_fragile=True) if k.position is None and k.maybe is None and k.highest > lane.persisted else k
        for k in lane.kept
    )
    return replace(lane, kept=kept)


def without_pending(lane: Lane, *, only_fragile: bool) -> Iterable[Lane]:
    """The same lane when its last writes, which nobody saw confirmed, failed or were lost.

    That a producer was told of one nevertheless is a deviation. Those that can fail without the topic being closed are
    the fragile ones, and of these the lanes without them are possible already where no producer was told.
    """
    kept, shown = lane.kept, lane.shown
    while kept and _is_pending(lane, kept[-1]) and (not only_fragile or (kept[-1].is_fragile and kept[-1].told)):
        if kept[-1].told:
            shown |= {PUSHED_ID_IN_PRODUCER_SUCCESS}
        kept = kept[:-1]
        yield replace(lane, kept=kept, since=min(lane.since, len(kept)), shown=shown)


def _is_pending(lane: Lane, kept: Kept) -> bool:
    """Whether the write of an entry may be in flight still: it was not confirmed, as stored or as a duplicate."""
    return kept.position is None and kept.maybe is None and kept.highest > lane.persisted


@carries("DEDUP-01")
def switch(lane: Lane, *, on: bool) -> tuple[Lane, ...]:
    """Deduplication was switched on or off: what came before is no longer counted.

    When it is switched on, entries whose producer is gone may be on their way to the log still: some of the last, as
    far as they come there, are stored behind that, and count; or, the deviation, for *persisted* alone.
    """
    after = replace(lane, pushed=NONE, persisted=NONE, since=len(lane.kept), failed=False, moved=False, lags=False)
    lanes = [after]
    for first in reversed(range(len(lane.kept))) if on else ():
        if lane.kept[first].maybe is None:
            break
        for end in range(first + 1, len(lane.kept) + 1):
            counted = (replace(kept, maybe=None) for kept in lane.kept[first:end])
            late = replace(after, kept=(*lane.kept[:first], *counted), since=first)
            lanes += (replace(late, pushed=late.written), replace(late, lags=True, shown=_in_flight(lane)))
    return tuple(lanes)


def _in_flight(lane: Lane) -> frozenset[str]:
    return lane.shown | {DEDUPLICATION_ENABLED_IN_FLIGHT}


@carries("DEDUP-10")
def in_snapshot(lane: Lane, highest: int, position: Position, *, ledger_room: int | None) -> tuple[Lane, ...]:
    """A snapshot at this position has this id for the producer; -1: none.

    It is of nothing that was not persisted, and of all that was up to its position. It may be newer than that (the
    replay does not mind); or, the deviations, have come in between its last entry and the recording of that, or have
    been taken while the recovery was going on behind, and lack what that had not replayed.
    """
    if highest > max((kept.highest for kept in lane.kept[lane.since :]), default=lane.persisted):
        return ()
    if highest >= written_up_to(lane, position):
        return (lane,)
    if any(highest < kept.highest for kept in lane.kept[lane.since : lane.raced]):
        return (replace(lane, shown=lane.shown | {SECOND_RECOVERY_NOT_AWAITED}),)
    last = next((n for n in range(lane.since, len(lane.kept)) if lane.kept[n].position == position), None)
    if last is None or not (position.entry + 1 == ledger_room or lane.kept[last].in_move):
        return ()
    before = replace(lane, kept=lane.kept[:last])
    is_ahead = highest >= written_up_to(before, position)
    return (replace(lane, shown=lane.shown | {SNAPSHOT_POSITION_AHEAD}),) if is_ahead else ()


def written_up_to(lane: Lane, position: Position) -> int:
    """The id that the broker counts at least, of the entries up to a position: that of the last, not the highest."""
    ids = [
        k.entry.lowest if k.is_endless else k.highest
        for k in lane.kept[lane.since :]
        if k.position is not None and k.position <= position and not k.is_forgotten
    ]
    return ids[-1] if ids else NONE


@carries("DEDUP-02", "DEDUP-03", "DEDUP-04", "DEDUP-12")
def read_back(lane: Lane, found: Sequence[LoggedEntry]) -> tuple[Lane, ...]:
    """The log was read when nothing was in flight: it holds the lane's entries, each once, in order, in place."""
    for possible in (lane, *without_pending(lane, only_fragile=True)):
        settled = _match(possible.kept, found)
        if settled is not None:
            since = _counted_from(possible, settled)
            return (settle(replace(possible, kept=settled, since=since), all_answered=True),)
    return ()


def _match(kept: Sequence[Kept], found: Sequence[LoggedEntry]) -> tuple[Kept, ...] | None:
    """The entries that are there, with their positions; None where the log cannot be what is left of ``kept``.

    What may be missing is taken for there as long as the rest can still match, which needs a look back at times.
    """
    if not kept:
        return None if found else ()
    first = kept[0]
    if found and first.entry == found[0].entry and first.position in (None, found[0].position):
        rest = _match(kept[1:], found[1:])
        if rest is not None:
            return (replace(first, position=found[0].position, told=False, is_fragile=False, maybe=None), *rest)
    if first.maybe is None:
        return None
    return _match([k for k in kept if k.maybe != first.maybe], found)


def _counted_from(lane: Lane, settled: Sequence[Kept]) -> int:
    """Where counting begins in what is left: as many counted entries are left as there were, none of them uncertain."""
    return len(settled) - (len(lane.kept) - lane.since)
