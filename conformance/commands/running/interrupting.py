"""Ctrl-C for commands that can end in good order: the first one asks for that, the second one ends everything."""

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
    """The first Ctrl-C, or other request to end, does this; the second one raises KeyboardInterrupt."""

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
