"""Waits for a condition, or for a request that succeeds, until a deadline.

tenacity was considered. Its limits count from the first attempt; here one deadline covers several steps of an
operation. These two loops are shorter than its configuration.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Self, TypeVar

from conformance.harness_error import HarnessError

T = TypeVar("T")

PAUSE_S: Final = 0.005
"""The first pause between two attempts: longer than a request to a local broker, and short for a user."""
AT_MOST_S: Final = 0.1
"""The longest pause, unless a caller asks for a longer one."""


class Deadline:
    """A moment on the monotonic clock, shared by all steps of one operation."""

    __slots__ = ("_at_s",)

    def __init__(self, at_s: float) -> None:
        self._at_s = at_s

    @classmethod
    def after(cls, timeout_s: float) -> Self:
        """The deadline ``timeout_s`` seconds from now."""
        return cls(time.monotonic() + timeout_s)

    @property
    def left_s(self) -> float:
        """Seconds until then; 0 once it has passed."""
        return max(0.0, self._at_s - time.monotonic())

    @property
    def passed(self) -> bool:
        return time.monotonic() >= self._at_s


class Patience:
    """A deadline that every sign of progress extends, because messages may arrive slowly on a busy machine.

    It passes ``timeout_s`` after the last progress, and at the latest after ten times ``timeout_s``.
    """

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s: Final = timeout_s
        self._at_most: Final = Deadline.after(10 * timeout_s)
        self._next = Deadline.after(timeout_s)

    def progressed(self) -> None:
        """Something came."""
        self._next = Deadline.after(self._timeout_s)

    @property
    def passed(self) -> bool:
        return self._next.passed or self._at_most.passed


def wait_until(condition: Callable[[], T], timeout: Deadline | float, *, pause_s: float = PAUSE_S) -> T:
    """Call ``condition`` until it returns something true or the time is over; returns its last value.

    ``timeout`` is a deadline or seconds from now. The condition is called at least once.
    """
    deadline = timeout if isinstance(timeout, Deadline) else Deadline.after(timeout)
    began_s = time.monotonic()
    while not (last := condition()) and not deadline.passed:
        time.sleep(_pause_s(began_s, pause_s))
    return last


def retry(
    request: Callable[[], T],
    timeout: Deadline | float,
    *,
    may_pass: Callable[[HarnessError], bool] = lambda error: error.may_pass,
    pause_s: float = PAUSE_S,
) -> T:
    """Send a request, and repeat it while it fails with an error that may pass; after that raise the error.

    ``timeout`` is a deadline or seconds from now. The request is made at least once.
    """
    deadline = timeout if isinstance(timeout, Deadline) else Deadline.after(timeout)
    began_s = time.monotonic()
    while True:
        try:
            return request()
        except HarnessError as error:
            if deadline.passed or not may_pass(error):
                raise
        time.sleep(_pause_s(began_s, pause_s))


def _pause_s(began_s: float, at_least_s: float) -> float:
    """The next pause: what comes late is asked for less often, and noticed at most a tenth later."""
    return max(at_least_s, min(AT_MOST_S, 0.1 * (time.monotonic() - began_s)))
