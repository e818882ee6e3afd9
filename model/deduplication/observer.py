"""The observer of document 000, deduplication: the possible states of one producer on one topic.

A *state* (:mod:`model.deduplication.producer_state`) is the broker's knowledge of one producer name on one topic: its
entries in the log, and the highest sequence ids *pushed* and *persisted*. Producers are independent (DEDUP-07), so the
observer keeps possible states by producer, and their number is a sum, not a product. A send with an unknown outcome
gives several states, one for each number of entries that the broker may have stored. Later observations exclude
states: the last sequence id in ProducerSuccess, the answer to the next send, a read of the log. If none is left, a rule
is broken, and :mod:`model.deduplication.diagnosis` names it.

Not modelled here: the inside of the broker (``model.deduplication.reference``), consumers and acks, replication
markers. Chunks of one message share a sequence id, which counts with the last one: :mod:`model.deduplication.chunks`.

Batches: the document speaks of single messages. A batch is one entry with a lowest and a highest sequence id. It is new
if the lowest is above *pushed*, and a duplicate if the highest is at or below *persisted*. A batch that overlaps cannot
be confirmed without losing or repeating a message, so it may only be refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import assert_never

from model.deduplication import chunks, inactivity
from model.deduplication.producer_state import NONE, UNKNOWN_STATUS, Circumstances, ProducerState, StoredEntry
from model.deduplication.writes import fail, is_after, store
from model.events import Answer, Duplicate, LoggedEntry, Refused, Stored, Unknown
from model.log import Position
from model.rules.catalogue import carries
from model.vocabulary import Entry


def send(state: ProducerState, entry: Entry, answer: Answer, around: Circumstances) -> tuple[ProducerState, ...]:
    """The possible states after this entry and answer; none if the answer is not allowed."""
    before = [state]
    if around.by_pulsar_client and around.enabled and not isinstance(answer, Unknown):
        tried = _send_once(state, entry, Unknown("an earlier try"), around)
        before += [replace(found, cut=False) for found in tried]
    return tuple(after for found in before for after in _send_once(found, entry, answer, around))


def _send_once(state: ProducerState, entry: Entry, answer: Answer, around: Circumstances) -> tuple[ProducerState, ...]:
    if state.cut:
        return (state,) if isinstance(answer, Unknown) else ()
    if not around.enabled:
        return _send_without_deduplication(state, entry, answer, around)
    if around.switched_on:
        return _send_across_switch(state, entry, answer, around)
    if entry.chunk is not None:
        return tuple(chunks.judged(state, entry, answer, around))
    return _judge(state, entry, answer, around)


def _judge(state: ProducerState, entry: Entry, answer: Answer, around: Circumstances) -> tuple[ProducerState, ...]:
    """The states after the broker judged an entry."""
    match answer:
        case Stored(position):
            if not is_after(state, position):
                return ()
            return (store(state, entry, position, around),) if is_new(state, entry.lowest) else ()
        case Duplicate():
            return (_confirm(state, entry),) if is_duplicate(state, entry.highest) else ()
        case Refused(code):
            return _refuse(state, entry, code, around)
        case Unknown():
            return tuple(_without_answer(state, entry, around))
        case _:
            assert_never(answer)


@carries("DEDUP-02", "DEDUP-06", "DEDUP-08", "DEDUP-12", "DEDUP-14")
def is_new(state: ProducerState, lowest: int) -> bool:
    """Above *pushed*, or, after a failed write, above the highest written id, to which *pushed* falls back (DEDUP-06).

    Only the number counts, not gaps (DEDUP-08) or the content of the message (DEDUP-14). After a recovery *pushed* is
    the highest id of the stored entries (DEDUP-12).
    """
    return lowest > (state.written if state.failed else state.pushed)


@carries("DEDUP-03", "DEDUP-05")
def is_duplicate(state: ProducerState, highest: int) -> bool:
    """At or below *persisted*, which follows the writes (DEDUP-05) and may already equal the highest written id."""
    return highest <= max(state.persisted, state.written)


@carries("DEDUP-14")
def has_stored_content(state: ProducerState, entry: Entry) -> bool:
    """Whether the state has a message with the same content, which must not matter (DEDUP-14)."""
    business = {message.business_id for message in entry.messages}
    return any(message.business_id in business for stored in state.entries for message in stored.entry.messages)


@carries("DEDUP-04", "DEDUP-05")
def is_of_unknown_status(state: ProducerState, lowest: int, highest: int) -> bool:
    """Above *persisted*, at or below *pushed*: only while a write is in flight or has failed (DEDUP-05)."""
    return state.persisted < highest and lowest <= state.pushed


def overlaps(state: ProducerState, lowest: int, highest: int) -> bool:
    """Whether the first message of a batch is not new but the last one is."""
    return lowest <= state.pushed < highest


def _confirm(state: ProducerState, entry: Entry) -> ProducerState:
    """A duplicate: *persisted* has reached its highest id, and *pushed*, with which the broker compares first, its
    lowest one.
    """
    pushed = state.pushed if entry.lowest <= state.pushed else max(state.pushed, state.written)
    return replace(state, pushed=pushed, persisted=max(state.persisted, entry.highest), is_recovered=False)


def _refuse(state: ProducerState, entry: Entry, code: str, around: Circumstances) -> tuple[ProducerState, ...]:
    """A refusal stores and confirms nothing. Its reason is an unknown status, an overlap or a failed write."""
    if code == UNKNOWN_STATUS:
        return (state,) if is_of_unknown_status(state, entry.lowest, entry.highest) else ()
    if overlaps(state, entry.lowest, entry.highest):
        return (state,)
    return (fail(state, entry),) if around.may_fail else ()


def _without_answer(state: ProducerState, entry: Entry, around: Circumstances) -> Iterable[ProducerState]:
    """No answer: either the broker never received the entry and later ones, or it did and stored the entry if new."""
    if state.failed and not around.by_pulsar_client:
        # After a failed write the broker closes the producer, and stores none of its later entries.
        yield fail(state, entry)
        return
    yield replace(state, cut=True)
    if not is_new(state, entry.lowest):
        yield state
        return
    yield store(state, entry, None, around)
    if around.may_fail:
        yield fail(state, entry)


@carries("DEDUP-01")
def _send_without_deduplication(
    state: ProducerState, entry: Entry, answer: Answer, around: Circumstances
) -> tuple[ProducerState, ...]:
    """Deduplication is off: every entry is stored (DEDUP-01)."""
    match answer:
        case Stored(position):
            return (_keep(state, entry, position),) if is_after(state, position) else ()
        case Duplicate():
            return ()
        case Refused():
            return (state,) if around.may_fail else ()
        case Unknown():
            stored = (*state.entries, StoredEntry(entry, maybe=state.unanswered))
            return (replace(state, entries=stored),)
        case _:
            assert_never(answer)


@carries("DEDUP-01", "DEDUP-05")
def _send_across_switch(
    state: ProducerState, entry: Entry, answer: Answer, around: Circumstances
) -> tuple[ProducerState, ...]:
    """Deduplication was switched on while the entry was in flight.

    If the entry arrived after the switch, it was judged. If it arrived before, it was not judged. It does not count if
    it was stored before the switch. If it was stored after the switch, it counts.
    """
    states = _judge(state, entry, answer, around)
    if state.since == len(state.entries):
        states += tuple(
            replace(old, since=len(old.entries)) for old in _send_without_deduplication(state, entry, answer, around)
        )
    if isinstance(answer, Stored) and is_after(state, answer.position):
        states += (store(state, entry, answer.position, around),)
    return states


def _keep(state: ProducerState, entry: Entry, position: Position | None) -> ProducerState:
    return replace(state, entries=(*state.entries, StoredEntry(entry, position)))


def settle(state: ProducerState, *, all_answered: bool) -> ProducerState:
    """The entries of one send are done. *Persisted* is at least the id that was confirmed last.

    The log has one order, so the writes before a confirmed one have ended. Later writes without an answer may be in
    flight.
    """
    places = (n for n, stored in enumerate(state.entries, start=1) if n > state.since and stored.position is not None)
    confirmed = max(places, default=state.since)
    counted = [stored.highest for stored in state.entries[state.since : confirmed] if stored.is_counted]
    persisted = counted[-1] if counted else NONE
    stored = tuple(
        replace(stored, may_fail_later=False) if stored.may_fail_later and n < confirmed else stored
        for n, stored in enumerate(state.entries)
    )
    unanswered = state.unanswered + (not all_answered)
    return replace(state, entries=stored, cut=False, persisted=max(state.persisted, persisted), unanswered=unanswered)


@carries("DEDUP-09", "DEDUP-12")
def opened(state: ProducerState, last_sequence_id: int) -> tuple[ProducerState, ...]:
    """ProducerSuccess contains the highest id stored for the producer, which excludes states with another."""
    possible = (state, *without_pending(state, only_failing=True))
    return tuple(
        _reported(found, last_sequence_id)
        for found in possible
        if last_sequence_id in (found.written, min(found.pushed, found.written))
    )


def _reported(state: ProducerState, last_sequence_id: int) -> ProducerState:
    stored = tuple(
        replace(stored, is_reported=stored.position is None and stored.is_counted) for stored in state.entries
    )
    return replace(state, entries=stored, pushed=last_sequence_id, failed=False, is_recovered=False)


@carries("DEDUP-10", "DEDUP-11", "DEDUP-12")
def recover(state: ProducerState, *, may_be_unknown: bool) -> tuple[ProducerState, ...]:
    """The topic was reloaded: its highest ids are those of the stored entries (DEDUP-12).

    The entries after the last snapshot are replayed, also if a snapshot failed (DEDUP-11). Only a producer that did not
    fit into a full snapshot may be unknown (DEDUP-10). Entries without an answer may have been lost with the broker,
    including those that were surely in flight.
    """
    before = [state, *without_pending(state, only_failing=False)]
    before += [found for possible in before for found in inactivity.recalled(possible)]
    states = [_recovered(possible) for possible in before]
    if may_be_unknown:
        states += [replace(found, pushed=NONE, persisted=NONE, since=len(found.entries)) for found in states]
    return tuple(states)


def _recovered(state: ProducerState) -> ProducerState:
    return replace(
        state,
        pushed=state.written,
        persisted=state.written,
        failed=False,
        cut=False,
        is_recovered=True,
    )


def writes_may_fail(state: ProducerState) -> ProducerState:
    """Writes may fail from now on, including those in flight."""
    stored = tuple(
        replace(stored, may_fail_later=True) if _is_pending(state, stored) else stored for stored in state.entries
    )
    return replace(state, entries=stored)


def writes_ended(state: ProducerState) -> tuple[ProducerState, ...]:
    """The topic was reloaded: no write from before is in flight any more."""
    if all(stored.maybe is None or stored.has_ended for stored in state.entries):
        return (state,)
    return (replace(state, entries=tuple(replace(stored, has_ended=True) for stored in state.entries)),)


def without_pending(state: ProducerState, *, only_failing: bool) -> Iterable[ProducerState]:
    """The same state if its last, unconfirmed writes failed or were lost, whose ids no ProducerSuccess contained.

    Without an unload, only writes under a fault can fail.
    """
    stored = state.entries
    while stored and _may_be_lost(state, stored[-1]) and (not only_failing or stored[-1].may_fail_later):
        stored = stored[:-1]
        recalls = None if state.recalls is None else min(state.recalls, len(stored))
        yield replace(state, entries=stored, since=min(state.since, len(stored)), recalls=recalls)


def _may_be_lost(state: ProducerState, stored: StoredEntry) -> bool:
    return _is_pending(state, stored) and not stored.is_reported


def _is_pending(state: ProducerState, stored: StoredEntry) -> bool:
    """Whether the write of an entry may still be in flight: it was not confirmed, as stored or as a duplicate."""
    is_unconfirmed = stored.position is None and stored.maybe is None
    return is_unconfirmed and (stored.highest > state.persisted or not stored.is_counted)


@carries("DEDUP-01")
def switch(state: ProducerState, *, on: bool) -> tuple[ProducerState, ...]:
    """Deduplication was switched on or off: earlier entries no longer count.

    When it is switched on, entries whose producer is gone may still be in flight, unless the topic was reloaded since.
    Those that are stored after the switch count.
    """
    after = replace(
        state, pushed=NONE, persisted=NONE, since=len(state.entries), failed=False, is_recovered=False, recalls=None
    )
    if not on:
        return (after,)
    states = [after]
    for first in reversed(range(len(state.entries))):
        if state.entries[first].maybe is None or state.entries[first].has_ended:
            break
        for end in range(first + 1, len(state.entries) + 1):
            counted = (replace(stored, maybe=None) for stored in state.entries[first:end])
            late = replace(after, entries=(*state.entries[:first], *counted), since=first)
            states.append(replace(late, pushed=late.written))
    return tuple(states)


@carries("DEDUP-10")
def may_have(state: ProducerState, highest: int, position: Position) -> bool:
    """Whether a snapshot at this position may have this id for the producer; -1: none.

    It contains only persisted ids, and all of those up to its position. It may contain later ids, which the replay
    tolerates.
    """
    since = state.since if state.recalls is None else state.recalls
    counted = (
        stored.entry.highest if stored.counts == NONE else stored.highest  # it may have counted before a reload
        for stored in state.entries[since:]
        if stored.counts is not None or stored.is_counted
    )
    return written_up_to(state, position) <= highest <= max(counted, default=state.persisted)


def written_up_to(state: ProducerState, position: Position) -> int:
    """The least id that the broker counts for the entries up to a position: that of the last, not the highest."""
    ids = [
        stored.highest
        for stored in state.entries[state.since :]
        if stored.position is not None and stored.position <= position and stored.is_counted
    ]
    return ids[-1] if ids else NONE


@carries("DEDUP-02", "DEDUP-03", "DEDUP-04", "DEDUP-12")
def read_back(state: ProducerState, found: Sequence[LoggedEntry]) -> tuple[ProducerState, ...]:
    """The log was read while nothing was in flight. It has the state's entries once, in order, at their positions."""
    for possible in (state, *without_pending(state, only_failing=True)):
        settled = _match(possible.entries, found)
        if settled is not None:
            gone = len(possible.entries) - len(settled)  # only uncertain entries, of which none counts
            recalls = None if possible.recalls is None else max(0, possible.recalls - gone)
            since = possible.since - gone
            after = replace(possible, entries=settled, since=since, recalls=recalls)
            return (settle(after, all_answered=True),)
    return ()


def _match(stored: Sequence[StoredEntry], found: Sequence[LoggedEntry]) -> tuple[StoredEntry, ...] | None:
    """The stored entries with their positions; None if the log contradicts the state.

    An uncertain entry counts as stored while the rest can still match, which may require backtracking.
    """
    if not stored:
        return None if found else ()
    first = stored[0]
    if found and first.entry == found[0].entry and first.position in (None, found[0].position):
        rest = _match(stored[1:], found[1:])
        if rest is not None:
            return (
                replace(first, position=found[0].position, is_reported=False, may_fail_later=False, maybe=None),
                *rest,
            )
    if first.maybe is None:
        return None
    return _match([stored for stored in stored if stored.maybe != first.maybe], found)
