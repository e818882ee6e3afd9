"""The suite's side: starts the process that applications are forked from, and talks to each of them."""

from __future__ import annotations

import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from conformance.applications.words import Broke, Line, Order, Report, read_report
from conformance.clients.outcomes import NoAnswer
from conformance.harness_error import HarnessError

START_TIMEOUT_S: Final = 60.0
"""How long a process of Python may take to start on a machine that is busy."""
END_TIMEOUT_S: Final = 10.0

MODULE: Final = "conformance.applications"


class Application:
    """An application's process."""

    def __init__(self, sock: socket.socket) -> None:
        self._line = Line(sock, read_report)

    def tell(self, order: Order) -> None:
        """Say what it is to do."""
        self._line.say(order)

    def hear(self, timeout_s: float) -> Report | None:
        """What it says next; None if it is gone. Raises ``NoAnswer``, and ``HarnessError`` if it has a bug."""
        report = self._line.hear(timeout_s)
        if isinstance(report, Broke):
            raise HarnessError(f"an application of the suite has a bug: {report.traceback}")
        return report

    def await_end(self) -> None:
        """Wait until its process is gone, and with it its connections. Raises :class:`HarnessError` if it does not
        go."""
        try:
            while self.hear(END_TIMEOUT_S) is not None:
                pass
        except NoAnswer:
            raise HarnessError(f"an application of the suite did not end within {END_TIMEOUT_S:g} s") from None
        finally:
            self._line.close()


class Starter:
    """Starts applications; its own process is started with the first of them."""

    def __init__(self, module: str = MODULE) -> None:
        """``module`` is what Python runs for the process that is forked."""
        self._module = module
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._folder: Path | None = None

    @property
    def folder(self) -> Path:
        """Where applications keep their databases; it is gone when the suite is."""
        self._start()
        assert self._folder is not None
        return self._folder

    def run(self, order: Order) -> Application:
        """Start an application and tell it what to be."""
        control = self._start()
        mine, its = socket.socketpair()
        try:
            socket.send_fds(control, [b"."], [its.fileno()])
        except OSError as error:
            raise HarnessError(f"the process that applications are forked from is gone: {error}") from error
        finally:
            its.close()
        application = Application(mine)
        application.tell(order)
        return application

    def close(self) -> None:
        """End the process and all that it forked, and remove the folder; safe to call twice."""
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(END_TIMEOUT_S)
            self._process.kill()
            self._process.wait()
            self._process = None

    def _start(self) -> socket.socket:
        if self._control is not None:
            return self._control
        mine, its = socket.socketpair()
        self._process = subprocess.Popen(
            [sys.executable, "-m", self._module, str(its.fileno())],
            pass_fds=[its.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # a group of its own, which ends as a whole; Ctrl-C does not reach it
        )
        its.close()
        self._control = mine
        self._folder = Path(self._first_words(mine))
        return mine

    def _first_words(self, control: socket.socket) -> str:
        control.settimeout(START_TIMEOUT_S)
        try:
            with control.makefile("r") as words:
                folder = words.readline().strip()
        except TimeoutError:
            folder = ""
        control.settimeout(None)
        if not folder:
            self.close()
            raise HarnessError("the process that applications are forked from did not start")
        return folder
