"""A small process that owns the processes of a deployment and its run folder, so that none of them outlives the suite.

The suite starts it as a script and talks to it over its standard input and output: one JSON object a line, one answer a
request. When that input ends, because the suite stopped the deployment or was itself killed, the guardian kills all
processes with SIGKILL and removes the run folder. Should the guardian be killed, Linux kills them with it, and the next
run finds the folder's lock free and removes the folder (see :mod:`conformance.brokers.startup.runs`).

It imports nothing but the standard library and nothing of the suite, because it is started without either on its path
(about 20 ms), and it knows nothing of Pulsar: each request names a process, and says which command to run.
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

_PARENT_POLL_S = 1.0
_PR_SET_PDEATHSIG = 1


def main(folder: Path) -> None:
    """Create and lock ``folder``, serve requests until the suite ends or closes its end, then clean up."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the suite, which then closes its end
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit())
    wards: dict[str, _Ward] = {}
    lock = _make_locked(folder)
    try:
        _answer({"request": 0})
        for request in _requests():
            ward = wards.setdefault(request["process"], _Ward())
            _answer(ward.obey(request) | {"request": request["request"]})
    except BrokenPipeError:
        pass
    finally:
        for ward in wards.values():
            ward.kill()
        for ward in wards.values():
            ward.await_end()
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


class _Ward:
    """A guarded process, which may be started several times, one after the other."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._die_with_guardian = _death_wish()

    def obey(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            match request:
                case {"do": "start", "command": command, "folder": folder, "log": log}:
                    self._start(command, folder, log)
                case {"do": "signal", "number": number}:
                    if self._process is not None:
                        self._process.send_signal(number)  # does nothing to a process that has ended
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
        with Path(log).open("ab") as output:
            self._process = subprocess.Popen(
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                preexec_fn=self._die_with_guardian,
            )

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


def _requests() -> Iterator[dict[str, Any]]:
    """Yield the suite's requests until it closes its end.

    The suite's death is noticed by its pipe and, should a child of it have inherited that, by the parent's change.
    """
    parent = os.getppid()
    source = sys.stdin.fileno()
    received = b""
    while os.getppid() == parent:
        if not select.select([source], [], [], _PARENT_POLL_S)[0]:
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
