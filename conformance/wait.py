"""A moment after which nobody waits any longer."""

from __future__ import annotations

import time
from typing import Self


class Deadline:
    """A moment on the monotonic clock, shared by all the steps of one operation."""

    __slots__ = ("_at_s",)

    def __init__(self, at_s: float) -> None:
        self._at_s = at_s

    @classmethod
    def after(cls, timeout_s: float) -> Self:
        """Give the deadline that is ``timeout_s`` seconds from now."""
        return cls(time.monotonic() + timeout_s)

    @property
    def left_s(self) -> float:
        """Seconds until then; 0 once it has passed."""
        return max(0.0, self._at_s - time.monotonic())

    @property
    def passed(self) -> bool:
        """Whether it has passed."""
        return time.monotonic() >= self._at_s
