"""Ctrl-C for commands with a graceful end: the first one requests it, the second one ends the process."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED = 130
"""The exit status of a run that the user ended."""


_NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def at_first_interrupt(end: Callable[[], None]) -> Iterator[None]:
    """Call ``end`` at the first Ctrl-C or SIGTERM; the second one raises KeyboardInterrupt."""

    def interrupted(_number: int, _frame: FrameType | None) -> None:
        for number in _NUMBERS:
            signal.signal(number, signal.default_int_handler)
        end()

    before = {number: signal.signal(number, interrupted) for number in _NUMBERS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
