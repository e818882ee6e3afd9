"""How a state of a producer changes when an entry is stored, or when its write fails.

Deduplication counts a message once it is complete: an unsplit one or a batch with its entry, one in chunks with its
last chunk. Chunks before the last one (:attr:`~model.vocabulary.Entry.is_part`) are stored and not counted, except by
deviations (:mod:`model.deduplication.chunks`).
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from model.deduplication.producer_state import Circumstances, ProducerState, StoredEntry
from model.excuses.chunking import CHUNK_EACH_DEDUPLICATED
from model.excuses.deduplication import (
    DEDUPLICATION_ENABLED_IN_FLIGHT,
    SNAPSHOT_POSITION_AHEAD,
)
from model.log import Position
from model.vocabulary import Entry


def store(state: ProducerState, entry: Entry, position: Position | None, around: Circumstances) -> ProducerState:
    """The state after an entry is stored."""
    may_fail_later = around.may_fail and position is None
    stored = StoredEntry(entry, position, may_fail_later=may_fail_later, was_in_flight=around.may_fail)
    if entry.is_part:
        return replace(state, entries=(*state.entries, stored), is_recovered=False)
    return _counted(state, stored)


def store_at_once(
    state: ProducerState, entry: Entry, position: Position | None, around: Circumstances
) -> ProducerState:
    """The same for a chunk that the broker counts like a whole message (the deviation ``chunk-each-deduplicated``)."""
    may_fail_later = around.may_fail and position is None
    stored = StoredEntry(
        entry, position, may_fail_later=may_fail_later, was_in_flight=around.may_fail, counts_at_once=entry.is_part
    )
    return _counted(state, stored)


def _counted(state: ProducerState, stored: StoredEntry) -> ProducerState:
    highest = stored.highest
    earlier = tuple(_overtaken(one) if one.entry.highest <= highest else one for one in state.entries)
    is_over = stored.entry.lowest > state.stored and not has_stored_again(state)
    return replace(
        state,
        entries=(*earlier, stored),
        pushed=max(state.pushed, highest),
        persisted=min(state.persisted, highest) if state.lags else state.persisted,
        is_recovered=False,
        lags=state.lags and highest < state.written,
        requires=state.requires - _OVERTAKEN if is_over else state.requires,
    )


_OVERTAKEN = frozenset({SNAPSHOT_POSITION_AHEAD, DEDUPLICATION_ENABLED_IN_FLIGHT, CHUNK_EACH_DEDUPLICATED})
"""The deviations that have no visible effect once an entry with a higher id than all others is stored."""


def has_stored_again(state: ProducerState) -> bool:
    """Whether the log shows that an id was stored again."""
    whole = [stored.entry for stored in state.entries[state.since :] if not stored.entry.is_part]
    return any(after.lowest <= before.highest for before, after in pairwise(whole))


def _overtaken(stored: StoredEntry) -> StoredEntry:
    """An entry after one with a higher id was stored: how the broker counted it makes no difference any more."""
    if not stored.is_uncounted and not stored.counts_at_once:
        return stored
    return replace(
        stored,
        is_uncounted=False,
        counts_at_once=False,
    )


def fail(state: ProducerState, entry: Entry) -> ProducerState:
    """The state after the write of an entry failed."""
    pushed = state.pushed if entry.is_part else max(state.pushed, entry.highest)
    return replace(state, pushed=pushed, failed=True)


def is_after(state: ProducerState, position: Position) -> bool:
    """Whether a position is after those of the state, as that of a later entry must be."""
    known = (stored.position for stored in reversed(state.entries) if stored.position is not None)
    return (last := next(known, None)) is None or position > last
