"""The suite's side of the guardian: run folders, and processes that do not outlive the suite.

A run folder belongs to one deployment, holds all that its processes write, and is locked by its guardian for as long as
that lives. What the processes are and when they are ready is not known here.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import threading
import uuid
from collections import deque
from pathlib import Path
from typing import IO, Any

import psutil

from conformance.brokers.installation.cache import cache_folder
from conformance.brokers.startup import guardian
from conformance.ended import ProcessEnd, record
from conformance.harness_error import HarnessError

_ANSWER_DEADLINE_S = 30.0
_END_DEADLINE_S = 30.0
_GONE_DEADLINE_S = 5.0
_GUARDIAN = "guardian of the broker's processes, which end with it"
_GONE = "The process that guards the broker is gone, and the broker with it."


class RunFolder:
    """A folder and its processes; all of them are removed when the suite ends or is killed.

    The constructor removes what runs before left behind, makes the folder, and starts the guardian.
    """

    def __init__(self) -> None:
        runs = cache_folder("runs")
        remove_stale(runs)
        self.path = runs / uuid.uuid4().hex[:12]
        self._talking = threading.Lock()
        self._guardian = subprocess.Popen(
            [sys.executable, "-I", "-S", guardian.__file__, self.path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,  # so that select sees everything that has not been read
            start_new_session=True,  # Ctrl-C in the suite's terminal does not reach it
        )
        self._requests = 0
        self._is_ending = False
        self._answer_to(0)

    def close(self) -> None:
        """Kill all processes and remove the folder. Safe to call twice."""
        self._report_end_of_guardian()
        self._is_ending = True
        with contextlib.suppress(BrokenPipeError):
            self._pipe(self._guardian.stdin).close()
        try:
            self._guardian.wait(_END_DEADLINE_S)
        except subprocess.TimeoutExpired:
            self._guardian.kill()
            self._guardian.wait()
        self._pipe(self._guardian.stdout).close()
        if self.path.exists():
            _remove(self.path)

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Send the guardian a request for one of the processes; returns the state of the process.

        Raises:
            HarnessError: it cannot be done, or the guardian is gone, and all processes with it.
        """
        with self._talking:
            self._requests += 1
            try:
                request["request"] = self._requests
                self._pipe(self._guardian.stdin).write(json.dumps(request).encode() + b"\n")
            except (OSError, ValueError) as error:
                raise self._gone() from error
            return self._answer_to(self._requests)

    def _answer_to(self, request: int) -> dict[str, Any]:
        """Return the answer to that request, and skip answers to interrupted earlier ones."""
        answer: dict[str, Any] = {}
        while answer.get("request") != request:
            answer = self._answer()
        if "error" in answer:
            raise HarnessError(f"The broker's process could not be started or reached: {answer['error']}.")
        return answer

    def _answer(self) -> dict[str, Any]:
        source = self._pipe(self._guardian.stdout)
        if not select.select([source], [], [], _ANSWER_DEADLINE_S)[0]:
            raise HarnessError(f"The process that guards the broker did not answer within {_ANSWER_DEADLINE_S:g} s.")
        line = source.readline()
        if not line:
            raise self._gone()
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _gone(self) -> HarnessError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._guardian.wait(_GONE_DEADLINE_S)
        self._report_end_of_guardian()
        return HarnessError(_GONE)

    def _report_end_of_guardian(self) -> None:
        """Report, once, that the guardian has ended although nobody closed the folder."""
        status = self._guardian.poll()
        if status is not None and not self._is_ending:
            self._is_ending = True
            record(ProcessEnd(process=_GUARDIAN, is_of_release=False, pid=self._guardian.pid, status=status))

    @staticmethod
    def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
        assert pipe is not None
        return pipe


class GuardedProcess:
    """One process of a run folder, by its name there; there may be several one after the other, never two at once."""

    def __init__(self, run: RunFolder, name: str) -> None:
        self.name = name
        self._run = run
        self._output_begins = 0

    @property
    def folder(self) -> Path:
        """The run folder, in which the process works."""
        return self._run.path

    @property
    def log(self) -> Path:
        """The file that the process's output is appended to."""
        return self._run.path / f"{self.name}.log"

    def output(self) -> bytes:
        """Return the output of the last process."""
        with self.log.open("rb") as log:
            log.seek(self._output_begins)
            return log.read()

    def start(self, command: list[str]) -> None:
        """Run the command in the run folder.

        Raises:
            HarnessError: it cannot be started, or the one before it is still running.
        """
        self._output_begins = self.log.stat().st_size if self.log.exists() else 0
        self._ask(do="start", command=command, folder=str(self._run.path), log=str(self.log))

    def send_signal(self, number: signal.Signals) -> None:
        """Send the process a signal; one that has ended is left alone."""
        self._ask(do="signal", number=int(number))

    def expect(self, *, must_run: bool) -> None:
        """Say whether the process must run from now on, and is to be reported if it ends by itself."""
        self._ask(do="expect", must_run=must_run)

    def exit_status(self) -> int | None:
        """Return how the process ended, as subprocess does (negative: by that signal); None while it runs.

        Raises:
            HarnessError: the guardian is gone, and the process with it.
        """
        status: int | None = self._ask(do="status")["exit"]
        return status

    def pid(self) -> int | None:
        """Return the id of the process that was started last, whether it has ended or not; None before the first."""
        pid: int | None = self._ask(do="status")["pid"]
        return pid

    def last_lines(self, lines: int) -> str:
        """Return the last lines of the log."""
        if not self.log.exists():
            return ""
        with self.log.open(encoding="utf-8", errors="replace") as log:
            return "".join(deque(log, maxlen=lines))

    def listening_ports(self) -> frozenset[int]:
        """Return the TCP ports on which the process listens; none once it has ended."""
        status = self._ask(do="status")
        if status["pid"] is None or status["exit"] is not None:
            return frozenset()
        try:
            sockets = psutil.Process(status["pid"]).net_connections("tcp")
        except psutil.NoSuchProcess:
            return frozenset()
        return frozenset(socket.laddr.port for socket in sockets if socket.status == psutil.CONN_LISTEN)

    def _ask(self, **request: Any) -> dict[str, Any]:
        return self._run.ask({"process": self.name, **request})


def remove_stale(runs: Path) -> None:
    """Remove the run folders whose guardian has ended, and their processes."""
    for folder in runs.iterdir():
        try:
            descriptor = os.open(folder, os.O_RDONLY)
        except OSError:
            continue  # its own guardian removed it just now
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(folder)
        except BlockingIOError:
            continue
        finally:
            os.close(descriptor)


def _remove(folder: Path) -> None:
    for process in psutil.process_iter(["name", "cmdline"]):
        if process.info["name"] == "java" and any(str(folder) in word for word in process.info["cmdline"] or ()):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
                process.wait(_END_DEADLINE_S)
    shutil.rmtree(folder, ignore_errors=True)
