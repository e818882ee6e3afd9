"""Waiting in tests: for something, and never longer than a deadline; and the processes that something started."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar

import psutil

from conformance.wait import wait_until

TIMEOUT_S = 30.0
"""How long a broker may take to answer on a busy machine. One that was just killed and restarted takes over 10 s."""

_POLL_S = 0.02

_BUDGETS = ("30s", "90s", "270s")

T = TypeVar("T")


def eventually(condition: Callable[[], object], *, deadline_s: float = TIMEOUT_S) -> None:
    """Return when the condition holds; fail the test if it does not within the deadline."""
    assert wait_until(condition, deadline_s, pause_s=_POLL_S), f"not true within {deadline_s:g} s: {condition}"


def becomes(condition: Callable[[], bool], *, within_s: float = 2.0) -> bool:
    """Whether something becomes true, where a defect may prevent it."""
    return wait_until(condition, within_s, pause_s=_POLL_S)


def given_time(check: Callable[[str], T], is_enough: Callable[[T], bool]) -> tuple[str, T]:
    """The first budget that is enough for a check, and what the check comes to.

    On busy cores a broker alone may take 30 s to start. ``check`` gets each budget as the command line takes it.
    """
    for budget in _BUDGETS:
        if is_enough(result := check(budget)):
            break
    return budget, result


def descendants(of: psutil.Process | None = None) -> list[tuple[psutil.Process, Sequence[str]]]:
    """The processes below one, or this one, that have not ended, and the command line of each."""
    found: list[tuple[psutil.Process, Sequence[str]]] = []
    for process in (of or psutil.Process()).children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # a zombie has ended, too
            found.append((process, process.cmdline()))
    return found
