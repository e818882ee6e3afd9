"""Assigns rounds of machines to lanes, in groups of machines that can run in parallel.

Machines get rounds by their shares of the budget, measured by the duration of their rounds. As long as a machine has a
rule that was not exercised, it comes first and gets twice as many. The number of rounds depends on time; the choices in
a round do not.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import psutil

from conformance.brokers.interface import OF_ONE_BROKER, Capability
from conformance.engine.lanes.lane import factory_of
from conformance.engine.lanes.protocol import RoundEnded, RunRound
from conformance.engine.machines import Machine, described

FIRST_ROUND_S: Final = 5.0
"""The expected duration of a machine's first round."""
OF_OTHER_DEPLOYMENTS: Final = frozenset(Capability) - OF_ONE_BROKER
"""The capabilities for faults of several processes of a deployment, which lanes cannot share."""
FURTHER_CLUSTERS_BYTES: Final = 3 * 2**30
"""The memory for the further clusters of a lane: three of some 750 MB each (4.0.8), and a reserve."""
FAILURES: Final = 2
"""After so many rounds with a harness error, a machine does not run any more."""


def groups(machines: Sequence[Machine]) -> list[tuple[Machine, ...]]:
    """The machines that can share a broker: those that leave its process alone, those that kill or restart it, those
    that run on further clusters of their lanes, and the same on the shipped settings.

    A machine that changes the settings of the broker, or needs a larger deployment, is in no group.
    """
    able = [
        machine
        for machine in machines
        if not machine.needs & OF_OTHER_DEPLOYMENTS
        and machine.affects != "settings"
        and factory_of(machine) is not None
    ]
    grouped: dict[tuple[bool, str], list[Machine]] = {}
    for machine in able:
        shared = "clusters" if machine.has_further_clusters else machine.affects
        grouped.setdefault((machine.on_shipped, shared), []).append(machine)
    return [tuple(group) for group in grouped.values()]


def with_further_clusters(lanes: int) -> int:
    """How many of a run's lanes can have clusters of their own: one for each processor, as far as memory suffices."""
    room = psutil.virtual_memory().available // FURTHER_CLUSTERS_BYTES
    return max(1, min(lanes, os.cpu_count() or 1, room))


@dataclass(slots=True)
class _Turn:
    """A machine of a group. ``spent_s``: the time of its ended rounds in all lanes; ``running``: when others began."""

    machine: Machine
    number: int = 0
    ended: int = 0
    spent_s: float = 0.0
    running: dict[int, float] = field(default_factory=dict)
    failures: int = 0
    is_through: bool = False

    def weighed(self, now: float) -> float:
        """The seconds of its ended and running rounds per unit of its share; a running one takes as long as others."""
        expected_s = self.spent_s / self.ended if self.ended else FIRST_ROUND_S
        running_s = sum(max(expected_s, now - began) for began in self.running.values())
        return (self.spent_s + running_s) / self.machine.share

    def end(self, number: int, now: float) -> None:
        """A round has ended."""
        self.spent_s += now - self.running.pop(number)
        self.ended += 1


class Turns:
    """The rounds of a group of machines; without a limit on time, one of each machine."""

    def __init__(
        self,
        machines: Sequence[Machine],
        until: float | None,
        clock: Callable[[], float] = time.monotonic,
        is_missing: Callable[[Machine], bool] = lambda _: False,
    ) -> None:
        """``until``: when the last operation must end, by the clock.

        ``is_missing``: whether one of the rules that a machine is relied on for was not exercised yet.
        """
        self.until = until
        self._turns = {machine.name: _Turn(machine) for machine in machines}
        self._clock = clock
        self._is_missing = is_missing

    @property
    def machines(self) -> list[Machine]:
        """The machines that still get rounds."""
        return [turn.machine for turn in self._turns.values() if not turn.is_through]

    def end(self) -> None:
        """Assign no more rounds."""
        for turn in self._turns.values():
            turn.is_through = True

    def begin(self) -> None:
        """Lanes are opened: rounds that ran in former lanes, and did not stop, have ended with them."""
        for turn in self._turns.values():
            for number in list(turn.running):
                turn.end(number, self._clock())

    def next_round(self) -> RunRound | None:
        """The next round; None if there is none."""
        able = [turn for turn in self._turns.values() if not turn.is_through]
        if not able:
            return None
        now = self._clock()

        def due(turn: _Turn) -> tuple[float, bool]:
            is_missing = self._is_missing(turn.machine)
            return turn.weighed(now) / (2 if is_missing else 1), not is_missing

        turn = min(able, key=due)
        machine, number = turn.machine, turn.number
        turn.number += 1
        turn.is_through = self.until is None
        turn.running[number] = now
        factory = factory_of(machine)
        assert factory is not None
        return RunRound(
            machine=described(machine),
            factory=factory,
            on_shipped=machine.on_shipped,
            number=number,
            until=self.until,
            is_bouncing=machine.affects == "broker" and not machine.has_further_clusters,
        )

    def ended(self, one: RunRound, how: RoundEnded) -> bool:
        """A round has ended; returns whether its machine is given up after too many harness errors.

        A machine that ran out of time for an operation gets no other round.
        """
        turn = self._turns[one.machine.name]
        turn.end(one.number, self._clock())
        turn.is_through = turn.is_through or how.is_short
        if how.failure is None:
            return False
        turn.failures += 1
        turn.is_through = turn.failures >= FAILURES
        return turn.failures == FAILURES
