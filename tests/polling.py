"""Waiting in tests: for something, and never longer than a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable

TIMEOUT_S = 30.0
"""How long a broker may take to answer on a machine that is busy: one that was just killed and started, over 10 s."""

_POLL_S = 0.02


def eventually(condition: Callable[[], object], *, deadline_s: float = TIMEOUT_S) -> None:
    """Return when the condition holds; fail the test if it does not within the deadline."""
    end = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end, f"did not come true within {deadline_s:g} s: {condition}"
        time.sleep(_POLL_S)


def becomes(condition: Callable[[], bool], *, within_s: float = 2.0) -> bool:
    """Whether something comes true, where a defect may keep it from doing so."""
    end = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(_POLL_S)
    return True
