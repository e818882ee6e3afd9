"""The diagnosis of a violation: which rule is broken when no state is possible, and why, in one sentence.

The observer only knows that no state is left. Which rule that breaks depends on earlier operations: a repeated id that
is stored again breaks DEDUP-03, but right after a recovery DEDUP-12. This module is called only after a violation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from model.deduplication import chunks, observer
from model.deduplication.producer_state import NONE, UNKNOWN_STATUS, ProducerState, ProducerStates, StoredEntry
from model.events import Answer, Duplicate, LoggedEntry, Refused, Stored, Unknown
from model.judgement import Broken, overdue
from model.log import Position
from model.vocabulary import Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class Background:
    """Earlier events of the topic that may explain a violation.

    ``others``: the highest id of another producer here, or of this one on another topic. ``lost``: the highest id of
    this producer whose write may have failed. ``snapshot_failed``: a snapshot's write failed. ``is_kept``: the broker
    purged inactive producers, of which this is none.
    """

    enabled: bool = True
    others: int = NONE
    lost: int = NONE
    snapshot_failed: bool = False
    is_kept: bool = False


def for_answer(states: ProducerStates, entry: Entry, answer: Answer, background: Background) -> Broken:
    """The rule that this answer breaks."""
    state = _likeliest(states)
    if not background.enabled:
        return Broken("DEDUP-01", f"deduplication is disabled, but {entry} was not stored; {_words(answer)}")
    if entry.chunk is not None:
        return _for_chunk(state, entry, answer)
    match answer:
        case Stored(position):
            return _for_stored(state, entry, f"{entry} was stored at {position}", background)
        case Duplicate():
            return _for_duplicate(state, entry, background)
        case Refused(code, message):
            return _for_refusal(state, entry, code, f"{code}: {message}" if message else code, background)
        case Unknown():
            return overdue(Broken("DEDUP-02", f"{entry} could not be sent in any possible state of the producer"))
        case _:
            assert_never(answer)


def _for_chunk(state: ProducerState, entry: Entry, answer: Answer) -> Broken:
    whole = f"the highest id of a whole message is {state.written}" if state.written != NONE else "no message was whole"
    stored = ", ".join(map(str, chunks.stored_of(state, entry))) or "none"
    return Broken("CHUNK-13", f"{entry}: {_words(answer)}, although {whole}; chunks of this one in the log: {stored}")


def _for_stored(state: ProducerState, entry: Entry, what: str, background: Background) -> Broken:
    highest = f"{state.written} was stored before" if state.written != NONE else "no highest id was stored before"
    if entry.highest <= state.written:
        if background.is_kept:
            return Broken("DEDUP-20", f"{what} after inactive producers were purged, although {highest}")
        if state.is_recovered:
            return Broken("DEDUP-12", f"{what} after the topic was reloaded, although {highest}")
        if background.snapshot_failed:
            return Broken("DEDUP-11", f"{what} after a snapshot had failed, although {highest}")
        return Broken("DEDUP-03", f"{what}, although {highest}")
    if observer.overlaps(state, entry.lowest, entry.highest):
        return Broken("DEDUP-03", f"{what}, although {highest} and the batch begins at or below that id")
    return Broken("DEDUP-04", f"{what}, although the write of {state.pushed} was in flight or had failed")


def _for_duplicate(state: ProducerState, entry: Entry, background: Background) -> Broken:
    what = f"{entry} was confirmed as a duplicate, although the highest stored id is {state.written}"
    if state.failed and state.pushed >= entry.lowest:
        return Broken("DEDUP-04", f"{what} and the write of {state.pushed} had not succeeded")
    if background.others >= entry.highest:
        return Broken("DEDUP-07", f"{what} ({background.others} is stored for another producer or topic)")
    if state.is_recovered:
        return Broken("DEDUP-12", f"{what}; the topic was reloaded just before")
    if background.lost >= entry.lowest:
        return Broken("DEDUP-06", f"{what}; a write up to {background.lost} had failed before")
    if observer.has_stored_content(state, entry):
        return Broken("DEDUP-14", f"{what}; an entry with the same content is stored under another id")
    return Broken("DEDUP-02", what)


def _for_refusal(state: ProducerState, entry: Entry, code: str, error: str, background: Background) -> Broken:
    if observer.is_duplicate(state, entry.highest):
        rule = "DEDUP-05" if code == UNKNOWN_STATUS else "DEDUP-03"
        return Broken(
            rule, f"{entry} was refused ({error}), although {state.written} is stored and nothing was in flight"
        )
    if state.failed or background.lost >= entry.lowest:
        return Broken(
            "DEDUP-06", f"{entry} was refused ({error}) after an earlier write had failed and the broker had recovered"
        )
    what = f"{entry} was refused ({error}), although the highest stored id is {state.written}"
    if state.is_recovered:
        return Broken("DEDUP-12", f"{what}; the topic was reloaded just before")
    if NONE < state.written < entry.lowest - 1:
        return Broken("DEDUP-08", f"{what}; the ids between them were never sent")
    if code == UNKNOWN_STATUS:
        return Broken("DEDUP-05", f"{what} and no write was in flight")
    return Broken("DEDUP-02", what)


def for_opening(states: ProducerStates, last_sequence_id: int, background: Background) -> Broken:
    """The rule that a last sequence id in ProducerSuccess breaks."""
    state = _likeliest(states)
    possible = " or ".join(str(n) for n in sorted({state.written for state in states}))
    what = f"the reopened producer got last sequence id {last_sequence_id}, but the highest stored id is {possible}"
    if background.others == last_sequence_id and all(state.written < last_sequence_id for state in states):
        return Broken("DEDUP-07", f"{what}; {last_sequence_id} is stored for another producer or topic")
    if background.is_kept and last_sequence_id < state.written:
        return Broken("DEDUP-20", f"{what}; inactive producers were purged before, of which it is none")
    if state.is_recovered:
        return Broken("DEDUP-12", f"{what}; the topic was reloaded just before")
    if last_sequence_id < state.written <= state.persisted and state.entries[-1].position is None:
        return Broken("DEDUP-04", f"{what}; that entry was confirmed as a duplicate")
    if any(k.is_reported for k in state.entries) and last_sequence_id < state.written:
        return Broken("DEDUP-09", f"{what}, as an earlier ProducerSuccess said")
    if background.snapshot_failed and last_sequence_id < state.written:
        return Broken("DEDUP-11", f"{what}; a snapshot had failed before")
    return Broken("DEDUP-09", what)


def for_snapshot(
    states: ProducerStates, what: str, highest: int, position: Position, *, is_kept: bool = False
) -> Broken:
    """The rule that a snapshot breaks: its ids are neither too low nor unpersisted."""
    top = max(state.written for state in states)
    if highest > top:
        return Broken("DEDUP-10", f"{what}, of which only ids up to {top} were persisted")
    up_to = min(observer.written_up_to(state, position) for state in states)
    if is_kept and highest == NONE:
        because = f"{what}, whose id {up_to} is stored before that position, after inactive producers were purged"
        return Broken("DEDUP-20", because)
    return Broken("DEDUP-10", f"{what}, whose id {up_to} is stored before that position")


def for_log(
    states: ProducerStates, producer: str, found: Sequence[LoggedEntry], *, reloads: int, enabled: bool
) -> Broken:
    """The rule that the entries of a producer in the log break."""
    state = min(states, key=lambda candidate: _distance(candidate, found))
    expected = [k.entry for k in state.entries]
    logged = [entry.entry for entry in found]
    for k in state.entries:
        if k.entry not in logged:
            return _for_missing(producer, k, reloads=reloads)
    for entry in found:
        if logged.count(entry.entry) > max(1, expected.count(entry.entry)) or entry.entry not in expected:
            return _for_extra(state, producer, entry, found, reloads=reloads, enabled=enabled)
    if expected != logged:
        return Broken("DEDUP-08", f"the log has the entries of {producer} out of order: {_listed(logged)}")
    return Broken(
        "DEDUP-02", f"the log does not have the entries of {producer} at the positions that the broker confirmed"
    )


def _for_missing(producer: str, expected: StoredEntry, *, reloads: int) -> Broken:
    if expected.is_reported:
        because = f"{producer} got last sequence id {expected.entry.highest}, but the log does not have it"
        return Broken("DEDUP-09", because)
    rule = "DEDUP-12" if reloads else "DEDUP-02"
    where = f"at {expected.position} " if expected.position is not None else ""
    return Broken(rule, f"the log lacks {expected.entry} of {producer}, which was confirmed {where}as stored")


def _for_extra(
    state: ProducerState,
    producer: str,
    logged: LoggedEntry,
    found: Sequence[LoggedEntry],
    *,
    reloads: int,
    enabled: bool,
) -> Broken:
    what = f"the log has {logged.entry} of {producer} at {logged.position}, which was not confirmed as stored there"
    if not enabled:
        return Broken("DEDUP-01", what)
    if sum(entry.entry == logged.entry for entry in found) > 1:
        return Broken("DEDUP-03", what)
    if reloads:
        return Broken("DEDUP-12", f"{what}; the topic was reloaded in between")
    stored_already = any(k.highest >= logged.entry.highest for k in state.entries[state.since :])
    return Broken("DEDUP-03" if stored_already else "DEDUP-04", what)


def _distance(state: ProducerState, found: Sequence[LoggedEntry]) -> int:
    """The distance of a state from the log, to choose the state that a reader would compare with."""
    expected = {k.entry for k in state.entries}
    logged = {entry.entry for entry in found}
    return len(expected ^ logged) + abs(len(state.entries) - len(found))


def _likeliest(states: ProducerStates) -> ProducerState:
    """The state to report: the one with the most entries, in which the broker received all that was sent."""
    return max(states, key=lambda state: (not state.cut, len(state.entries), state.pushed))


def _words(answer: Answer) -> str:
    match answer:
        case Stored(position):
            return f"it was stored at {position}"
        case Duplicate():
            return "it was confirmed as a duplicate"
        case Refused(code, message):
            return f"it was refused ({code}: {message})"
        case Unknown(why):
            return f"it got no answer ({why})"
        case _:
            assert_never(answer)


def _listed(entries: Sequence[Entry]) -> str:
    return ", ".join(str(entry) for entry in entries)
