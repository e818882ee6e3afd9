"""The suite's side: starts the process that workers are forked from, and the workers."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Generic, TypeVar

import msgspec

from conformance.clients.outcomes import NoAnswer
from conformance.ended import ProcessEnd, record
from conformance.harness_error import HarnessError
from conformance.workers.line import Line
from conformance.workers.protocol import WorkerCrashed

R = TypeVar("R")

START_TIMEOUT_S: Final = 60.0
"""How long a process of Python may take to start on a machine that is busy."""
END_TIMEOUT_S: Final = 10.0
_GONE_TIMEOUT_S: Final = 5.0


class Worker(Generic[R]):
    """A worker's process, which sends reports of a type."""

    def __init__(self, sock: socket.socket, read: Callable[[bytes], R]) -> None:
        self._line = Line(sock, read)

    def fileno(self) -> int:
        """The descriptor that can be read once a report has arrived."""
        return self._line.fileno()

    @property
    def has_reported(self) -> bool:
        """Whether the next :meth:`receive` does not wait."""
        return self._line.has_message

    def send(self, order: msgspec.Struct) -> None:
        """Send an order. Does nothing if the worker is gone."""
        self._line.send(order)

    def receive(self, timeout_s: float | None) -> R | None:
        """Its next report; None if it is gone. Raises ``NoAnswer``, and ``HarnessError`` if it has a bug."""
        report = self._line.receive(timeout_s)
        if isinstance(report, WorkerCrashed):
            raise HarnessError(f"a worker of the suite has a bug: {report.traceback}")
        return report

    def await_end(self, timeout_s: float = END_TIMEOUT_S) -> None:
        """Wait until its process is gone, and with it its connections; HarnessError if it does not end."""
        try:
            while self.receive(timeout_s) is not None:
                pass
        except NoAnswer:
            raise HarnessError(f"a worker of the suite did not end within {timeout_s:g} s") from None
        finally:
            self._line.close()


class Starter(Generic[R]):
    """Starts workers; the process that they are forked from is started with the first of them."""

    def __init__(
        self,
        module: str,
        read: Callable[[bytes], R],
        *,
        arguments: Sequence[str] = (),
        end_timeout_s: float = END_TIMEOUT_S,
    ) -> None:
        """``module``: what Python runs, with these ``arguments``; it calls :func:`conformance.workers.zygote.serve`.

        ``read`` decodes the reports of its workers.
        """
        self._module = module
        self._read = read
        self._arguments = arguments
        self._end_timeout_s = end_timeout_s
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._folder: Path | None = None

    @property
    def folder(self) -> Path:
        """Where workers keep their files; it is removed when the suite ends."""
        self._start()
        assert self._folder is not None
        return self._folder

    def run(self, order: msgspec.Struct) -> Worker[R]:
        """Start a worker with its first order."""
        control = self._start()
        mine, its = socket.socketpair()
        try:
            socket.send_fds(control, [b"."], [its.fileno()])
        except OSError as error:
            self._report_end(_GONE_TIMEOUT_S)
            raise HarnessError(f"the process that workers are forked from is gone: {error}") from error
        finally:
            its.close()
        worker = Worker(mine, self._read)
        worker.send(order)
        return worker

    def prepare(self) -> None:
        """Start the process that workers are forked from, without waiting until it can fork."""
        if self._control is not None:
            return
        mine, its = socket.socketpair()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", self._module, str(its.fileno()), *self._arguments],
            pass_fds=[its.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # a group of its own, which ends as a whole; Ctrl-C does not reach it
        )
        its.close()
        self._control = mine

    def close(self) -> None:
        """End the process and all that it forked, and remove the folder; safe to call twice."""
        self._report_end()
        if self._control is not None:
            self._control.close()
            self._control = self._folder = None
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(self._end_timeout_s)
            self._process.kill()
            self._process.wait()
            self._process = None

    def _report_end(self, within_s: float = 0.0) -> None:
        """Report that the process has ended although its control socket is open."""
        process = self._process
        if process is None or self._control is None:
            return
        with suppress(subprocess.TimeoutExpired):
            status = process.wait(within_s)
            self._process = None
            record(
                ProcessEnd(process=f"starter of {self._module}", is_of_release=False, pid=process.pid, status=status)
            )

    def _start(self) -> socket.socket:
        self.prepare()
        assert self._control is not None
        if self._folder is None:
            self._folder = Path(self._first_line(self._control))
        return self._control

    def _first_line(self, control: socket.socket) -> str:
        control.settimeout(START_TIMEOUT_S)
        try:
            with control.makefile("r") as lines:
                folder = lines.readline().strip()
        except TimeoutError:
            folder = ""
        control.settimeout(None)
        if not folder:
            self.close()
            raise HarnessError("the process that workers are forked from did not start")
        return folder
