"""What running operations came to, and what parts of a history are.

How a history is made short is for the other modules of this folder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from conformance.history.document import Step, Violation
from model.operations import AnyOperation

Operations = Sequence[AnyOperation]


@dataclass(frozen=True, slots=True)
class Attempt:
    """What running a sequence of operations came to: the steps, of which the first ``chosen`` are these operations."""

    steps: tuple[Step, ...]
    chosen: int
    violation: Violation | None

    @property
    def operations(self) -> list[AnyOperation]:
        """The operations that were run; what finished the example is not among them."""
        return [step.operation for step in self.steps[: self.chosen]]

    @property
    def took_s(self) -> float:
        """Seconds that it took, but for its first step: in a run's first example that starts what all share."""
        return (self.steps[-1].completed_ms - self.steps[0].completed_ms) / 1000 if self.steps else 0.0


RunOperations = Callable[[Operations], Attempt]


def is_same(violation: Violation | None, wanted: Violation) -> bool:
    """Whether a violation is of the same rule, and by the same deviation if it has one."""
    return violation is not None and (violation.rule, violation.deviation) == (wanted.rule, wanted.deviation)


def parts(length: int, size: int) -> Iterator[range]:
    """The runs of ``size`` elements, from the last to the first, that may be left out of so many."""
    yield from (range(start, start + size) for start in range(length - size, -1, -size))
