"""How a state of a producer changes when an entry is stored, or when its write fails.

Deduplication counts a message once it is complete: an unsplit one or a batch with its entry, one in chunks with its
last chunk. Chunks before the last one (:attr:`~model.vocabulary.Entry.is_part`) are stored and not counted.
"""

from __future__ import annotations

from dataclasses import replace

from model.deduplication.producer_state import Circumstances, ProducerState, StoredEntry
from model.log import Position
from model.vocabulary import Entry


def store(state: ProducerState, entry: Entry, position: Position | None, around: Circumstances) -> ProducerState:
    """The state after an entry is stored."""
    may_fail_later = around.may_fail and position is None
    stored = StoredEntry(entry, position, may_fail_later=may_fail_later, was_in_flight=around.may_fail)
    state = replace(state, entries=(*state.entries, stored), is_recovered=False)
    if not stored.is_counted:
        return state
    # *Persisted* is the id that was recorded last.
    return replace(state, pushed=max(state.pushed, entry.highest), persisted=min(state.persisted, entry.highest))


def fail(state: ProducerState, entry: Entry) -> ProducerState:
    """The state after the write of an entry failed."""
    pushed = state.pushed if entry.is_part else max(state.pushed, entry.highest)
    return replace(state, pushed=pushed, failed=True)


def is_after(state: ProducerState, position: Position) -> bool:
    """Whether a position is after those of the state, as that of a later entry must be."""
    known = (stored.position for stored in reversed(state.entries) if stored.position is not None)
    return (last := next(known, None)) is None or position > last
