"""A fault that is set on a proxy: how many of its commands came, when it acted, and how it is lifted again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from conformance.harness_error import HarnessError
from conformance.proxy.events import Command
from conformance.proxy.faults import CutAfterBytes, Fault, Refuse


class Fired(Struct, frozen=True):
    """A fault acted: when, on which connection, on the command of which number; None where it was no command."""

    at_s: float
    connection: int | None
    command: int | None


class Armed:
    """A fault on a proxy; made by :meth:`conformance.proxy.proxy.Tap.inject`. Its public methods are for any thread."""

    def __init__(self, number: int, fault: Fault, lift: Callable[[Armed], None]) -> None:
        self.number: Final = number
        """What commands that it acted on are marked with."""
        self.fault: Final = fault
        self.set_at_s: Final = time.monotonic()
        self._lift = lift
        self._count = 0
        self._bytes: dict[int, int] = {}
        self._fired: list[Fired] = []
        self._news = threading.Condition()

    @property
    def fired(self) -> tuple[Fired, ...]:
        """When it acted, so far."""
        with self._news:
            return tuple(self._fired)

    def await_fired(self, *, times: int = 1, timeout_s: float) -> tuple[Fired, ...]:
        """Wait until it acted so many times; raise :class:`HarnessError` if it does not in time."""
        with self._news:
            if not self._news.wait_for(lambda: len(self._fired) >= times, timeout_s):
                raise HarnessError(
                    f"in {timeout_s:g} s a fault acted {len(self._fired)} times, not {times}: {self.fault}"
                )
            return tuple(self._fired)

    def lift(self) -> None:
        """Let it act no more, and what it holds go on. Safe to call twice."""
        self._lift(self)

    # ----------------------------------------------------------------------------------------- on the proxy's own
    # thread

    def is_turn_of(self, command: Command) -> bool:
        """Count a command, and say whether it is one to act on."""
        if isinstance(self.fault, CutAfterBytes | Refuse) or not self.fault.which.fits(command):
            return False
        self._count += 1
        which = self.fault.which
        return self._count >= which.nth and (which.count is None or self._count < which.nth + which.count)

    @property
    def is_spent(self) -> bool:
        """Whether, with the command that came last, it has had all that it is to act on."""
        if isinstance(self.fault, CutAfterBytes | Refuse):
            most = 1 if isinstance(self.fault, CutAfterBytes) else self.fault.connections
            return most is not None and len(self._fired) >= most
        which = self.fault.which
        return which.count is not None and self._count >= which.nth + which.count - 1

    def left_bytes(self, connection: int, size_bytes: int) -> int | None:
        """Count bytes that a connection is to pass on; how many of them still may, if it is to end with them."""
        if not isinstance(self.fault, CutAfterBytes) or self._fired:
            return None
        left = self.fault.size_bytes - self._bytes.get(connection, 0)
        if size_bytes >= left:
            return left
        self._bytes[connection] = self._bytes.get(connection, 0) + size_bytes
        return None

    def fire(self, connection: int | None, command: int | None) -> None:
        """Say that it acts now."""
        with self._news:
            self._fired.append(Fired(time.monotonic(), connection, command))
            self._news.notify_all()
