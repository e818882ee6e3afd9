"""Records the events of one process into a history: one lane, from any number of threads.

It adds run, lane and cluster to each event, and flushes periodically, so that a killed process loses little.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any, Final

from conformance.history.about import About
from conformance.history.parquet import HistoryWriter
from conformance.history.recorded import CallOutcome, Kind, Recorded

FLUSH_EVERY_S: Final = 30.0
"""The longest interval between flushes, in seconds; each flush writes a file for every bucket."""

FIRST_FLUSH_S: Final = 2.0
"""The time of the first flush; the interval then doubles up to the longest."""


def now_ns() -> int:
    """The time of events: this machine's monotonic clock, which all of its processes share."""
    return time.monotonic_ns()


class LaneRecorder:
    """One lane of a run's history; for any thread."""

    def __init__(
        self,
        folder: Path,
        *,
        run: str,
        lane: str,
        cluster: str = "",
        about: About | None = None,
        flush_every_s: float = FLUSH_EVERY_S,
    ) -> None:
        """``lane``: the unique name of this writer in the run; ``about``: the system that is recorded."""
        self._writer = HistoryWriter(folder, lane, about=about)
        self._who: dict[str, Any] = {"run": run, "lane": lane, "cluster": cluster}
        self._at_most_ns = round(flush_every_s * 1e9)
        self._flush_every_ns = min(round(FIRST_FLUSH_S * 1e9), self._at_most_ns)
        self._flushed_ns = now_ns()
        self._lock = threading.Lock()

    def record(self, kind: Kind, *, invoked_ns: int | None, completed_ns: int | None = None, **fields: Any) -> None:
        """Take one event that ends at ``completed_ns``, or now; ``fields``: those of :class:`Recorded`.

        Raises :class:`~conformance.harness_error.HarnessError` if it cannot be written.
        """
        now = now_ns()
        completed_ns = now if completed_ns is None else completed_ns
        event = Recorded(kind=kind, invoked_ns=invoked_ns, completed_ns=completed_ns, **self._who, **fields)
        with self._lock:
            self._writer.record(event)
            if now - self._flushed_ns >= self._flush_every_ns:
                self._flush(now)
                self._flush_every_ns = min(2 * self._flush_every_ns, self._at_most_ns)

    def fault(self, name: str, *, invoked_ns: int, completed_ns: int | None = None, topic: str | None = None) -> None:
        """Record a fault that has ended; ``completed_ns`` None records its beginning, and flushes."""
        outcome = CallOutcome.UNKNOWN if completed_ns is None else CallOutcome.OK
        self.record(
            Kind.FAULT,
            fault=name,
            topic=topic,
            outcome=outcome,
            invoked_ns=invoked_ns,
            completed_ns=invoked_ns if completed_ns is None else completed_ns,
        )
        if completed_ns is None:
            self.flush()

    def flush(self) -> None:
        with self._lock:
            self._flush(now_ns())

    def close(self) -> None:
        """Flush; nothing may be recorded afterwards."""
        self.flush()

    def _flush(self, now: int) -> None:
        self._writer.flush()
        self._flushed_ns = now
