"""Ends the engine when its supervisor is gone: a pytest plugin, loaded before the engine's own.

The supervisor holds one end of a pipe and never writes to it. When the other end reads end-of-file, the supervisor has
died (a ``kill -9``, say): the engine is interrupted like by Ctrl-C, and its whole process group killed if it has not
ended a few seconds later. Whatever the engine started in other process groups has guardians of its own.
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
    """Add ``--lifeline``; the supervisor sets it, and nobody else needs to."""
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
