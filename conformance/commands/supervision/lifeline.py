"""Ends the engine when its supervisor has died: a pytest plugin, loaded before the engine's own.

The supervisor keeps one end of a pipe and never writes to it. End-of-file at the other end means that the supervisor
has died, for example by ``kill -9``. The engine is then interrupted, and a few seconds later its process group is
killed. Processes in other groups have guardians.
"""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

GRACE_S = 10.0
"""How long an engine without a supervisor may take to end by itself, in seconds."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--lifeline``, which only the supervisor sets."""
    parser.addoption("--lifeline", type=int, metavar="FD", help="descriptor that reads end-of-file with the supervisor")


def pytest_configure(config: pytest.Config) -> None:
    """Watch the lifeline from now on, if there is one."""
    descriptor: int | None = config.getoption("--lifeline")
    if descriptor is not None:
        hold(descriptor)


def hold(descriptor: int) -> None:
    """Watch a lifeline in the background, and end this process when it is cut."""
    threading.Thread(target=_watch, args=(descriptor,), name="lifeline", daemon=True).start()


def _watch(descriptor: int) -> None:
    while os.read(descriptor, 1):
        pass
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(GRACE_S)
    os.killpg(0, signal.SIGKILL)
