"""What a client process has counted so far, by any of its threads."""

from __future__ import annotations

import threading

import msgspec

from conformance.soak.words import Counts


class Tally:
    """Adds up; ``total`` is what is told."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = Counts()

    def add(self, **more: int) -> None:
        """Add so many to these counts."""
        with self._lock:
            counts = self._counts
            changed = {name: getattr(counts, name) + number for name, number in more.items()}
            self._counts = msgspec.structs.replace(counts, **changed)

    @property
    def total(self) -> Counts:
        """All counts as they are now."""
        return self._counts
