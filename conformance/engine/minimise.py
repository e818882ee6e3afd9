"""Makes a violation's history short, and says how surely it comes back.

Shortening works on the operations of the history itself, not on the choices that Hypothesis made: a part of a history
is a history, and performing it again is all it takes. How an example is finished follows from the rest, so only what
comes before that is made shorter. A part is kept only if the same rule breaks in every one of
``CONFIRMATIONS`` runs. What does not come back at all is reported whole, and *in doubt*: :func:`replay_on` replays it
until it comes back, or ``ENOUGH_REPLAYS`` replays were made. Everything is bounded by a deadline, and nothing is begun
that is not expected to end before it.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from conformance.engine.slices import topics_of
from conformance.history.document import ENOUGH_REPLAYS, Step, Violation
from model.events import Skipped
from model.operations import AnyOperation, Send, StartSource

CONFIRMATIONS = 2
"""In how many runs in a row a shorter history must break the rule to be kept."""
FINAL_REPLAYS = 5
"""How often the shortest history is run at the end, to say how often it comes back."""


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


@dataclass(frozen=True, slots=True)
class Shortest:
    """The shortest history that was found, and in how many of the last tries it broke its rule.

    None was made (``tries`` is 0) where there was no time for one. Where none of them broke it, the runs while it was
    made shorter count as well: it is in doubt only if no run of it, or of a part of it, broke the rule again.
    """

    attempt: Attempt
    tries: int
    came_back: int

    @property
    def is_in_doubt(self) -> bool:
        """Whether it did not come back, and was not replayed often enough to say that it does not."""
        return self.came_back == 0 and self.tries < ENOUGH_REPLAYS


Operations = Sequence[AnyOperation]
RunOperations = Callable[[Operations], Attempt]


def minimise(original: Attempt, run: RunOperations, *, limit_s: float, replay_limit_s: float = math.inf) -> Shortest:
    """The shortest history with the same broken rule that can be had within ``limit_s`` seconds.

    ``replay_limit_s``: seconds from now by which the last replay of that must have ended as well.
    """
    assert original.violation is not None
    now = time.monotonic()
    search = _Search(run, original, now + limit_s, now + replay_limit_s, _took_s(original))
    best = search.better(original, _of_one_topic(original))
    best = search.better(best, _of_what_was_performed(best))
    size = max(1, best.chosen // 2)
    while not search.is_over:
        shorter = _without_parts(search, best, size)
        if size == 1:
            shorter = _without_entries(search, shorter)
            if _length(shorter.operations) == _length(best.operations):
                break
        best, size = shorter, max(1, size // 2)
    return search.replayed(best)


def replay_on(
    doubted: Shortest, originals: Sequence[Attempt], run: RunOperations, has_time_for: Callable[[float], bool]
) -> Shortest:
    """Replay a violation that is in doubt until it comes back, or was replayed often enough, or time is up.

    ``originals``: the examples that broke the rule, replayed in turn. ``has_time_for`` says whether something that
    takes so many seconds may be begun.
    """
    so_far = doubted
    for original in itertools.cycle(originals):
        if not so_far.is_in_doubt or not has_time_for(_took_s(original)):
            break
        assert original.violation is not None
        attempt = run(original.operations)
        if is_same(attempt.violation, original.violation):
            so_far = Shortest(attempt, so_far.tries + 1, 1)
        else:
            so_far = Shortest(so_far.attempt, so_far.tries + 1, 0)
    return so_far


def _took_s(attempt: Attempt) -> float:
    """Seconds that an attempt took, but for its first step: in a run's first example that starts what all share."""
    return (attempt.steps[-1].completed_ms - attempt.steps[0].completed_ms) / 1000 if attempt.steps else 0.0


def _of_one_topic(attempt: Attempt) -> Operations:
    """Only what has to do with the topic of the step that breaks the rule, if it has one."""
    assert attempt.violation is not None
    topics = topics_of([step.operation for step in attempt.steps[: attempt.violation.step]])
    chosen = zip(attempt.operations, topics, strict=False)
    return [operation for operation, topic in chosen if topics[-1] is None or topic in (None, topics[-1])]


def _of_what_was_performed(attempt: Attempt) -> Operations:
    """Only what could be performed in this attempt."""
    return [step.operation for step in attempt.steps[: attempt.chosen] if not isinstance(step.outcome, Skipped)]


def _without_parts(search: _Search, best: Attempt, size: int) -> Attempt:
    """Leave out each run of ``size`` operations, from the last to the first, where the rule still breaks without it."""
    start = best.chosen - size
    while start >= 0 and not search.is_over:
        operations = best.operations
        best = search.better(best, [*operations[:start], *operations[start + size :]])
        start = min(start - size, best.chosen - size)
    return best


def _without_entries(search: _Search, best: Attempt) -> Attempt:
    """Leave out single entries of sends and sources, where the rule still breaks without them."""
    for candidate in _fewer_entries(best.operations):
        found = search.better(best, candidate)
        if found is not best:
            return _without_entries(search, found)
    return best


def _length(operations: Operations) -> tuple[int, int]:
    """How many operations there are, and how many entries they send."""
    entries = (len(one.entries) for one in operations if isinstance(one, Send | StartSource))
    return len(operations), sum(entries)


@dataclass(slots=True)
class _Search:
    run: RunOperations
    original: Attempt
    deadline: float
    replays_until: float
    expected_s: float
    """How long the last run took: so long will the next one."""
    once: Shortest | None = None
    """A part that broke the rule, but not every time."""

    @property
    def is_over(self) -> bool:
        return time.monotonic() + self.expected_s > self.deadline

    def performed(self, operations: Operations) -> Attempt:
        """What these operations come to, now."""
        attempt = self.run(operations)
        self.expected_s = _took_s(attempt)
        return attempt

    def better(self, best: Attempt, operations: Operations) -> Attempt:
        """What these operations come to, if there is time, they are fewer, and the rule breaks every time."""
        if _length(operations) >= _length(best.operations):
            return best
        attempt = best
        for before in range(CONFIRMATIONS):
            if self.is_over:
                return best
            again = self.performed(operations)
            if not self._is_wanted(again):
                if before:
                    self.once = Shortest(attempt, before + 1, before)
                return best
            attempt = again
        return attempt

    def replayed(self, best: Attempt) -> Shortest:
        """Run the shortest history a few times more; the count says how sure it is.

        Those runs alone count where the rule broke in one of them, because what was kept was chosen by those before.
        """
        shortest = self._replays(best)
        if shortest.came_back:
            return shortest
        if best is not self.original:
            return Shortest(best, shortest.tries + CONFIRMATIONS, CONFIRMATIONS)
        if self.once is not None:
            part = self._replays(self.once.attempt)
            return Shortest(part.attempt, self.once.tries + part.tries, self.once.came_back + part.came_back)
        return shortest

    def _replays(self, best: Attempt) -> Shortest:
        tries = came_back = 0
        while tries < (CONFIRMATIONS if self.is_over else FINAL_REPLAYS) and self._can_replay():
            attempt = self.performed(best.operations)
            tries += 1
            if self._is_wanted(attempt):
                came_back += 1
                best = attempt
        return Shortest(best, tries, came_back)

    def _is_wanted(self, attempt: Attempt) -> bool:
        assert self.original.violation is not None
        return is_same(attempt.violation, self.original.violation)

    def _can_replay(self) -> bool:
        return time.monotonic() + self.expected_s <= self.replays_until


def is_same(violation: Violation | None, wanted: Violation) -> bool:
    """Whether a violation is of the same rule, and by the same deviation if it has one."""
    return violation is not None and (violation.rule, violation.deviation) == (wanted.rule, wanted.deviation)


def _fewer_entries(operations: Operations) -> Iterator[Operations]:
    for at, operation in enumerate(operations):
        if isinstance(operation, Send | StartSource) and len(operation.entries) > 1:
            for out in range(len(operation.entries)):
                entries = operation.entries[:out] + operation.entries[out + 1 :]
                yield [*operations[:at], msgspec.structs.replace(operation, entries=entries), *operations[at + 1 :]]
