"""Cursors that are placed: those of new subscriptions, and those that are reset.

What happens to them afterwards is of :mod:`model.cursors.cursor`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from model.cursors.acked import Acked, with_entries
from model.cursors.cursor import Cursor, Interval, Labelled, Moment
from model.cursors.log import TopicLog
from model.cursors.row import Row
from model.excuses.cursors import (
    BATCH_INDEX_ACKS_NOT_RECOVERED,
    CREATED_CURSOR_PERSISTED_AT_LATEST,
    RESET_KEEPS_FORMER_RANGES,
    RESET_PERSISTS_READ_POSITION,
)
from model.excuses.ways import BY_DOCUMENT, by, merged, together
from model.immutable.map import Map
from model.log import Position


def created(
    state: Acked,
    at: Interval,
    *,
    others: frozenset[Acked] = frozenset(),
    durable: bool = True,
    latest: Acked | None = None,
) -> Cursor:
    """A new subscription; creating it persists it. ``others``: states that are possible as well. ``latest``: the state
    at the end of the log."""
    states = frozenset({state}) | others
    instead = Map({} if latest is None or latest in states else {latest: by(CREATED_CURSOR_PERSISTED_AT_LATEST)})
    return Cursor(states, durable, past=Row.of(Moment(at, states, is_placing=True, instead=instead)))


def reset(
    cursor: Cursor, state: Acked, log: TopicLog, at: Interval, *, others: frozenset[Acked] = frozenset()
) -> Cursor:
    """An administrator or a seek reset the subscription. The broker persists a reset before it confirms it. ``others``:
    states that are possible as well."""
    states = frozenset({state}) | others
    beyond = max(len(one.beyond()) for one in cursor.possible)
    former = list(_with_former(cursor, state.mark_delete, log))
    if (following := log.after(state.mark_delete)) is not None:
        by_it = by(RESET_PERSISTS_READ_POSITION)
        beyond_it = ((one, together(ways, by_it)) for one, ways in _with_former(cursor, following, log))
        former += [(Acked(following), by_it), *beyond_it]
    return replace(
        cursor.without_consumers().with_ledger(at, surely=True).with_open_ledger(),
        possible=states,
        past=Row.of(Moment(at, states, is_placing=True, instead=Map(merged(former)))),
        stray=(),
        grouped=Map(),
        since=frozenset({"ACK-01"}),
        miscounted=cursor.miscounted + beyond,
        was_reset_among_markers=log.has_markers,
        by_administrators=cursor.by_administrators + 1,
        lost_before=Map(),
        is_unloaded=False,
        deviating=Map(),
    )


def _with_former(cursor: Cursor, mark_delete: Position, log: TopicLog) -> Iterator[Labelled]:
    """The states that a reset persists if it keeps the former ranges: the new mark-delete with outdated ranges.

    Ranges up to an earlier mark-delete may have been removed when that was persisted. Acks of parts that an unload lost
    by another deviation stay lost.
    """
    purged = {state.mark_delete for moment in cursor.past for state in moment.states}
    here = ((state, BY_DOCUMENT) for state in cursor.possible)
    for state, ways in (*here, *cursor.by(BATCH_INDEX_ACKS_NOT_RECOVERED)):
        for first in {max(mark_delete, one) for one in (state.mark_delete, *purged)}:
            kept = [position for position in log.all_after(first) if state.has(position)]
            after = with_entries(Acked(mark_delete), log, kept)
            after = replace(after, parts=state.parts.put([(at, 0) for at in state.parts if after.has(at)]))
            yield after, together(ways, by(RESET_KEEPS_FORMER_RANGES))
