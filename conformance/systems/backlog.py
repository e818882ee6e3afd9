"""What is in a log, and what is left of it to a subscription, by the broker's own account.

It is read off the cursor, position by position, because counters of messages cannot tell which.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from conformance.systems.admin_types import AcknowledgedRange, InternalStats
from model.log import Position


def unacknowledged(stats: InternalStats, subscription: str) -> frozenset[Position]:
    """The entries of a topic that a subscription has not acknowledged; KeyError where there is no such subscription."""
    cursor = stats.cursors[subscription]
    return frozenset(_outside(entries(stats), Position.parse(cursor.mark_delete_position), cursor.acknowledged_ranges))


def _outside(
    entries: Iterable[Position], mark_delete: Position, ranges: Iterable[AcknowledgedRange]
) -> Iterator[Position]:
    """The entries, which rise, that are behind mark-delete and in no range; each range is looked at once."""
    rising = iter(sorted(ranges, key=lambda one: one.last))
    current = next(rising, None)
    for position in entries:
        while current is not None and current.last < position:
            current = next(rising, None)
        if position > mark_delete and (current is None or position <= current.after):
            yield position


def entries(stats: InternalStats) -> Iterator[Position]:
    """Every position up to the last entry that is confirmed; the ledger that is written to does not know its number."""
    last = Position.parse(stats.last_confirmed_entry)
    for ledger in stats.ledgers:
        count = last.entry + 1 if ledger.ledger_id == last.ledger else ledger.entries
        if ledger.ledger_id <= last.ledger:
            yield from (Position(ledger.ledger_id, entry) for entry in range(count))
