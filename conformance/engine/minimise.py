"""Makes a violation's history short, and says how surely it comes back.

Shortening works on the operations of the history itself, not on the choices that Hypothesis made: a part of a history
is a history, and performing it again is all it takes. A part is kept only if the same rule breaks in every one of
``CONFIRMATIONS`` runs. What does not come back at all is reported whole. Everything is bounded by a deadline.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from conformance.engine.slices import of_one_topic
from conformance.history.document import Step, Violation
from model.applications import StartSource
from model.operations import AnyOperation, Send

CONFIRMATIONS = 2
"""In how many runs in a row a shorter history must break the rule to be kept."""
FINAL_REPLAYS = 5
"""How often the shortest history is run at the end, to say how often it comes back."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """What running a sequence of operations came to."""

    steps: tuple[Step, ...]
    violation: Violation | None


@dataclass(frozen=True, slots=True)
class Shortest:
    """The shortest history that was found, and in how many of the last tries it broke its rule."""

    attempt: Attempt
    tries: int
    came_back: int


Operations = Sequence[AnyOperation]
RunOperations = Callable[[Operations], Attempt]


def minimise(original: Attempt, run: RunOperations, *, limit_s: float) -> Shortest:
    """The shortest history with the same broken rule that can be had within ``limit_s`` seconds."""
    assert original.violation is not None
    search = _Search(run, original.violation, time.monotonic() + limit_s)
    best = original
    if not search.is_over:
        best = search.confirmed(of_one_topic(_operations(original)[: original.violation.step])) or original
    size = max(1, len(best.steps) // 2)
    while not search.is_over:
        shorter = _without_parts(search, best, size)
        if size == 1:
            shorter = _without_entries(search, shorter)
            if len(shorter.steps) == len(best.steps) and _entries(shorter) == _entries(best):
                break
        best, size = shorter, max(1, size // 2)
    return search.replayed(best)


def _without_parts(search: _Search, best: Attempt, size: int) -> Attempt:
    """Leave out each run of ``size`` operations, from the last to the first, where the rule still breaks without it."""
    start = len(best.steps) - size
    while start >= 0 and not search.is_over:
        operations = _operations(best)
        found = search.confirmed([*operations[:start], *operations[start + size :]])
        best = found or best
        start = min(start - size, len(best.steps) - size)
    return best


def _without_entries(search: _Search, best: Attempt) -> Attempt:
    """Leave out single entries of sends and sources, where the rule still breaks without them."""
    for candidate in _fewer_entries(_operations(best)):
        if search.is_over:
            break
        if (found := search.confirmed(candidate)) is not None:
            return _without_entries(search, found)
    return best


def _entries(attempt: Attempt) -> int:
    return sum(len(step.operation.entries) for step in attempt.steps if isinstance(step.operation, Send | StartSource))


@dataclass(slots=True)
class _Search:
    run: RunOperations
    wanted: Violation
    deadline: float

    @property
    def is_over(self) -> bool:
        return time.monotonic() > self.deadline

    def confirmed(self, operations: Operations) -> Attempt | None:
        """The last of the confirming runs, or None if one of them did not break the rule."""
        attempt: Attempt | None = None
        for _ in range(CONFIRMATIONS):
            attempt = self.run(operations)
            if not is_same(attempt.violation, self.wanted):
                return None
        return attempt

    def replayed(self, best: Attempt) -> Shortest:
        """Run the shortest history a few times more; the count says how sure it is."""
        tries = came_back = 0
        for _ in range(FINAL_REPLAYS):
            attempt = self.run(_operations(best))
            tries += 1
            if is_same(attempt.violation, self.wanted):
                came_back += 1
                best = attempt
            if self.is_over and tries >= CONFIRMATIONS:
                break
        return Shortest(best, tries, came_back)


def is_same(violation: Violation | None, wanted: Violation) -> bool:
    """Whether a violation is of the same rule, and by the same deviation if it has one."""
    return violation is not None and (violation.rule, violation.deviation) == (wanted.rule, wanted.deviation)


def _operations(attempt: Attempt) -> list[AnyOperation]:
    return [step.operation for step in attempt.steps]


def _fewer_entries(operations: Operations) -> Iterator[Operations]:
    for at, operation in enumerate(operations):
        if isinstance(operation, Send | StartSource) and len(operation.entries) > 1:
            for out in range(len(operation.entries)):
                entries = operation.entries[:out] + operation.entries[out + 1 :]
                yield [*operations[:at], msgspec.structs.replace(operation, entries=entries), *operations[at + 1 :]]
