"""A small process that owns the processes of a deployment and its run folder, so that none of them outlives the suite.

The suite starts it as a script and talks to it over its standard input and output: one JSON object a line, one answer a
request. When that input ends, because the suite stopped the deployment or was itself killed, the guardian kills all
processes with SIGKILL and removes the run folder. Should the guardian be killed, Linux kills them with it, and the next
run finds the folder's lock free and removes the folder (see :mod:`conformance.brokers.startup.runs`).

It imports nothing but the standard library and nothing of the suite, because it is started without either on its path
(about 20 ms), and it knows nothing of Pulsar: each request names a process, and says which command to run.

It knows which signals the suite asked for. A process that ends otherwise is reported at once, in the file that the
environment names (``conformance.ended``): with any signal that the suite did not send, or by itself while it *must
run*, which the suite says once the process is ready. A process that is frozen may end: it loses its session.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

_LOOK_EVERY_S = 0.2
_PR_SET_PDEATHSIG = 1
_LISTENER = "PULSAR_CONFORMANCE_ENDED"
_LAST_LINES = 20
_FATAL_ERROR_LINES = 20
_TAIL_BYTES = 1 << 14
_HARMLESS = {signal.SIGSTOP, signal.SIGCONT, signal.SIGQUIT}  # Java prints its threads on the last one


def main(folder: Path) -> None:
    """Create and lock ``folder``, serve requests until the suite ends or closes its end, then clean up."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the suite, which then closes its end
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit())
    wards: dict[str, _Ward] = {}
    lock = _make_locked(folder)
    try:
        _answer({"request": 0})
        for request in _requests(wards):
            ward = wards.setdefault(request["process"], _Ward(request["process"]))
            _answer(ward.obey(request) | {"request": request["request"]})
    except BrokenPipeError:
        pass
    finally:
        _look_at(wards)
        for ward in wards.values():
            ward.kill()
        for ward in wards.values():
            ward.await_end()
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


class _Ward:
    """A guarded process, which may be started several times, one after the other."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._process: subprocess.Popen[bytes] | None = None
        self._folder = Path()
        self._log = Path()
        self._sent: set[int] = set()
        self._must_run = False
        self._is_reported = False
        self._die_with_guardian = _death_wish()

    def obey(self, request: dict[str, Any]) -> dict[str, Any]:
        self.look()  # before a signal of ours can explain an end
        try:
            match request:
                case {"do": "start", "command": command, "folder": folder, "log": log}:
                    self._start(command, folder, log)
                case {"do": "signal", "number": number}:
                    self._send(number)
                case {"do": "expect", "must_run": must_run}:
                    self._must_run = must_run
                case {"do": "status"}:
                    pass
                case _:
                    return {"error": f"unknown request {request}"}
        except OSError as error:
            return {"error": str(error)}
        return self._status()

    def _start(self, command: list[str], folder: str, log: str) -> None:
        if self._process is not None and self._process.poll() is None:
            raise OSError("the process before it is still running")
        self._folder, self._log = Path(folder), Path(log)
        self._sent, self._must_run, self._is_reported = set(), False, False
        with Path(log).open("ab") as output:
            self._process = subprocess.Popen(
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                preexec_fn=self._die_with_guardian,
            )

    def _send(self, number: int) -> None:
        if self._process is not None and self._process.poll() is None:
            if number not in _HARMLESS:
                self._sent.add(number)
            elif number == signal.SIGSTOP:
                self._must_run = False
            self._process.send_signal(number)

    def look(self) -> None:
        """Report that the process has ended, once, unless the suite ended it or it may end."""
        status = None if self._process is None else self._process.poll()
        if self._process is None or status is None or self._is_reported:
            return
        self._is_reported = True
        is_ours = -status in self._sent if status < 0 else bool(self._sent) or not self._must_run
        if not is_ours:
            self._report(self._process.pid, status)

    def _report(self, pid: int, status: int) -> None:
        path = os.environ.get(_LISTENER)
        if path is None:
            return
        tail = "\n".join([*self._fatal_error(pid), *_last_lines(self._log)])
        line = {"process": self._name, "is_of_release": True, "pid": pid, "status": status, "log_tail": tail}
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
        except OSError:
            return  # the command that would report it is gone
        os.write(descriptor, json.dumps(line).encode() + b"\n")
        os.close(descriptor)

    def _fatal_error(self, pid: int) -> list[str]:
        """The beginning of what Java wrote about its own crash."""
        try:
            text = (self._folder / f"hs_err_pid{pid}.log").read_text("utf-8", "replace")
        except OSError:
            return []
        return text.splitlines()[:_FATAL_ERROR_LINES]

    def _status(self) -> dict[str, Any]:
        if self._process is None:
            return {"pid": None, "exit": None}
        return {"pid": self._process.pid, "exit": self._process.poll()}

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()

    def await_end(self) -> None:
        if self._process is not None:
            self._process.wait()


def _look_at(wards: dict[str, _Ward]) -> None:
    for ward in wards.values():
        ward.look()


def _last_lines(log: Path) -> list[str]:
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            return file.read().decode("utf-8", "replace").splitlines()[-_LAST_LINES:]
    except OSError:
        return []


def _death_wish() -> Callable[[], None] | None:
    """Ask the kernel, in the child, to kill it when the guardian dies; Linux only."""
    if sys.platform != "linux":
        return None
    guardian = os.getpid()
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def wish() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != guardian:  # it died before the wish was made
            os._exit(1)

    return wish


def _make_locked(folder: Path) -> int:
    """Make the folder and hold its lock; returns the descriptor that holds it.

    A run that cleans up may take the folder away between the two, when it is not locked yet: then it is made again.
    """
    while True:
        folder.mkdir(parents=True)
        descriptor = os.open(folder, os.O_RDONLY)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if folder.exists() and os.path.samestat(os.fstat(descriptor), folder.stat()):
            return descriptor
        os.close(descriptor)


def _requests(wards: dict[str, _Ward]) -> Iterator[dict[str, Any]]:
    """Yield the suite's requests until it closes its end, and look at the processes meanwhile.

    The suite's death is noticed by its pipe and, should a child of it have inherited that, by the parent's change.
    """
    parent = os.getppid()
    source = sys.stdin.fileno()
    received = b""
    while os.getppid() == parent:
        _look_at(wards)
        if not select.select([source], [], [], _LOOK_EVERY_S)[0]:
            continue
        chunk = os.read(source, 1 << 16)
        if not chunk:
            return
        *lines, received = (received + chunk).split(b"\n")
        for line in lines:
            yield json.loads(line)


def _answer(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
