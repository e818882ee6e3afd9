"""Ctrl-C for commands that can end in good order: the first one asks for that, the second one ends everything."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED = 130
"""The exit status of a run that the user ended."""


@contextmanager
def at_first_interrupt(end: Callable[[], None]) -> Iterator[None]:
    """The first Ctrl-C does this, the second one raises KeyboardInterrupt."""

    def interrupted(_number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        end()

    before = signal.signal(signal.SIGINT, interrupted)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
