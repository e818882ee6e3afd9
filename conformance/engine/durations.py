"""How long what takes long is expected to take in a run: as long as it took at most so far. It looks at no clock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from conformance.history.document import Step
from model.cluster_operations import CatchUp, ReadClusters
from model.operations import AnyOperation, FreezeOwner, Kill, Restart, RestoreBookies, TakeOver, ThawOwners

BOUNCE_S: Final = 8.0
"""How long it takes at least until a broker that was taken away has come back, and what follows is done."""

AT_LEAST_S: Final[dict[type, float]] = {
    Kill: BOUNCE_S,
    Restart: BOUNCE_S,
    TakeOver: BOUNCE_S,
    FreezeOwner: BOUNCE_S,
    ThawOwners: BOUNCE_S,
    RestoreBookies: BOUNCE_S,
    ReadClusters: 0.0,
    CatchUp: 0.0,
}
"""The operations that take long, and how long before one was seen."""


class Durations:
    """What was learned from the examples of one run."""

    def __init__(self) -> None:
        self._longest_s: dict[type, float] = dict(AT_LEAST_S)
        self._finishing_s: dict[str, float] = {}

    def learn(self, machine: str, steps: Sequence[Step], chosen: int) -> None:
        """An example of a machine is over; behind its first ``chosen`` steps it was finished."""
        for step in steps:
            kind = type(step.operation)
            if kind in self._longest_s:
                self._longest_s[kind] = max(self._longest_s[kind], (step.completed_ms - step.invoked_ms) / 1000)
        finishing = steps[chosen:]
        if finishing:
            took_s = (finishing[-1].completed_ms - finishing[0].invoked_ms) / 1000
            self._finishing_s[machine] = max(self.of_finishing(machine), took_s)

    def of(self, operation: AnyOperation) -> float:
        """Seconds that an operation will take; 0 where it does not take long."""
        return self._longest_s.get(type(operation), 0.0)

    def of_finishing(self, machine: str) -> float:
        """Seconds that it will take to finish an example of a machine; 0 where none was."""
        return self._finishing_s.get(machine, 0.0)
