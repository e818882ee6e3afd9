"""Where the log of a topic begins whose ledgers are deleted once all durable subscriptions acknowledged them.

A broker deletes them at any time, so a subscription that begins at the earliest message has several possible states.
Deleted entries count as acknowledged.
"""

from __future__ import annotations

from collections.abc import Iterator, Set

from model.cursors.acked import Acked, acknowledge_up_to
from model.cursors.cursor import Cursor
from model.cursors.log import Place, TopicLog
from model.events import CursorRead
from model.log import Position


def beginnings(log: TopicLog, deleted: Set[int], until: Position, *, is_closed: bool) -> tuple[Acked, ...]:
    """The states of a new subscription at the earliest message. ``deleted``: ledgers that surely are. ``until``: up to
    where all durable subscriptions may have been. ``is_closed``: the last ledger takes no more entries."""
    first = [max(deleted)] if deleted else []
    more = [
        ledger
        for ledger in log.ledgers
        if ledger > max(deleted, default=-1) and _end(log, ledger) <= until
        if ledger != log.ledgers[-1] or log.ends_full or is_closed
    ]
    ends = (Acked(_end(log, ledger)) for ledger in (*first, *more))
    return tuple(ends) if first else (Acked(), *ends)


def _end(log: TopicLog, ledger: int) -> Position:
    return Position(ledger, log.counts[ledger] - 1)


def without_deleted(actual: Acked, cursor: Cursor, stats: CursorRead, log: TopicLog) -> Acked:
    """The state that the stats show, with what was deleted. The backlog shows whether the last ledger was."""
    shown = list(shown_states(actual, stats.mark_delete, cursor, log))
    return next((one for one in shown if one.count_left(log) == stats.backlog), shown[0])


def shown_states(actual: Acked, mark_delete: Position, cursor: Cursor, log: TopicLog) -> Iterator[Acked]:
    """The states that a mark-delete position may stand for; ``actual`` is one of them if nothing was deleted.

    That of a subscription that began at the earliest message is before the first entry of the last ledger that was
    deleted, if all were, or at the last of its entries that were acknowledged by their ids since. The stats do not show
    acknowledged parts of batches.
    """
    end = _end(log, mark_delete.ledger) if mark_delete.ledger in log.counts else None
    is_deleted = end in cursor.begins_after
    is_possible = any((one.mark_delete, one.words) == (actual.mark_delete, actual.words) for one in cursor.possible)
    if not is_deleted or is_possible or mark_delete.entry >= 0:
        yield actual
    if is_deleted and end is not None:
        yield acknowledge_up_to(actual, log, Place(end))
