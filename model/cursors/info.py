"""Position info: the compact form in which a subscription's state is persisted (ACK-07).

It is mark-delete and ranges of positions, each behind its first and up to its last, as brokers write them; a range says
nothing without the log, in which it may name positions where no entry is. Partly acknowledged batches are not in it: a
broker stores them beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from model.cursors.acked import Acked, with_entries
from model.cursors.bits import Bits
from model.cursors.log import TopicLog
from model.events import Range
from model.log import Position
from model.rules.catalogue import carries


@dataclass(frozen=True, slots=True)
class PositionInfo:
    """Mark-delete, and the ranges acknowledged behind it, in order."""

    mark_delete: Position
    ranges: tuple[Range, ...] = ()


@carries("ACK-07")
def info_of(state: Acked) -> PositionInfo:
    """A state as position info; ranges end with their ledger."""
    return PositionInfo(state.mark_delete, tuple(_ranges(state.beyond())))


def _ranges(positions: Iterable[Position]) -> Iterator[Range]:
    # Of positions in a row, the entry less the place in the sequence is the same.
    numbered = enumerate(positions)
    for _, row in groupby(numbered, key=lambda one: (one[1].ledger, one[1].entry - one[0])):
        run = [position for _, position in row]
        yield Range(Position(run[0].ledger, run[0].entry - 1), run[-1])


@carries("ACK-07")
def state_of(info: PositionInfo, log: TopicLog, parts: Bits[Position] = Bits()) -> Acked:
    """The state that position info stands for, in a log; what is contiguous with mark-delete goes into it."""
    state = Acked(log.at_or_before(info.mark_delete), parts=parts)
    return with_entries(state, log, covered(info.ranges, log))


def covered(ranges: Sequence[Range], log: TopicLog) -> Iterator[Position]:
    """The entries of the log that ranges cover."""
    for one in ranges:
        position = log.after(one.after)
        while position is not None and position <= one.last:
            yield position
            position = log.after(position)
