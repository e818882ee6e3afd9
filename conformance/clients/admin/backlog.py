"""The backlog of a subscription by position, according to the broker's stats.

The positions come from the cursor, because the stats' counters give only their number.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from conformance.clients.admin.stored_log import stored_positions
from conformance.clients.admin.types import AcknowledgedRange, InternalStats
from model.log import Position


def unacknowledged(stats: InternalStats, subscription: str) -> frozenset[Position]:
    """The entries of a topic that a subscription has not acknowledged; KeyError where there is no such subscription."""
    cursor = stats.cursors[subscription]
    return frozenset(
        _outside(stored_positions(stats), Position.parse(cursor.mark_delete_position), cursor.acknowledged_ranges)
    )


def not_delivered(left: Collection[Position]) -> str:
    """A report's sentence on entries that no consumer has and the broker does not deliver."""
    what = "1 entry that no consumer has is" if len(left) == 1 else f"{len(left)} entries that no consumer has are"
    return f"{what} not delivered" + (f", from {min(left)} on" if left else "")


def _outside(
    entries: Iterable[Position], mark_delete: Position, ranges: Iterable[AcknowledgedRange]
) -> Iterator[Position]:
    """The entries, in ascending order, after mark-delete and outside of the ranges; looks at each range once."""
    rising = iter(sorted(ranges, key=lambda one: one.last))
    current = next(rising, None)
    for position in entries:
        while current is not None and current.last < position:
            current = next(rising, None)
        if position > mark_delete and (current is None or position <= current.after):
            yield position
