"""The log of a topic: entries at positions in ledgers.

Positions are given by the broker and never predicted here; what is checked is what ACK-06 promises of them. What an
entry says about deduplication (its producer, its sequence ids) is kept, its payload only as a digest. Acknowledgment
and trimming are not here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

from msgspec import Struct


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """Where an entry stands in a topic: ledger, then entry within the ledger, from 0 (ACK-06)."""

    ledger: int
    entry: int

    def __str__(self) -> str:
        return f"{self.ledger}:{self.entry}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``ledger:entry``, as the broker's REST interface writes positions; ValueError for anything else."""
        ledger, _, entry = text.partition(":")
        return cls(int(ledger), int(entry))


EARLIEST: Final = Position(-1, -1)
"""The position before all entries; clients seek to it as the earliest message."""


class Ledgers(Struct, frozen=True):
    """The ledgers of a topic as its one writer fills them, one after the other (ACK-06).

    Each takes ``room`` entries; ``used`` of them are taken in the ``current`` one. A broker's ledger ids rise with
    gaps, these rise by one: only their order says anything.
    """

    room: int
    current: int = 0
    used: int = 0

    @property
    def next_position(self) -> Position:
        """Where the next entry will stand: in the current ledger, or at the beginning of the next if that is full."""
        return Position(self.current + 1, 0) if self.used >= self.room else Position(self.current, self.used)

    def after_append(self) -> Ledgers:
        """The ledgers once that entry stands there."""
        position = self.next_position
        return Ledgers(self.room, position.ledger, position.entry + 1)

    def taken_over(self) -> Ledgers:
        """The ledgers after the topic is loaded again: the last ledger is closed, and a new one begins."""
        return Ledgers(self.room, self.current + 1)
