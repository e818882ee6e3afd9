"""Forks a process for each application that is asked for, and leaves nothing behind when the suite is gone.

For each it is handed one end of a line, over a control socket; the rest is between that line's two ends. When the
control socket ends, the suite has ended, however it did: then the folder goes, and this process with all it forked.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import tempfile
import traceback
from collections.abc import Callable
from typing import Final

from conformance.applications.words import Broke, Line, Order, read_order

Run = Callable[[Line[Order]], None]
"""What a forked process does with its line."""

FOLDER_PREFIX: Final = "pulsar-conformance-applications-"


def serve(descriptor: int, run: Run) -> None:
    """Serve the control socket with this descriptor; it never returns.

    The first thing said over it is the name of the folder that the applications may keep their databases in.
    """
    control = socket.socket(fileno=descriptor)
    folder = tempfile.mkdtemp(prefix=FOLDER_PREFIX)
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system may forget them as they end
        control.sendall(folder.encode() + b"\n")
        while (line := _next_line(control)) is not None:
            if os.fork() == 0:
                control.close()
                _be_an_application(line, run)
            line.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.killpg(0, signal.SIGKILL)


def _next_line(control: socket.socket) -> socket.socket | None:
    data, descriptors, _, _ = socket.recv_fds(control, 1, 1)
    return socket.socket(fileno=descriptors[0]) if data and descriptors else None


def _be_an_application(sock: socket.socket, run: Run) -> None:
    """Run in this process, which was forked, and end it; nothing of what it was forked from may be touched any more."""
    status = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        line = Line(sock, read_order)
        try:
            run(line)
            status = 0
        except Exception:  # noqa: BLE001 - whatever it is, the suite has to learn of it
            line.say(Broke(traceback.format_exc()))
    finally:
        os._exit(status)
