"""Cursors that are placed: those of new subscriptions, and those that are reset.

What happens to them afterwards is of :mod:`model.cursors.cursor`.
"""

from __future__ import annotations

from dataclasses import replace

from model.cursors.acked import Acked
from model.cursors.cursor import Cursor, Interval, Moment
from model.cursors.row import Row
from model.excuses.cursors import (
    CREATED_CURSOR_PERSISTED_AT_LATEST,
)
from model.excuses.ways import by
from model.immutable.map import Map


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


def reset(cursor: Cursor, state: Acked, at: Interval, *, others: frozenset[Acked] = frozenset()) -> Cursor:
    """An administrator or a seek reset the subscription. The broker persists a reset before it confirms it. ``others``:
    states that are possible as well."""
    states = frozenset({state}) | others
    return replace(
        cursor.without_consumers().with_ledger(at, surely=True).with_open_ledger(),
        possible=states,
        past=Row.of(Moment(at, states, is_placing=True)),
        stray=(),
        grouped=Map(),
        since=frozenset({"ACK-01"}),
        by_administrators=cursor.by_administrators + 1,
        lost_before=Map(),
        is_unloaded=False,
        deviating=Map(),
    )
