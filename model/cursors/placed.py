"""Cursors that are placed: those of new subscriptions, and those that are reset.

What happens to them afterwards is of :mod:`model.cursors.cursor`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from immutables import Map

from model.cursors.acked import Acked, with_entries
from model.cursors.cursor import Cursor, Interval, Moment
from model.cursors.log import TopicLog
from model.cursors.row import Row
from model.deviations.cursors import (
    CREATED_CURSOR_PERSISTED_AT_LATEST,
    RESET_KEEPS_FORMER_RANGES,
    RESET_PERSISTS_READ_POSITION,
)
from model.log import Position


def created(state: Acked, at: Interval, *, durable: bool = True, latest: Acked | None = None) -> Cursor:
    """A new subscription; creating it persists it. ``latest``: the state at the end of the log."""
    states = frozenset({state})
    instead = Map({latest: CREATED_CURSOR_PERSISTED_AT_LATEST} if latest not in (None, state) else {})
    return Cursor(states, durable, past=Row.of(Moment(at, states, is_placing=True, instead=instead)))


def reset(cursor: Cursor, state: Acked, log: TopicLog, at: Interval) -> Cursor:
    """An administrator or a seek reset the subscription. The broker persists a reset before it confirms it."""
    states = frozenset({state})
    beyond = max(len(one.beyond()) for one in cursor.possible)
    former = dict.fromkeys(_with_former(cursor, state.mark_delete, log), RESET_KEEPS_FORMER_RANGES)
    if (following := log.after(state.mark_delete)) is not None:
        beyond_it = (Acked(following), *_with_former(cursor, following, log))
        former = dict.fromkeys(beyond_it, RESET_PERSISTS_READ_POSITION) | former
    return replace(
        cursor.without_consumers().with_ledger(at, surely=True).with_open_ledger(),
        possible=states,
        past=Row.of(Moment(at, states, is_placing=True, instead=Map(former))),
        stray=(),
        grouped=Map(),
        since=frozenset({"ACK-01"}),
        miscounted=cursor.miscounted + beyond,
        was_reset_among_markers=log.has_markers,
        by_administrators=cursor.by_administrators + 1,
        lost_before=frozenset(),
        is_unloaded=False,
        deviating=Map(),
    )


def _with_former(cursor: Cursor, mark_delete: Position, log: TopicLog) -> Iterator[Acked]:
    """The states that a reset persists if it keeps the former ranges: the new mark-delete with outdated ranges.

    Ranges up to an earlier mark-delete may have been removed when that was persisted. Acks of parts that an unload lost
    by another deviation stay lost.
    """
    purged = {state.mark_delete for moment in cursor.past for state in moment.states}
    for state in (*cursor.possible, *cursor.without_lost_parts):
        for first in {max(mark_delete, one) for one in (state.mark_delete, *purged)}:
            kept = [position for position in log.all_after(first) if state.has(position)]
            after = with_entries(Acked(mark_delete), log, kept)
            yield replace(after, parts=state.parts.put([(at, 0) for at in state.parts if after.has(at)]))
