"""One process of a deployment in a run folder: it starts, freezes and ends by itself, and says why it is not there."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from conformance.brokers.installation.java import Java
from conformance.brokers.release import Release
from conformance.brokers.startup.agent import load_agent
from conformance.brokers.startup.jvm import JavaProgram, java_command
from conformance.brokers.startup.ports import HOST
from conformance.brokers.startup.runs import GuardedProcess, RunFolder
from conformance.harness_error import HarnessError, NotReady
from conformance.wait import wait_until

Kind = Literal["zookeeper", "bookie", "broker"]

_END_DEADLINE_S: Final = 60.0
_POLL_S: Final = 0.01
_EXCERPT_LINES: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What the processes of one deployment share: their release and folder, the deployment's name for errors, and
    further options of Java for each kind.
    """

    release: Release
    java: Java
    run: RunFolder
    name: str
    options: Callable[[Kind], Sequence[str]]
    deadline_s: float = 120.0
    """How long each may take to be ready."""


class DeploymentProcess:
    """One of the processes, not started yet.

    Every method raises :class:`~conformance.harness_error.HarnessError` where the process does not do as asked within
    its deadline, with the end of its log.
    """

    def __init__(self, site: Site, kind: Kind, number: int = 1) -> None:
        self.site = site
        """What it starts with; that of a broker changes with its release."""
        self.kind: Final[Kind] = kind
        self.name: Final = kind if number == 1 else f"{kind}-{number}"
        self.process: Final = GuardedProcess(site.run, self.name)
        self._has_agent: int | None = None

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not ended; one that is frozen runs."""
        return self.process.pid() is not None and self.process.exit_status() is None

    def require_running(self) -> GuardedProcess:
        """Return its process. HarnessError if that does not run."""
        if self.process.pid() is None:
            raise HarnessError(f"The {self.name} of {self.site.name} has not been started.")
        status = self.process.exit_status()
        if status is not None:
            whole = f"The broker {self.site.name}" if self.name == "broker" else self._title
            raise HarnessError(f"{whole} is not running, it ended with status {status}. {self._said()}")
        return self.process

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to it, which must run."""
        self.require_running().send_signal(number)

    def end(self, number: signal.Signals) -> None:
        """Send it a signal, and wait until it has ended. HarnessError if another signal ended it before."""
        self.send_signal(number)
        self.await_end()
        status = self.process.exit_status()
        if status is not None and status < 0 and status != -number:
            self.require_running()

    def await_end(self, deadline_s: float = _END_DEADLINE_S) -> None:
        """Wait until it has ended."""
        if not wait_until(lambda: not self.is_running, deadline_s, pause_s=_POLL_S):
            raise HarnessError(f"{self._title} did not end within {deadline_s:g} s. {self._said()}")

    def _load_agent(self, port: int, rules: Path | None = None) -> bool:
        """Have the agent in its process, which may run without it until then; whether it is new there."""
        pid = self.require_running().pid()
        if pid is None or pid == self._has_agent:
            return False
        load_agent(pid, self.site.run.path, self.send_signal, address=HOST, port=port, rules=rules)
        self._has_agent = pid
        return True

    def _start(self, program: JavaProgram) -> None:
        site = self.site
        options = site.options(self.kind)
        self.process.start(java_command(site.release, site.java, site.run.path, program, options=options))

    def _await(self, what: str, condition: Callable[[], bool]) -> None:
        if not wait_until(lambda: not self.is_running or condition(), self.site.deadline_s, pause_s=_POLL_S):
            raise NotReady(f"{self._title} was not {what} within {self.site.deadline_s:g} s. {self._said()}")
        if not self.is_running:
            status = self.process.exit_status()
            raise NotReady(f"{self._title} ended with status {status} instead of being {what}. {self._said()}")
        self.process.expect(must_run=True)

    def must_run(self) -> None:
        """Have it reported if it ends by itself from now on; one that has ended is not."""
        if self.is_running:
            self.process.expect(must_run=True)

    def may_end(self) -> None:
        """Do not report the process if it ends by itself until its next start: the suite disturbs it."""
        self.process.expect(must_run=False)

    def _require_listening(self, port: int) -> None:
        if port not in self.process.listening_ports():
            raise HarnessError(f"{self._title} does not listen on its port {port}. {self._said()}")

    @property
    def _title(self) -> str:
        return f"The {self.name} of the broker {self.site.name}"

    def _said(self) -> str:
        return f"The end of its log:\n{self.process.last_lines(_EXCERPT_LINES)}"
