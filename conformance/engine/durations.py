"""The expected durations of slow operations in a run: their longest so far. It reads no clock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from conformance.history.document import Step
from model.cluster_operations import (
    AwaitAnswered,
    AwaitIdle,
    AwaitTimedOut,
    CatchUp,
    LoseCluster,
    ReadClusters,
    RecoverCluster,
)
from model.events import Skipped
from model.operations import (
    AnyOperation,
    DisturbMetadataStore,
    FreezeOwner,
    Kill,
    LoseBookie,
    Restart,
    RestoreBookies,
    TakeOver,
    ThawOwners,
)

BOUNCE_S: Final = 8.0
"""How long it is expected to take to restart a broker, or to take it away, before the first time is measured."""
PERIODS_S: Final = 5.0
"""The same for a wait for a snapshot's end, or for an idle topic."""


class EndOfExample:
    """What the end of an example undoes that no operation can."""


AT_LEAST_S: Final[dict[type, float]] = {
    Kill: BOUNCE_S,
    Restart: BOUNCE_S,
    TakeOver: BOUNCE_S,
    FreezeOwner: BOUNCE_S,
    ThawOwners: BOUNCE_S,
    RestoreBookies: BOUNCE_S,
    DisturbMetadataStore: 2.0,
    EndOfExample: BOUNCE_S,
    LoseCluster: 2.0,
    RecoverCluster: BOUNCE_S,
    ReadClusters: 0.0,
    CatchUp: 0.0,
    AwaitAnswered: PERIODS_S,
    AwaitTimedOut: PERIODS_S,
    AwaitIdle: PERIODS_S,
}
"""The slow operations, each with its expected duration before the first one is measured."""

UNDONE_BY: Final[dict[type, type]] = {
    FreezeOwner: ThawOwners,
    LoseBookie: RestoreBookies,
    DisturbMetadataStore: EndOfExample,
    LoseCluster: RecoverCluster,
}
"""What undoes an operation. The end of an example undoes whatever its operations left."""


def expected_bounce_s(start_s: float) -> float:
    """How long a kill or restart is expected to take: not longer than the whole deployment took to start."""
    return min(BOUNCE_S, start_s)


class Durations:
    """The durations measured in one run."""

    def __init__(self, *, bounce_s: float = BOUNCE_S) -> None:
        """``bounce_s``: what a kill or restart is expected to take before the first one."""
        self._longest_s: dict[type, float] = {**AT_LEAST_S, Kill: bounce_s, Restart: bounce_s}
        self._finishing_s: dict[str, float] = {}

    def learn(self, machine: str, steps: Sequence[Step], chosen: int, *, ending_s: float = 0.0) -> None:
        """Learn from an example; the steps after its first ``chosen`` ones finished it.

        ``ending_s``: how long the end of the example took after its last step.
        """
        for step in steps:
            self._learn(type(step.operation), (step.completed_ms - step.invoked_ms) / 1000)
        finishing = steps[chosen:]
        if finishing:
            took_s = (finishing[-1].completed_ms - finishing[0].invoked_ms) / 1000
            self._finishing_s[machine] = max(self._finishing_s.get(machine, 0.0), took_s)
        left = _left(_done(steps))
        if len(left) == 1:  # of several, each took an unknown part
            self._learn(left.pop(), ending_s)

    def _learn(self, kind: type, took_s: float) -> None:
        if kind in self._longest_s:
            self._longest_s[kind] = max(self._longest_s[kind], took_s)

    def of(self, operation: AnyOperation) -> float:
        """The expected seconds of an operation; 0 for a fast one."""
        return self._longest_s.get(type(operation), 0.0)

    def of_undoing(self, steps: Sequence[Step], operation: AnyOperation | None = None) -> float:
        """The expected seconds to undo what an example's steps leave, with the operation that would follow them."""
        operations = [*_done(steps), *([operation] if operation is not None else [])]
        return sum(self._longest_s[kind] for kind in _left(operations))

    def of_finishing(self, machine: str) -> float:
        """The expected seconds to finish an example of a machine; for its first one, the longest of other machines."""
        return self._finishing_s.get(machine, max(self._finishing_s.values(), default=0.0))


def _done(steps: Sequence[Step]) -> list[AnyOperation]:
    return [step.operation for step in steps if not isinstance(step.outcome, Skipped)]


def _left(operations: Sequence[AnyOperation]) -> set[type]:
    """What is to undo operations, as far as the later ones did not."""
    left: set[type] = set()
    for kind in map(type, operations):
        left.discard(kind)
        if kind in UNDONE_BY:
            left.add(UNDONE_BY[kind])
    return left
