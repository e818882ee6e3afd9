"""Position info: the compact form in which a subscription's state is persisted (ACK-07).

It consists of mark-delete and ranges of positions. As brokers write them, a range excludes its first position and
includes its last. It may include positions without an entry, so it has a meaning only with the log. Brokers store
partly acknowledged batches separately.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from model.cursors.acked import Acked, with_entries, without_entries
from model.cursors.bits import Bits
from model.cursors.log import TopicLog
from model.events import Range
from model.log import Position
from model.rules.catalogue import carries


@dataclass(frozen=True, slots=True)
class PositionInfo:
    """Mark-delete, and the acknowledged ranges after it, in order."""

    mark_delete: Position
    ranges: tuple[Range, ...] = ()


@carries("ACK-07")
def info_of(state: Acked) -> PositionInfo:
    """The position info of a state. A range does not extend across ledgers."""
    return PositionInfo(state.mark_delete, tuple(_ranges(state.beyond())))


def _ranges(positions: Iterable[Position]) -> Iterator[Range]:
    # For consecutive positions, entry id minus index is constant.
    numbered = enumerate(positions)
    for _, row in groupby(numbered, key=lambda one: (one[1].ledger, one[1].entry - one[0])):
        run = [position for _, position in row]
        yield Range(Position(run[0].ledger, run[0].entry - 1), run[-1])


def first_ranges(state: Acked, count: int) -> Iterator[Acked]:
    """The states with the first ``count`` ranges, with one more, and so on; none if there are no more ranges."""
    if sum(bits.bit_count() for _, bits in state.words.items()) <= count:
        return
    ranges = info_of(state).ranges
    for number in range(count, len(ranges)):
        end = ranges[number].after
        later = [position for position in state.beyond() if position > end]
        yield without_entries(state, later)


@carries("ACK-07")
def state_of(info: PositionInfo, log: TopicLog, parts: Bits[Position] = Bits()) -> Acked:
    """The state of a position info in a log. Mark-delete advances over contiguous ranges."""
    state = Acked(log.at_or_before(info.mark_delete), parts=parts)
    return with_entries(state, log, covered(info.ranges, log))


def covered(ranges: Sequence[Range], log: TopicLog) -> Iterator[Position]:
    """The entries of the log that ranges cover."""
    for one in ranges:
        position = log.after(one.after)
        while position is not None and position <= one.last:
            yield position
            position = log.after(position)
