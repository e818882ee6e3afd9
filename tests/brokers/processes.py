"""What a started distribution broker leaves on the machine, as a test can find it from outside."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil


@dataclass(frozen=True, slots=True, kw_only=True)
class Traces:
    """The two processes of a distribution broker, and its run folder."""

    guardian: psutil.Process
    java: psutil.Process
    folder: Path

    def left(self) -> list[object]:
        """Return what there still is of them."""
        processes: list[object] = [process for process in (self.guardian, self.java) if runs(process)]
        return processes + [self.folder] * self.folder.exists()


def runs(process: psutil.Process) -> bool:
    """Whether the process has not ended; one that only waits for its parent to take note of its end has."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def all_traces(suite: psutil.Process) -> list[Traces]:
    """Return the traces of the brokers that run below the process, the oldest first."""
    found = []
    for java in sorted(suite.children(recursive=True), key=psutil.Process.create_time):
        with suppress(psutil.NoSuchProcess):  # one that has just ended is no trace
            guardian = java.parent()
            if "org.apache.pulsar.PulsarStandaloneStarter" in java.cmdline() and guardian is not None:
                found.append(Traces(guardian=guardian, java=java, folder=Path(java.cwd())))
    return found
