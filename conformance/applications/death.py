"""How a program dies: it kills itself with SIGKILL, at the message and the point that the operation chose."""

from __future__ import annotations

import os
import signal

from conformance.workers.line import Line
from conformance.workers.protocol import Dying, Order
from model.operations import Death, Point


class Fate:
    """What is to become of one run of a program."""

    def __init__(self, death: Death | None, line: Line[Order]) -> None:
        self.received = 0
        """How many messages this run has received."""
        self._death = death
        self._line = line

    def receive(self) -> None:
        """Count a message."""
        self.received += 1
        self.reach("received")

    def reach(self, point: Point) -> None:
        """Die, if this is the point."""
        if self._death is not None and (self.received, point) == (self._death.message, self._death.point):
            self._line.send(Dying(self.received))
            os.kill(os.getpid(), signal.SIGKILL)
