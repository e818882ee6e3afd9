"""The broker of a run: it is started again, replaced, or exchanged for one with the shipped settings."""

from __future__ import annotations

import time
from collections.abc import Callable

from conformance.brokers.settings import Base
from conformance.engine.findings import Findings
from conformance.engine.rounds import Rounds
from conformance.harness_error import HarnessError
from conformance.lockstep.world import World

LEAST_FOR_START_S = 12.0
"""The least remaining time for another start of the broker."""
STARTS_ON_SHIPPED = 3
"""The least remaining time in multiples of the first start. On a loaded machine a start takes most of a minute, and the
broker must be stopped before, and leave time for examples after it."""
START_AT_MOST_S = 150.0
"""How long a start may take that hangs, with the stop before it. A run may take as much time beyond its budget."""


class ServedBroker:
    """Starts the broker of a run while enough time is left for a start."""

    def __init__(
        self,
        rounds: Rounds,
        findings: Findings,
        *,
        deadline: float | None,
        start_took_s: float,
        is_interrupted: Callable[[], bool],
        on_shipped: Callable[[], World] | None,
        on_new_broker: Callable[[Base], World] | None,
    ) -> None:
        """``on_shipped``: stops the broker, and returns a world on another one with the shipped settings.
        ``on_new_broker``: the same with the base settings that it had.
        """
        self._rounds = rounds
        self._findings = findings
        self._deadline = deadline
        self._start_took_s = start_took_s
        self._is_interrupted = is_interrupted
        self._on_shipped = on_shipped
        self._on_new_broker = on_new_broker
        self.is_lost = False
        """Whether the broker does not serve, and could not be started again."""

    def is_served_after(self, failure: HarnessError) -> bool:
        """Whether the broker serves after an example failed; starts it again if not."""
        if self._rounds.world.is_serving():
            return True
        if self.is_too_late_to_start(1):
            return self._end_without_broker()
        self._findings.emit_phase(
            f"starting the broker again, which does not serve: {failure}", within_s=START_AT_MOST_S
        )
        try:
            self._rounds.world.start_again()
        except HarnessError as harness_error:
            if self.is_too_late_to_start(1):
                return self._end_without_broker()
            if self.replaced() is None:
                self.is_lost = True
                self._findings.emit_harness_error(f"The broker does not start again, so the run ends: {harness_error}")
        return not self.is_lost

    def _end_without_broker(self) -> bool:
        """End a run with what it has found; the broker does not serve any more."""
        self.is_lost = True
        what = "the run ends here: the broker does not serve, and no time is left to start it again"
        self._findings.emit_phase(what)
        return False

    def replaced(self) -> World | None:
        """A world on a new broker, in place of one that does not start again on its data; None if that fails, too."""
        if self._on_new_broker is None:
            return None
        self._findings.emit_phase("starting a new broker, without the data of the former", within_s=START_AT_MOST_S)
        try:
            self._rounds.world = self._on_new_broker(self._findings.base)
        except HarnessError:
            return None
        return self._rounds.world

    def is_too_late_to_start(self, brokers: int) -> bool:
        """Whether less time is left than so many starts take."""
        return self._deadline is not None and self._deadline - time.monotonic() < self.starts_s(brokers)

    def starts_s(self, brokers: int) -> float:
        """How long so many starts take."""
        return max(LEAST_FOR_START_S, brokers * self._start_took_s)

    def move_to_shipped(self) -> bool:
        """Continue on a broker with the shipped settings; whether it starts in time."""
        if self._findings.base == "shipped":
            return True
        if self._on_shipped is None or self._is_interrupted():
            return False
        # A violation is replayed on the settings that it was found with.
        if self.is_too_late_to_start(STARTS_ON_SHIPPED) or self._findings.are_doubted:
            self._on_shipped = None
            why = "a violation is replayed first" if self._findings.are_doubted else "no time is left"
            what = f"nothing is run on the settings that are shipped: {why}"
            self._findings.emit_phase(what)
            return False
        self._findings.emit_phase("starting the broker on the settings that are shipped")
        try:
            self._rounds.world, self._findings.base = self._on_shipped(), "shipped"
        except HarnessError as harness_error:
            self.is_lost = True
            self._findings.emit_harness_error(str(harness_error))
            return False
        return True
