"""What a process writes into a history while it runs: one lane, from any number of its threads.

It stamps each event with who recorded it and puts everything down every few seconds, so that a process that is killed
loses little. What the events say is up to whoever records them.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any, Final

from conformance.history.about import About
from conformance.history.parquet import HistoryWriter
from conformance.history.recorded import Kind, Outcome, Recorded

FLUSH_EVERY_S: Final = 30.0
"""How much a process that is killed loses at most, in seconds; each time makes a file of every bucket."""

FIRST_FLUSH_S: Final = 2.0
"""When events are put down for the first time; from then on after twice as long each time, up to that."""


def now_ns() -> int:
    """The time that histories are told in: this machine's monotonic clock, the same in all of its processes."""
    return time.monotonic_ns()


class Recording:
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
        """``lane``: who records, a name that no other writer of the run has; ``about``: what is recorded against."""
        self._writer = HistoryWriter(folder, lane, about=about)
        self._who: dict[str, Any] = {"run": run, "lane": lane, "cluster": cluster}
        self._at_most_ns = round(flush_every_s * 1e9)
        self._flush_every_ns = min(round(FIRST_FLUSH_S * 1e9), self._at_most_ns)
        self._flushed_ns = now_ns()
        self._lock = threading.Lock()
        self._events = 0

    @property
    def events(self) -> int:
        """How many events it has taken."""
        return self._events

    def record(self, kind: Kind, *, invoked_ns: int | None, completed_ns: int | None = None, **told: Any) -> None:
        """Take one event that ends now, unless ``completed_ns`` says when; ``told``: fields of :class:`Recorded`.

        Raises :class:`~conformance.harness_error.HarnessError` if it cannot be written.
        """
        now = now_ns()
        completed_ns = now if completed_ns is None else completed_ns
        event = Recorded(kind=kind, invoked_ns=invoked_ns, completed_ns=completed_ns, **self._who, **told)
        with self._lock:
            self._events += 1
            self._writer.record(event)
            if now - self._flushed_ns >= self._flush_every_ns:
                self._flush(now)
                self._flush_every_ns = min(2 * self._flush_every_ns, self._at_most_ns)

    def fault(self, name: str, *, invoked_ns: int, completed_ns: int | None = None, topic: str | None = None) -> None:
        """A fault that is over, or has ``completed_ns`` None; then it is only said that it began, and at once."""
        outcome = Outcome.UNKNOWN if completed_ns is None else Outcome.OK
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
        """Put down everything taken so far."""
        with self._lock:
            self._flush(now_ns())

    def close(self) -> None:
        """Put down what is left; nothing is to be recorded any more."""
        self.flush()

    def _flush(self, now: int) -> None:
        self._writer.flush()
        self._flushed_ns = now
