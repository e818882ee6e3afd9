"""A fault that is set on a proxy: it counts commands, fires, and is lifted."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from conformance.harness_error import HarnessError
from conformance.proxy.events import Command
from conformance.proxy.faults import CutAfterBytes, Fault, Refuse


class FiredFault(Struct, frozen=True):
    """A fault fired: when, on which connection, on which command (None if on no command)."""

    at_s: float
    connection: int | None
    command: int | None


class ArmedFault:
    """A fault on a proxy; made by :meth:`conformance.proxy.proxy.Tap.inject`. Its public methods are for any thread."""

    def __init__(self, number: int, fault: Fault, lift: Callable[[ArmedFault], None]) -> None:
        self.number: Final = number
        """The mark of the commands that it acted on."""
        self.fault: Final = fault
        self.set_at_s: Final = time.monotonic()
        self._lift = lift
        self._count = 0
        self._bytes: dict[int, int] = {}
        self._fired: list[FiredFault] = []
        self._news = threading.Condition()

    @property
    def fired(self) -> tuple[FiredFault, ...]:
        """When it fired so far."""
        with self._news:
            return tuple(self._fired)

    def await_fired(self, *, times: int = 1, timeout_s: float) -> tuple[FiredFault, ...]:
        """Wait until it fired so many times. Raises :class:`HarnessError`."""
        with self._news:
            if not self._news.wait_for(lambda: len(self._fired) >= times, timeout_s):
                raise HarnessError(
                    f"in {timeout_s:g} s a fault acted {len(self._fired)} times, not {times}: {self.fault}"
                )
            return tuple(self._fired)

    def lift(self) -> None:
        """Stop it and release the frames that it holds. Safe to call twice."""
        self._lift(self)

    # ----------------------------------------------------------------------------------------- on the proxy's own
    # thread

    def is_turn_of(self, command: Command) -> bool:
        """Count a command; whether to act on it."""
        if isinstance(self.fault, CutAfterBytes | Refuse) or not self.fault.which.fits(command):
            return False
        self._count += 1
        which = self.fault.which
        return self._count >= which.nth and (which.count is None or self._count < which.nth + which.count)

    @property
    def is_spent(self) -> bool:
        """Whether the last command was the last one to act on."""
        if isinstance(self.fault, CutAfterBytes | Refuse):
            most = 1 if isinstance(self.fault, CutAfterBytes) else self.fault.connections
            return most is not None and len(self._fired) >= most
        which = self.fault.which
        return which.count is not None and self._count >= which.nth + which.count - 1

    def left_bytes(self, connection: int, size_bytes: int) -> int | None:
        """Count the next bytes of a connection; returns how many of them to pass on if it must end within them."""
        if not isinstance(self.fault, CutAfterBytes) or self._fired:
            return None
        left = self.fault.size_bytes - self._bytes.get(connection, 0)
        if size_bytes >= left:
            return left
        self._bytes[connection] = self._bytes.get(connection, 0) + size_bytes
        return None

    def fire(self, connection: int | None, command: int | None) -> None:
        """Record that it fires."""
        with self._news:
            self._fired.append(FiredFault(time.monotonic(), connection, command))
            self._news.notify_all()
