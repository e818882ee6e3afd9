"""The load of the machine during a run: what did not happen in time may be the machine's fault.

Measured from what the kernel counts for the whole machine (``/proc/pressure/cpu``, ``/proc/stat``), so that other
programs, the broker and the suite count alike, and from a thread that sleeps for a moment and notes how late it wakes.
What the kernel does not tell is None; the thread measures everywhere.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import msgspec

TICK_S: Final = 0.05
"""How long the thread sleeps."""

_PRESSURE: Final = Path("/proc/pressure/cpu")
_STAT: Final = Path("/proc/stat")
_TOTAL: Final = re.compile(r"^some .*total=(\d+)", re.MULTILINE)
_STEAL: Final = 7
_NOTEWORTHY: Final = 0.005


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """The load over some seconds.

    ``waited``: in which share of the time some process waited for a processor. ``per_processor``: how many processes
    wanted to run for each processor, on average. ``stolen``: the share of the processors' time that a hypervisor gave
    to others. ``late_ms``: how late a sleeping thread woke up at worst.
    """

    seconds: float
    waited: float | None
    per_processor: float | None
    stolen: float | None
    late_ms: float

    def __str__(self) -> str:
        parts = []
        if self.waited is not None:
            parts.append(f"a process waited for a processor in {self.waited:.0%} of {self.seconds:.0f} s")
        if self.per_processor is not None:
            parts.append(f"{self.per_processor:.1f} processes ran or waited for each processor")
        if self.stolen is not None and self.stolen >= _NOTEWORTHY:
            parts.append(f"a hypervisor took {self.stolen:.0%} of the processors' time")
        parts.append(f"a sleeping thread woke up {self.late_ms:.0f} ms late at worst")
        return ", ".join(parts)


def over(loads: Iterable[Load]) -> Load | None:
    """The load over all of these times; None without any."""
    all_of_them = [load for load in loads if load.seconds > 0]
    seconds = sum(load.seconds for load in all_of_them)
    if not seconds:
        return None

    def mean(values: list[tuple[float, float | None]]) -> float | None:
        known = [(weight, value) for weight, value in values if value is not None]
        total = sum(weight for weight, _ in known)
        return round(sum(weight * value for weight, value in known) / total, 4) if total else None

    return Load(
        seconds=round(seconds, 3),
        waited=mean([(load.seconds, load.waited) for load in all_of_them]),
        per_processor=mean([(load.seconds, load.per_processor) for load in all_of_them]),
        stolen=mean([(load.seconds, load.stolen) for load in all_of_them]),
        late_ms=max(load.late_ms for load in all_of_them),
    )


class LoadMeter:
    """Measures while it is open."""

    def __init__(self) -> None:
        self._stopping = threading.Event()
        self._late_s = 0.0
        self._running: list[int] = []
        self._thread = threading.Thread(target=self._tick, name="load", daemon=True)
        self._before = _Counters.now()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stopping.set()
        self._thread.join()

    @property
    def seconds(self) -> float:
        """The seconds since the last :meth:`take`."""
        return time.monotonic() - self._before.at_s

    def take(self) -> Load:
        """The load since the last call."""
        before, now = self._before, _Counters.now()
        self._before = now
        late_s, self._late_s = self._late_s, 0.0
        running, self._running = self._running, []
        seconds = now.at_s - before.at_s
        waited = None if now.waited_us is None or before.waited_us is None else now.waited_us - before.waited_us
        jiffies = now.jiffies - before.jiffies
        return Load(
            seconds=round(seconds, 3),
            waited=None if waited is None else round(min(1.0, waited / 1e6 / seconds), 4),
            per_processor=round(sum(running) / len(running) / (os.cpu_count() or 1), 2) if running else None,
            stolen=round((now.stolen - before.stolen) / jiffies, 4) if jiffies > 0 else None,
            late_ms=round(1000 * late_s, 1),
        )

    def _tick(self) -> None:
        while True:
            began = time.monotonic()
            is_over = self._stopping.wait(TICK_S)
            if is_over:
                return
            self._late_s = max(self._late_s, time.monotonic() - began - TICK_S)
            running = _running()
            if running is not None:
                self._running.append(max(0, running - 1))  # without this thread


class _Counters(msgspec.Struct, frozen=True, kw_only=True):
    """What the kernel has counted up to a moment."""

    at_s: float
    waited_us: int | None
    stolen: int
    jiffies: int

    @classmethod
    def now(cls) -> _Counters:
        waited = _TOTAL.search(_text(_PRESSURE))
        fields = [int(field) for field in _text(_STAT).partition("\n")[0].split()[1:]]
        return cls(
            at_s=time.monotonic(),
            waited_us=int(waited[1]) if waited else None,
            stolen=fields[_STEAL] if len(fields) > _STEAL else 0,
            jiffies=sum(fields[: _STEAL + 1]),
        )


def _running() -> int | None:
    """How many processes run or wait for a processor now."""
    for line in reversed(_text(_STAT).splitlines()):
        if line.startswith("procs_running "):
            return int(line.split()[1])
    return None


def _text(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text()
    return ""
