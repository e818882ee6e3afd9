"""What is known of a subscription with many holes between its acknowledgments (ACK-21).

Bit n of a set of messages is the message with number n in the log. The broker persists the acknowledged entries as
ranges, at most so many, of which each is in one ledger. Those are the first ones: mark-delete, and the ranges after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate


@dataclass(frozen=True, slots=True)
class Holes:
    """``acked``: what clients acknowledged; ``surely``: what is acknowledged at least, because no reload lost it;
    ``persisted``: what a kill leaves at least. ``limit``: how many ranges are persisted."""

    limit: int
    ledgers: tuple[int, ...] = ()
    acked: int = 0
    surely: int = 0
    persisted: int = 0
    is_reloaded: bool = False
    """Since it was received last, another owner or the same one loaded it again."""

    @property
    def count(self) -> int:
        """How many messages there are."""
        return sum(self.ledgers)

    def acknowledging(self, more: int, ledgers: tuple[int, ...], *, is_persisted: bool) -> Holes:
        """After messages were sent, and acks confirmed."""
        now = replace(self, ledgers=ledgers, acked=self.acked | more, surely=self.surely | more)
        stays = self.persisted & now._within_limit()
        return replace(now, persisted=now._within_limit() if is_persisted else stays)

    def unloaded(self) -> Holes:
        """After a graceful unload, which persists all of it within the limit."""
        kept = self._within_limit()
        return replace(self, surely=kept, persisted=kept, is_reloaded=True)

    def killed(self) -> Holes:
        """After a kill of its owner."""
        return replace(self, surely=self.persisted, is_reloaded=True)

    def seen(self, acked: int, ledgers: tuple[int, ...]) -> Holes:
        """After all that is unacknowledged was received."""
        seen = replace(self, ledgers=ledgers, acked=acked, surely=acked, is_reloaded=False)
        return replace(seen, persisted=self.persisted & seen._within_limit())

    @property
    def ranges(self) -> int:
        """How many ranges there are after mark-delete."""
        return (self._begins() & ~self._mark_delete()).bit_count()

    @property
    def after_mark_delete(self) -> int:
        """What is acknowledged individually."""
        return self.acked & ~self._mark_delete()

    def _mark_delete(self) -> int:
        """All messages up to mark-delete, which is not counted as a range."""
        return (1 << _trailing_ones(self.acked)) - 1

    def _begins(self) -> int:
        """The first message of each range. A range does not extend across ledgers."""
        firsts = sum(1 << first for first in accumulate(self.ledgers[:-1]))
        return self.acked & (~(self.acked << 1) | firsts)

    def _within_limit(self) -> int:
        """What of the acknowledged messages is surely persisted when they are."""
        mark_delete = self._mark_delete()
        # If it is not known which acks were lost, there may be a range for each of the others.
        counted = (self._begins() if self.surely == self.acked else self.acked) & ~mark_delete
        if counted.bit_count() <= self.limit:
            return self.surely
        return self.surely & (mark_delete | ((1 << _nth_one(counted, self.limit)) - 1))


def bits_of(numbers: Sequence[int]) -> int:
    """The set of these numbers."""
    last = max(numbers, default=-1)
    marks = bytearray(last // 8 + 1)
    for number in numbers:
        marks[number // 8] |= 1 << number % 8
    return int.from_bytes(marks, "little")


def numbers_of(bits: int) -> list[int]:
    """The numbers in a set, in order."""
    digits = bin(bits)[:1:-1]
    return [number for number, digit in enumerate(digits) if digit == "1"]


def _trailing_ones(bits: int) -> int:
    return (~bits & (bits + 1)).bit_length() - 1


def _nth_one(bits: int, nth: int) -> int:
    """The number of the set's member after so many others."""
    return numbers_of(bits)[nth]
