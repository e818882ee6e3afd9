"""What a started deployment leaves on the machine, as a test can find it from outside."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil


@dataclass(frozen=True, slots=True, kw_only=True)
class Traces:
    """The processes of a deployment, and its run folder."""

    guardian: psutil.Process
    zookeeper: psutil.Process
    bookie: psutil.Process
    broker: psutil.Process
    folder: Path

    @property
    def processes(self) -> list[psutil.Process]:
        return [self.guardian, self.zookeeper, self.bookie, self.broker]

    def left(self) -> list[object]:
        """Return what there still is of them."""
        processes: list[object] = [process for process in self.processes if runs(process)]
        return processes + [self.folder] * self.folder.exists()


def runs(process: psutil.Process) -> bool:
    """Whether the process has not ended; one that only waits for its parent to take note of its end has."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def all_traces(suite: psutil.Process) -> list[Traces]:
    """Return the traces of the deployments that run below the process, the oldest first."""
    found = []
    for broker in sorted(suite.children(recursive=True), key=psutil.Process.create_time):
        with suppress(psutil.NoSuchProcess):  # one that has just ended is no trace
            guardian = broker.parent()
            if "org.apache.pulsar.PulsarBrokerStarter" in broker.cmdline() and guardian is not None:
                by_main = {_main(one): one for one in guardian.children()}
                found.append(
                    Traces(
                        guardian=guardian,
                        zookeeper=by_main["QuorumPeerMain"],
                        bookie=by_main["Main"],
                        broker=broker,
                        folder=Path(broker.cwd()),
                    )
                )
    return found


def _main(java: psutil.Process) -> str:
    """The name of the class that a process runs."""
    return next((word.rpartition(".")[2] for word in java.cmdline() if word.startswith("org.apache.")), "")
