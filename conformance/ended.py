"""Processes that ended although the suite did not end them, and what a report says of them.

The guardian of a deployment, and each process that starts workers, knows the exit status of its children and which
signals it sent them. It appends a line to one file for each child that ended otherwise. The command that started the
run names the file in the environment, which lanes, starters and guardians inherit, and reads it while the run goes on.
So an end is reported in any phase, from any process of the run, whether or not an example noticed it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import msgspec

ENVIRONMENT_VARIABLE: Final = "PULSAR_CONFORMANCE_ENDED"
"""The path of the file; without it, nobody listens. The guardian, which imports nothing of the suite, has it too."""

_OUT_OF_MEMORY: Final = "java.lang.OutOfMemoryError"
_VMSTAT: Final = Path("/proc/vmstat")


class ProcessEnd(msgspec.Struct, frozen=True, kw_only=True):
    """A process that ended without the suite.

    ``status``: as subprocess has it (negative: by that signal); None if nobody knows it. ``is_of_release``: it is a
    broker, a bookie or a metadata store, not a process of the suite. ``log_tail``: the last lines of its log.
    """

    process: str
    is_of_release: bool
    pid: int
    status: int | None
    log_tail: str = ""

    def sentence(self, memory_kills: int | None) -> str:
        """What happened, and the likely cause; ``memory_kills``: how many the kernel has counted during the run."""
        who = f"The {self.process}" if self.is_of_release else f"The suite's {self.process}"
        what = f"{who} (process {self.pid}) {how_it_ended(self.status)}, and the suite did not end it"
        return f"{what}.{_cause(self, memory_kills)}"


def how_it_ended(status: int | None) -> str:
    """How a process with this status ended, as a verb."""
    if status is None:
        return "ended"
    if status >= 0:
        return f"ended with exit status {status}"
    try:
        return f"was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"was ended by signal {-status}"


def killed_by(memory_kills: int | None) -> str:
    """The likely sender of a SIGKILL."""
    if memory_kills is None:
        return "The kernel's memory killer sends this signal: it is the likely cause."
    if memory_kills:
        return f"The kernel's memory killer is the likely cause: it struck {memory_kills} times during the run."
    return "The kernel counted no memory kill during the run: another process or a user sent the signal."


def _cause(end: ProcessEnd, memory_kills: int | None) -> str:
    if _OUT_OF_MEMORY in end.log_tail:
        return " Its Java ran out of memory."
    if end.status == -signal.SIGKILL:
        return f" {killed_by(memory_kills)}"
    return ""


def record(end: ProcessEnd) -> None:
    """Append an end to the file, if somebody listens."""
    path = os.environ.get(ENVIRONMENT_VARIABLE)
    if path is None:
        return
    with contextlib.suppress(OSError):  # the command that would report it is gone
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(descriptor, msgspec.json.encode(end) + b"\n")
        finally:
            os.close(descriptor)


class EndedProcesses:
    """The reading side, for the time of a run: the processes that are started meanwhile inherit the file's name."""

    def __init__(self) -> None:
        descriptor, path = tempfile.mkstemp(prefix="pulsar-conformance-ended-")
        os.close(descriptor)
        self._path = Path(path)
        self._read_bytes = 0
        self._outer: str | None = None
        self._kills_before = _memory_kills()

    def __enter__(self) -> Self:
        self._outer = os.environ.get(ENVIRONMENT_VARIABLE)
        os.environ[ENVIRONMENT_VARIABLE] = str(self._path)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        os.environ.pop(ENVIRONMENT_VARIABLE)
        if self._outer is not None:
            os.environ[ENVIRONMENT_VARIABLE] = self._outer
        self._path.unlink(missing_ok=True)

    @property
    def memory_kills(self) -> int | None:
        """How many processes the kernel has killed for lack of memory since the run began; None: it does not say."""
        now = _memory_kills()
        return None if now is None or self._kills_before is None else now - self._kills_before

    def new(self) -> Iterator[ProcessEnd]:
        """The ends since the last call, as far as their lines are whole."""
        with self._path.open("rb") as file:
            file.seek(self._read_bytes)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._read_bytes += len(line)
                yield msgspec.json.decode(line, type=ProcessEnd)


def _memory_kills() -> int | None:
    """The kernel's count, over all control groups."""
    with contextlib.suppress(OSError, ValueError):
        for line in _VMSTAT.read_text().splitlines():
            name, _, number = line.partition(" ")
            if name == "oom_kill":
                return int(number)
    return None
