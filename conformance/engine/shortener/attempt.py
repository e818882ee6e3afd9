"""The result of performing a history, and the parts of a history, for the other modules of this folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from conformance.history.document import Step, Violation
from model.operations import AnyOperation

Operations = Sequence[AnyOperation]


@dataclass(frozen=True, slots=True)
class Attempt:
    """The result of performing operations: the steps, of which the first ``chosen`` are these operations."""

    steps: tuple[Step, ...]
    chosen: int
    violation: Violation | None

    @property
    def operations(self) -> list[AnyOperation]:
        """The operations, without those that finished the example."""
        return [step.operation for step in self.steps[: self.chosen]]

    @property
    def took_s(self) -> float:
        """The seconds without the first step, which in a run's first example starts what all share."""
        return (self.steps[-1].completed_ms - self.steps[0].completed_ms) / 1000 if self.steps else 0.0


RunOperations = Callable[[Operations], Attempt]


@dataclass(frozen=True, slots=True)
class Replayer:
    """Performs histories, at most ``at_once`` of them side by side; the attempts are in the order of the histories.

    None instead of an attempt: it did not end in time. There is no time for another one then.

    ``starts_in_s``: how long it may take until the first one begins, because something has to be started for it.
    """

    run: Callable[[Sequence[Operations]], Sequence[Attempt | None]]
    at_once: int
    starts_in_s: float = 0.0


def one_by_one(run: RunOperations) -> Replayer:
    """The replayer that performs one history after the other."""
    return Replayer(lambda histories: [run(operations) for operations in histories], at_once=1)


def is_same(violation: Violation | None, wanted: Violation) -> bool:
    """Whether a violation has the same rule, and the same deviation, if any."""
    return violation is not None and (violation.rule, violation.deviation) == (wanted.rule, wanted.deviation)


def parts(length: int, size: int) -> Iterator[range]:
    """The runs of ``size`` consecutive elements, from the last to the first, to leave out of ``length``."""
    yield from (range(start, start + size) for start in range(length - size, -1, -size))
