"""The ledger of a cursor: when it was requested, and how often an administrator wrote to it.

A cursor has none after its topic was loaded. The first change requests one, which opens some milliseconds later.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

OPENING_MS: Final = 150.0
"""The longest time to open a cursor's ledger; 5 to 60 ms were measured."""


@dataclass(frozen=True, slots=True)
class Interval:
    invoked_ms: float
    completed_ms: float


@dataclass(frozen=True, slots=True)
class CursorLedger:
    since_ms: float | None = None
    """Since when the cursor has it, or opens it; None: it has none."""
    opens_ms: float | None = None
    """The latest time at which it was requested; None: it is open, or there is none."""
    is_requested: bool = False
    """It surely was requested."""
    by_administrators: int = 0
    """How many changes since then were no acks, which the rate limit does not cover."""

    def changed(self, at: Interval, *, surely: bool) -> CursorLedger:
        """The same after a change that requests it, or may request it, if there is none."""
        since_ms = at.invoked_ms if self.since_ms is None else self.since_ms
        after = replace(self, since_ms=since_ms, is_requested=self.is_requested or surely)
        return after if self.is_requested else replace(after, opens_ms=at.completed_ms)

    def opened(self) -> CursorLedger:
        """The same after a write to it."""
        return replace(self, opens_ms=None, is_requested=True)

    def administered(self) -> CursorLedger:
        return replace(self, by_administrators=self.by_administrators + 1)

    def is_opening(self, at: Interval) -> bool:
        """Whether it was requested just now, and may not be open yet."""
        return self.opens_ms is not None and self.opens_ms >= at.invoked_ms - OPENING_MS


NO_LEDGER: Final = CursorLedger()
