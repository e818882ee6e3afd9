"""Forks a worker process for each line that the suite hands it, and leaves no process behind.

Each fork gets one end of a line, over a control socket. When the control socket ends, the suite has ended, however it
did. Then the folder is removed, and this process is killed with all its forks.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import tempfile
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

from conformance.ended import ProcessEnd, record
from conformance.workers.line import Line
from conformance.workers.protocol import WorkerCrashed

T = TypeVar("T")

Run = Callable[[Line[T]], None]
"""What a forked process does with its line."""

FOLDER_PREFIX: Final = "pulsar-conformance-workers-"


def serve(
    descriptor: int,
    run: Run[T],
    read: Callable[[bytes], T],
    *,
    grace_s: float = 0.0,
    name: str | None = None,
) -> None:
    """Serve the control socket with this descriptor; it never returns.

    It first sends the name of a folder for the workers. ``read`` decodes the orders that these get. ``grace_s``: how
    long the workers may take to end by themselves once the suite is gone. ``name``: what a worker is in the report of
    one that a signal ended; None where workers are to kill themselves.
    """
    control = socket.socket(fileno=descriptor)
    folder = tempfile.mkdtemp(prefix=FOLDER_PREFIX)
    try:
        signal.signal(signal.SIGCHLD, lambda _number, _frame: _reap(name))
        control.sendall(folder.encode() + b"\n")
        while (line := _next_line(control)) is not None:
            if os.fork() == 0:
                control.close()
                _work(line, run, read)
            line.close()
        if grace_s:
            _await_workers(grace_s)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.killpg(0, signal.SIGKILL)


def _next_line(control: socket.socket) -> socket.socket | None:
    data, descriptors, _, _ = socket.recv_fds(control, 1, 1)
    return socket.socket(fileno=descriptors[0]) if data and descriptors else None


def _await_workers(grace_s: float) -> None:
    def give_up(_number: int, _frame: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, grace_s)
    with suppress(ChildProcessError, TimeoutError):
        while True:
            os.wait()


def _reap(name: str | None) -> None:
    """Take note of the workers that have ended, and report those that a signal ended."""
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            pid, status = ended[0], os.waitstatus_to_exitcode(ended[1])
            if name is not None and status < 0:
                record(ProcessEnd(process=name, is_of_release=False, pid=pid, status=status))


def _work(sock: socket.socket, run: Run[T], read: Callable[[bytes], T]) -> None:
    """Run in this process, which was forked, and end it; nothing of what it was forked from may be touched any more."""
    status = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        line = Line(sock, read)
        try:
            run(line)
            status = 0
        except Exception:  # noqa: BLE001 - the suite must learn of any bug
            line.send(WorkerCrashed(traceback.format_exc()))
    finally:
        os._exit(status)
