"""The log of a topic: entries at positions in ledgers.

Positions are given by the broker and never predicted here; what is checked is what ACK-06 promises of them. What an
entry says about deduplication (its producer, its sequence ids) is kept, its payload only as a digest. Acknowledgment
and trimming are not here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self


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
