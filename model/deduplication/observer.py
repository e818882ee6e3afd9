"""Document 000, deduplication, seen from outside: which states of one producer on one topic are still possible.

A *state* (:mod:`model.deduplication.producer_state`) is what the broker holds of one producer name on one topic: its
entries in the log, and the highest sequence ids *pushed* and *persisted*. States do not influence one another
(DEDUP-07), so possible states are kept producer by producer, and their number is a sum, not a product. A send of
unknown outcome leaves several states, one for each number of entries that the broker may have taken; what is observed
later (the id that a reopened producer learns, the answer to the next send, the log read back) leaves fewer. None left:
a rule is broken, and :mod:`model.deduplication.diagnosis` says which.

Not modelled here: what the broker does inside (that is ``model.deduplication.reference``, the reference), consumers
and acknowledgments, markers of replication. Chunks of one message share a sequence id and have a model of their own.

Batches: the document speaks of single messages. A batch is one entry with a lowest and a highest sequence id; it is new
when the lowest is above *pushed*, a duplicate when the highest is at or below *persisted*. A batch that overlaps cannot
be confirmed without losing or repeating a message, so it may only be refused.

Deviations of releases are states too: a state that is possible only because of one says so in ``requires``. When no
other state is left, the deviation was seen (:func:`model.deduplication.topic_observer.account_for`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import assert_never

from model.deduplication.producer_state import NONE, UNKNOWN_STATUS, Circumstances, ProducerState, StoredEntry
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


def send(state: ProducerState, entry: Entry, answer: Answer, around: Circumstances) -> tuple[ProducerState, ...]:
    """The states that are possible after this entry was sent and this answer came; none: the answer is not allowed."""
    before = _perhaps_behind(state)
    if around.by_pulsar_client and around.enabled and not isinstance(answer, Unknown):
        tried = [after for found in before for after in _send_once(found, entry, Unknown("an earlier try"), around)]
        before += [replace(found, cut=False) for found in tried]
    return tuple(after for found in before for after in _send_once(found, entry, answer, around))


def _send_once(state: ProducerState, entry: Entry, answer: Answer, around: Circumstances) -> tuple[ProducerState, ...]:
    if state.cut:
        return (state,) if isinstance(answer, Unknown) else ()
    if not around.enabled:
        return _send_unjudged(state, entry, answer, around)
    if around.switched_on:
        return _send_across_switch(state, entry, answer, around)
    states = _judge(state, entry, entry.highest, answer, around)
    if around.leaves_open(entry):
        endless = replace(state, requires=state.requires | {BATCH_WITHOUT_HIGHEST_ID})
        states += _judge(endless, entry, entry.lowest, answer, around)
    return states


def _judge(
    state: ProducerState, entry: Entry, highest: int, answer: Answer, around: Circumstances
) -> tuple[ProducerState, ...]:
    """What the broker may do with an entry whose highest id it takes to be ``highest``."""
    match answer:
        case Stored(position):
            is_next = is_new(state, entry.lowest) and _is_behind(state, position)
            return (_store(state, entry, highest, position, around),) if is_next else ()
        case Duplicate():
            return tuple(_confirm(state, entry.lowest, highest))
        case Refused(code):
            return _refuse(state, entry.lowest, highest, code, around)
        case Unknown():
            return tuple(_lose_sight(state, entry, highest, around))
        case _:
            assert_never(answer)


@carries("DEDUP-02", "DEDUP-06", "DEDUP-08", "DEDUP-12", "DEDUP-14")
def is_new(state: ProducerState, lowest: int) -> bool:
    """Above *pushed*, or, after a failed write, above what was written, to which *pushed* falls back (DEDUP-06).

    Only the number counts: neither gaps (DEDUP-08) nor what the message is about (DEDUP-14). After a recovery *pushed*
    is the highest id of the entries stored (DEDUP-12).
    """
    return lowest > (state.written if state.failed else state.pushed)


@carries("DEDUP-03", "DEDUP-05")
def is_duplicate(state: ProducerState, highest: int) -> bool:
    """At or below *persisted*, which follows the writes (DEDUP-05) and so may by now be all that was written."""
    return highest <= max(state.persisted, state.written)


@carries("DEDUP-14")
def is_about_something_old(state: ProducerState, entry: Entry) -> bool:
    """Whether something in the state was about the same business, which must not matter (DEDUP-14)."""
    business = {message.business_id for message in entry.messages}
    return any(message.business_id in business for kept in state.kept for message in kept.entry.messages)


@carries("DEDUP-04", "DEDUP-05")
def is_of_unknown_status(state: ProducerState, lowest: int, highest: int) -> bool:
    """Above *persisted*, at or below *pushed*: only while a write is in flight or has failed (DEDUP-05)."""
    return state.persisted < highest and lowest <= state.pushed


def overlaps(state: ProducerState, lowest: int, highest: int) -> bool:
    """A batch whose first message is not new, and whose last one is."""
    return lowest <= state.pushed < highest


def _store(
    state: ProducerState, entry: Entry, highest: int, position: Position | None, around: Circumstances
) -> ProducerState:
    earlier = tuple(_overtaken(k) if k.entry.highest <= highest else k for k in state.kept)
    is_fragile = around.may_fail and position is None
    ends = highest if around.leaves_open(entry) else None
    kept = StoredEntry(entry, position, is_fragile=is_fragile, ends=ends, in_move=around.may_fail)
    is_over = entry.lowest > state.stored and not _has_stored_again(state)
    requires = state.requires - _OVERTAKEN if is_over else state.requires
    return replace(
        state,
        kept=(*earlier, kept),
        pushed=max(state.pushed, highest),
        persisted=min(state.persisted, highest) if state.lags else state.persisted,
        is_recovered=False,
        lags=state.lags and highest < state.written,
        requires=requires if highest == entry.highest else requires | {BATCH_WITHOUT_HIGHEST_ID},
    )


_OVERTAKEN = frozenset({BATCH_WITHOUT_HIGHEST_ID, SNAPSHOT_POSITION_AHEAD, DEDUPLICATION_ENABLED_IN_FLIGHT})
"""The deviations of which nothing can be seen any more once an entry is stored behind all ids in the log."""


def _has_stored_again(state: ProducerState) -> bool:
    """Whether what the log holds of the state shows that something was stored again."""
    return any(after.entry.lowest <= before.entry.highest for before, after in pairwise(state.kept[state.since :]))


def _overtaken(kept: StoredEntry) -> StoredEntry:
    """An entry if one with a higher id is later in the log: how the broker counted it makes no difference any more."""
    if kept.ends is None and not kept.is_forgotten:
        return kept
    return replace(kept, ends=None, is_endless=kept.is_endless or kept.ends is not None, is_forgotten=False)


def _confirm(state: ProducerState, lowest: int, highest: int) -> Iterable[ProducerState]:
    """A duplicate: *persisted* has reached its highest id; or, the deviation, only its lowest."""
    if is_duplicate(state, highest):
        yield replace(state, persisted=max(state.persisted, highest), is_recovered=False)
    if lowest < highest and state.persisted < highest and lowest <= state.written:
        yield replace(
            state, persisted=max(state.persisted, lowest), requires=state.requires | {OVERLAPPING_BATCH_DROPPED}
        )


def _refuse(
    state: ProducerState, lowest: int, highest: int, code: str, around: Circumstances
) -> tuple[ProducerState, ...]:
    """A refusal stores nothing and confirms nothing: of an unknown status, of an overlap, or of a write that failed."""
    if code == UNKNOWN_STATUS:
        return (state,) if is_of_unknown_status(state, lowest, highest) else ()
    if overlaps(state, lowest, highest):
        return (state,)
    return (_fail(state, highest),) if around.may_fail else ()


def _fail(state: ProducerState, highest: int) -> ProducerState:
    return replace(state, pushed=max(state.pushed, highest), failed=True)


def _lose_sight(state: ProducerState, entry: Entry, highest: int, around: Circumstances) -> Iterable[ProducerState]:
    """No answer: the broker never saw the entry (nor those behind it), or did, and stored it if it was new."""
    if state.failed and not around.by_pulsar_client:
        # The producer of a write that failed is closed: what it sent behind that is not stored.
        yield _fail(state, highest)
        return
    yield replace(state, cut=True)
    if not is_new(state, entry.lowest):
        yield state
        return
    yield _store(state, entry, highest, None, around)
    if around.may_fail:
        yield _fail(state, highest)


def _is_behind(state: ProducerState, position: Position) -> bool:
    """Whether a position is behind those of the state, as that of a later entry is."""
    known = (kept.position for kept in reversed(state.kept) if kept.position is not None)
    return (last := next(known, None)) is None or position > last


@carries("DEDUP-01")
def _send_unjudged(
    state: ProducerState, entry: Entry, answer: Answer, around: Circumstances
) -> tuple[ProducerState, ...]:
    """Deduplication is off: whatever is sent is stored (DEDUP-01)."""
    match answer:
        case Stored(position):
            return (_keep(state, entry, position),) if _is_behind(state, position) else ()
        case Duplicate():
            return ()
        case Refused():
            return (state,) if around.may_fail else ()
        case Unknown():
            kept = (*state.kept, StoredEntry(entry, maybe=state.unanswered))
            return (replace(state, kept=kept),)
        case _:
            assert_never(answer)


@carries("DEDUP-01", "DEDUP-05")
def _send_across_switch(
    state: ProducerState, entry: Entry, answer: Answer, around: Circumstances
) -> tuple[ProducerState, ...]:
    """Deduplication was switched on while the entry was on its way.

    Either it came to the broker behind that and was judged, or before it and was not. Then, either it was stored before
    deduplication was on and does not count, or behind that and counts for both *pushed* and *persisted*; or, the
    deviation, for *persisted* alone.
    """
    states = _judge(state, entry, entry.highest, answer, around)
    if state.since == len(state.kept):
        states += tuple(replace(old, since=len(old.kept)) for old in _send_unjudged(state, entry, answer, around))
    if isinstance(answer, Stored) and _is_behind(state, answer.position):
        states += (_store(state, entry, entry.highest, answer.position, around),)
        if state.pushed < entry.highest:
            lagging = _keep(state, entry, answer.position)
            states += (replace(lagging, lags=True, requires=_in_flight(state)),)
    return states


def _keep(state: ProducerState, entry: Entry, position: Position | None) -> ProducerState:
    return replace(state, kept=(*state.kept, StoredEntry(entry, position)))


def settle(state: ProducerState, *, all_answered: bool) -> ProducerState:
    """The entries of one send are through: *persisted* is at least what was confirmed, or stands before that.

    The log has one order, so the writes before one that is confirmed are over. Behind it, writes of which nobody was
    told may be in flight.
    """
    state = _with_last_recorded(state) if state.lags else state
    places = (n for n, kept in enumerate(state.kept, start=1) if n > state.since and kept.position is not None)
    confirmed = max(places, default=state.since)
    counted = (kept for kept in state.kept[state.since : confirmed] if not kept.is_forgotten)
    persisted = max((kept.highest for kept in counted), default=NONE)
    kept = tuple(
        replace(k, is_fragile=False) if k.is_fragile and n < confirmed else k for n, k in enumerate(state.kept)
    )
    unanswered = state.unanswered + (not all_answered)
    return replace(state, kept=kept, cut=False, persisted=max(state.persisted, persisted), unanswered=unanswered)


def _with_last_recorded(state: ProducerState) -> ProducerState:
    """A state that lags, when its last entry has a lower id than others: that id is what was recorded last, and counts.

    Nowhere else does an entry stand behind one with a higher id.
    """
    last = state.kept[-1] if len(state.kept) > state.since else None
    if last is None or last.position is None or last.highest >= state.written:
        return state
    kept = tuple(
        replace(k, is_forgotten=True) if n >= state.since and k.highest > last.highest else k
        for n, k in enumerate(state.kept)
    )
    return replace(state, kept=kept, persisted=min(state.persisted, last.highest), lags=state.pushed < last.highest)


@carries("DEDUP-09", "DEDUP-12")
def opened(state: ProducerState, last_sequence_id: int) -> tuple[ProducerState, ...]:
    """A reopened producer learns the highest id stored for it; no other state could have told it this."""
    on_time, *late = _perhaps_behind(state)
    if on_time.is_behind and last_sequence_id == on_time.pushed:
        return (replace(on_time, is_recovered=False),)
    possible = (on_time, *without_pending(on_time, only_fragile=True))
    still_late = (replace(found, is_recovered=False) for found in late if found.pushed == last_sequence_id)
    return (*(_reported(found) for found in possible if found.last_sequence_id == last_sequence_id), *still_late)


def _reported(state: ProducerState) -> ProducerState:
    kept = tuple(replace(k, is_reported=k.position is None) for k in state.kept)
    return replace(state, kept=kept, pushed=state.last_sequence_id, failed=False, is_recovered=False, is_behind=False)


@carries("DEDUP-10", "DEDUP-11", "DEDUP-12")
def recover(
    state: ProducerState, *, may_be_forgotten: bool, may_race: bool, ledger_room: int | None = None
) -> tuple[ProducerState, ...]:
    """The topic was closed and loaded again: its highest ids are those of the entries stored (DEDUP-12).

    Whatever the last snapshot was, or whether one failed (DEDUP-11): the entries behind it are replayed. Only a
    producer that a full snapshot had no room for may be forgotten (DEDUP-10). Entries whose answers never came may
    have been lost with the broker, those too of which it is known that they were in flight.
    """
    states = [_recovered(possible) for possible in (state, *without_pending(state, only_fragile=False))]
    if _ends_with_its_ledger(state, ledger_room):
        states.append(_recovered(_forgetting_the_last(state)))
    if may_race:
        states = [replace(found, may_be_behind=True, raced=len(found.kept)) for found in states]
    if may_be_forgotten:
        states += [replace(found, pushed=NONE, persisted=NONE, since=len(found.kept)) for found in states]
    return tuple(states)


def has_recovered(state: ProducerState) -> tuple[ProducerState, ...]:
    """No recovery goes on any more behind what the broker does for this producer."""
    return (replace(state, may_be_behind=False),)


def _recovered(state: ProducerState) -> ProducerState:
    return replace(
        state,
        pushed=state.written,
        persisted=state.written,
        failed=False,
        cut=False,
        is_recovered=True,
        may_be_behind=False,
        is_behind=False,
        lags=False,
        requires=state.requires - {DEDUPLICATION_ENABLED_IN_FLIGHT}
        if state.lags and not _has_stored_again(state)
        else state.requires,
    )


def _ends_with_its_ledger(state: ProducerState, ledger_room: int | None) -> bool:
    """Whether its last entry is known to be the last that there was room for in its ledger."""
    last = state.kept[-1] if len(state.kept) > state.since else None
    return last is not None and last.position is not None and last.position.entry + 1 == ledger_room


def _forgetting_the_last(state: ProducerState) -> ProducerState:
    """The same state if the snapshot's position is its last entry, whose id the snapshot lacks."""
    kept = (*state.kept[:-1], replace(state.kept[-1], is_forgotten=True))
    return replace(state, kept=kept, requires=state.requires | {SNAPSHOT_POSITION_AHEAD})


def _perhaps_behind(state: ProducerState) -> list[ProducerState]:
    """The state, and the same when only some of its entries were replayed by the time that producers were let in."""
    if not state.may_be_behind:
        return [state]
    state = replace(state, may_be_behind=False)
    late = replace(state, is_behind=True, requires=state.requires | {SECOND_RECOVERY_NOT_AWAITED})
    known = {NONE, *(kept.highest for kept in state.kept[state.since :])} - {state.written}
    return [state, *(replace(late, pushed=highest, persisted=highest) for highest in known)]


def expose(state: ProducerState) -> ProducerState:
    """Writes may fail from now on, those too that are in flight already."""
    kept = tuple(
        replace(k, is_fragile=True) if k.position is None and k.maybe is None and k.highest > state.persisted else k
        for k in state.kept
    )
    return replace(state, kept=kept)


def without_pending(state: ProducerState, *, only_fragile: bool) -> Iterable[ProducerState]:
    """The same state when its last writes, which nobody saw confirmed, failed or were lost.

    If a producer got the id of one nevertheless, that is a deviation. Only fragile writes can fail without the topic
    being closed; where no producer got the id of one, the states without it are possible already.
    """
    kept, requires = state.kept, state.requires
    while (
        kept and _is_pending(state, kept[-1]) and (not only_fragile or (kept[-1].is_fragile and kept[-1].is_reported))
    ):
        if kept[-1].is_reported:
            requires |= {PUSHED_ID_IN_PRODUCER_SUCCESS}
        kept = kept[:-1]
        yield replace(state, kept=kept, since=min(state.since, len(kept)), requires=requires)


def _is_pending(state: ProducerState, kept: StoredEntry) -> bool:
    """Whether the write of an entry may be in flight still: it was not confirmed, as stored or as a duplicate."""
    return kept.position is None and kept.maybe is None and kept.highest > state.persisted


@carries("DEDUP-01")
def switch(state: ProducerState, *, on: bool) -> tuple[ProducerState, ...]:
    """Deduplication was switched on or off: what came before is no longer counted.

    When it is switched on, entries whose producer is gone may be on their way to the log still: some of the last, as
    far as they come there, are stored behind that, and count; or, the deviation, for *persisted* alone.
    """
    after = replace(
        state, pushed=NONE, persisted=NONE, since=len(state.kept), failed=False, is_recovered=False, lags=False
    )
    states = [after]
    for first in reversed(range(len(state.kept))) if on else ():
        if state.kept[first].maybe is None:
            break
        for end in range(first + 1, len(state.kept) + 1):
            counted = (replace(kept, maybe=None) for kept in state.kept[first:end])
            late = replace(after, kept=(*state.kept[:first], *counted), since=first)
            states += (replace(late, pushed=late.written), replace(late, lags=True, requires=_in_flight(state)))
    return tuple(states)


def _in_flight(state: ProducerState) -> frozenset[str]:
    return state.requires | {DEDUPLICATION_ENABLED_IN_FLIGHT}


@carries("DEDUP-10")
def in_snapshot(
    state: ProducerState, highest: int, position: Position, *, ledger_room: int | None
) -> tuple[ProducerState, ...]:
    """A snapshot at this position has this id for the producer; -1: none.

    It is of nothing that was not persisted, and of all that was up to its position. It may be newer than that (the
    replay does not mind); or, the deviations, have come in between its last entry and the recording of that, or have
    been taken while the recovery was going on behind, and lack what that had not replayed.
    """
    if highest > max((kept.highest for kept in state.kept[state.since :]), default=state.persisted):
        return ()
    if highest >= written_up_to(state, position):
        return (state,)
    if any(highest < kept.highest for kept in state.kept[state.since : state.raced]):
        return (replace(state, requires=state.requires | {SECOND_RECOVERY_NOT_AWAITED}),)
    last = next((n for n in range(state.since, len(state.kept)) if state.kept[n].position == position), None)
    if last is None or not (position.entry + 1 == ledger_room or state.kept[last].in_move):
        return ()
    before = replace(state, kept=state.kept[:last])
    is_ahead = highest >= written_up_to(before, position)
    return (replace(state, requires=state.requires | {SNAPSHOT_POSITION_AHEAD}),) if is_ahead else ()


def written_up_to(state: ProducerState, position: Position) -> int:
    """The id that the broker counts at least, of the entries up to a position: that of the last, not the highest."""
    ids = [
        k.entry.lowest if k.is_endless else k.highest
        for k in state.kept[state.since :]
        if k.position is not None and k.position <= position and not k.is_forgotten
    ]
    return ids[-1] if ids else NONE


@carries("DEDUP-02", "DEDUP-03", "DEDUP-04", "DEDUP-12")
def read_back(state: ProducerState, found: Sequence[LoggedEntry]) -> tuple[ProducerState, ...]:
    """The log was read when nothing was in flight: it holds the state's entries, each once, in order, in place."""
    for possible in (state, *without_pending(state, only_fragile=True)):
        settled = _match(possible.kept, found)
        if settled is not None:
            since = _counted_from(possible, settled)
            return (settle(replace(possible, kept=settled, since=since), all_answered=True),)
    return ()


def _match(kept: Sequence[StoredEntry], found: Sequence[LoggedEntry]) -> tuple[StoredEntry, ...] | None:
    """The entries that are there, with their positions; None where the log cannot be what is left of ``kept``.

    What may be missing is taken for there as long as the rest can still match, which needs a look back at times.
    """
    if not kept:
        return None if found else ()
    first = kept[0]
    if found and first.entry == found[0].entry and first.position in (None, found[0].position):
        rest = _match(kept[1:], found[1:])
        if rest is not None:
            return (replace(first, position=found[0].position, is_reported=False, is_fragile=False, maybe=None), *rest)
    if first.maybe is None:
        return None
    return _match([k for k in kept if k.maybe != first.maybe], found)


def _counted_from(state: ProducerState, settled: Sequence[StoredEntry]) -> int:
    """Where counting begins in what is left: as many counted entries are left as there were, none of them uncertain."""
    return len(settled) - (len(state.kept) - state.since)
