"""The expected durations of slow operations in a run: their longest so far. It reads no clock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from conformance.history.document import Step
from model.cluster_operations import CatchUp, ReadClusters
from model.operations import (
    AnyOperation,
    DisturbMetadataStore,
    FreezeOwner,
    Kill,
    Restart,
    RestoreBookies,
    TakeOver,
    ThawOwners,
)

BOUNCE_S: Final = 8.0
"""The shortest time that a restart of a broker and the operations after it are expected to take."""

AT_LEAST_S: Final[dict[type, float]] = {
    Kill: BOUNCE_S,
    Restart: BOUNCE_S,
    TakeOver: BOUNCE_S,
    FreezeOwner: BOUNCE_S,
    ThawOwners: BOUNCE_S,
    RestoreBookies: BOUNCE_S,
    DisturbMetadataStore: 2.0,
    ReadClusters: 0.0,
    CatchUp: 0.0,
}
"""The slow operations, each with its expected duration before the first one is measured."""

STORE_RETURNS_S: Final = 8.0
"""How long the end of an example is expected to wait for a disturbed metadata store and its brokers' sessions."""


class Durations:
    """The durations measured in one run."""

    def __init__(self) -> None:
        self._longest_s: dict[type, float] = dict(AT_LEAST_S)
        self._finishing_s: dict[str, float] = {}

    def learn(self, machine: str, steps: Sequence[Step], chosen: int) -> None:
        """Learn from an example; the steps after its first ``chosen`` ones finished it."""
        for step in steps:
            kind = type(step.operation)
            if kind in self._longest_s:
                self._longest_s[kind] = max(self._longest_s[kind], (step.completed_ms - step.invoked_ms) / 1000)
        finishing = steps[chosen:]
        if finishing:
            took_s = (finishing[-1].completed_ms - finishing[0].invoked_ms) / 1000
            self._finishing_s[machine] = max(self.of_finishing(machine), took_s)

    def of(self, operation: AnyOperation) -> float:
        """The expected seconds of an operation, and of what the end of its example undoes; 0 for a fast one."""
        longest_s = self._longest_s.get(type(operation), 0.0)
        match operation:
            case FreezeOwner():
                return longest_s + self._longest_s[ThawOwners]
            case DisturbMetadataStore():
                return longest_s + STORE_RETURNS_S
            case _:
                return longest_s

    def of_finishing(self, machine: str) -> float:
        """The expected seconds to finish an example of a machine; 0 before the first."""
        return self._finishing_s.get(machine, 0.0)
