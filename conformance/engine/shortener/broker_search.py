"""Shortens a violation's history on a broker, and measures how often the violation comes back.

It works on the operations of a history, not on Hypothesis' choices: a part of a history is a history that can be
performed. The operations that finish an example follow from the others, so it shortens only these. It starts from the
shortest part of the recording that breaks the rule for the model, and adds the steps that the broker needs, too. How
many runs confirm a part depends on how often the violation comes back (:mod:`conformance.engine.shortener.replays`).
A violation that never comes back is reported with the whole history, *in doubt*. No run begins that is not expected to
end before the deadline.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import msgspec

from conformance.engine.shortener.attempt import Attempt, Operations, RunOperations, is_same, parts
from conformance.engine.shortener.model_search import Recording
from conformance.engine.shortener.replays import CONFIRMATIONS, SELDOM, ReplayCounts, Shortest, only_recorded
from conformance.engine.slices import topics_of
from conformance.events import Stage
from conformance.history.document import ENOUGH_REPLAYS
from model.events import Skipped
from model.operations import Send, StartSource

FINAL_REPLAYS = 5
"""How often the shortest history is replayed at the end; more often if it does not always break the rule."""
PATIENCE = 10
"""How often the whole history is replayed until it comes back, while other machines wait."""


def minimise(
    original: Attempt,
    run: RunOperations,
    *,
    limit_s: float,
    replay_limit_s: float = math.inf,
    recording: Recording | None = None,
    patience: int = PATIENCE,
) -> Shortest:
    """The shortest history with the same broken rule that is found within ``limit_s`` seconds.

    ``replay_limit_s``: the seconds from now until its last replay must end. ``recording``: the shortened recording.
    ``patience``: the most replays of the whole history until it comes back.
    """
    assert original.violation is not None
    now = time.monotonic()
    search = _BrokerSearch(run, original, now + limit_s, now + replay_limit_s, original.took_s, patience)
    best = original if recording is None else _from_recording(search, recording)
    best = search.better(best, _of_one_topic(best))
    best = search.better(best, _of_what_was_performed(best))
    size = max(1, best.chosen // 2)
    while not search.is_over and not search.is_in_vain:
        shorter = _without_parts(search, best, size)
        if size == 1:
            shorter = _without_entries(search, shorter)
            if _length(shorter.operations) == _length(best.operations):
                break
        best, size = shorter, max(1, size // 2)
    shortest = search.replayed(best)
    stage = Stage(
        name="broker",
        seconds=round(time.monotonic() - now, 3),
        candidates=search.candidates,
        runs=search.runs,
        steps=len(shortest.attempt.steps),
    )
    before = only_recorded(original, recording)
    recorded = before.recorded if shortest.attempt.chosen >= original.chosen else None
    return replace(shortest, recorded=recorded, stages=(*before.stages, stage))


def _from_recording(search: _BrokerSearch, recording: Recording) -> Attempt:
    """The shortest part of a recording, with the further steps that the broker needs to break the rule.

    Bisection finds these: of the parts that were left out of the recording one by one, it puts back the first one
    without which the rule holds, until the rule is broken without all others.
    """
    best, rungs, needed = search.original, list(recording.rungs), set(recording.rungs[-1])
    found = search.better(best, _operations(recording, needed))
    if found is best and search.comes_back() and search.counts.rate < 1:  # not tried often enough
        found = search.better(best, _operations(recording, needed))
    if found is not best or not search.counts.came_back:
        return found
    while len(rungs) > 1 and not search.is_over:
        low, high = 0, len(rungs) - 1
        while high - low > 1 and not search.is_over:
            middle = (low + high) // 2
            wanted = _operations(recording, needed.union(rungs[middle]))
            found = search.better(best, wanted)
            low, high = (low, middle) if found is best and wanted != best.operations else (middle, high)
            best = found
        needed |= set(rungs[low]) - set(rungs[high])
        rungs = rungs[high:]
        found = search.better(best, _operations(recording, needed))
        if found is not best:
            return found
    return best


def _operations(recording: Recording, kept: set[int]) -> Operations:
    """The operations of a part of a recording, without those that finished the example."""
    whole = recording.whole
    return [step.operation for at, step in enumerate(whole.steps[: whole.chosen]) if at in kept]


def _of_one_topic(attempt: Attempt) -> Operations:
    """The operations on the topic of the step that breaks the rule, if it has one."""
    assert attempt.violation is not None
    topics = topics_of([step.operation for step in attempt.steps[: attempt.violation.step]])
    chosen = zip(attempt.operations, topics, strict=False)
    return [operation for operation, topic in chosen if topics[-1] is None or topic in (None, topics[-1])]


def _of_what_was_performed(attempt: Attempt) -> Operations:
    """The operations that were not skipped in this attempt."""
    return [step.operation for step in attempt.steps[: attempt.chosen] if not isinstance(step.outcome, Skipped)]


def _without_parts(search: _BrokerSearch, best: Attempt, size: int) -> Attempt:
    """Leave out each run of ``size`` operations, from the last to the first, if the rule breaks without it."""
    for part in parts(best.chosen, size):
        if search.is_over:
            break
        operations = best.operations
        best = search.better(best, [*operations[: part.start], *operations[part.stop :]])
    return best


def _without_entries(search: _BrokerSearch, best: Attempt) -> Attempt:
    """Leave out single entries of sends and sources, if the rule breaks without them."""
    for candidate in _fewer_entries(best.operations):
        found = search.better(best, candidate)
        if found is not best:
            return _without_entries(search, found)
    return best


def _length(operations: Operations) -> tuple[int, int]:
    """The numbers of operations and of entries that they send."""
    entries = (len(one.entries) for one in operations if isinstance(one, Send | StartSource))
    return len(operations), sum(entries)


@dataclass(slots=True)
class _BrokerSearch:
    run: RunOperations
    original: Attempt
    deadline: float
    replays_until: float
    expected_s: float
    """The duration of the last run, expected of the next one, too."""
    patience: int
    counts: ReplayCounts = field(default_factory=ReplayCounts)
    """The runs of all parts that broke the rule often enough."""
    kept: ReplayCounts = field(default_factory=ReplayCounts)
    """The runs of the last such part."""
    once: Shortest | None = None
    """A part that broke the rule too seldom."""
    candidates: int = 0
    runs: int = 0

    @property
    def is_over(self) -> bool:
        return time.monotonic() + self.expected_s > self.deadline

    @property
    def is_in_vain(self) -> bool:
        """Whether the violation never came back within the patience."""
        return self.counts.came_back == 0 and self.counts.tries >= self.patience

    def performed(self, operations: Operations) -> Attempt:
        """Perform these operations."""
        attempt = self.run(operations)
        self.runs += 1
        self.expected_s = attempt.took_s
        return attempt

    def better(self, best: Attempt, operations: Operations) -> Attempt:
        """The attempt of these operations if they are fewer and break the rule often enough in time; else ``best``."""
        if _length(operations) >= _length(best.operations) or self.is_over or self.is_in_vain:
            return best
        self.candidates += 1
        wanted, runs = self.counts.confirmations
        attempt, came_back = best, 0
        for tried in range(1, runs + 1):
            again = self.performed(operations)
            if self._is_wanted(again):
                attempt, came_back = again, came_back + 1
            if came_back == wanted:
                self.kept = ReplayCounts(tried, came_back)
                self.counts = self.counts.with_runs(tried, came_back)
                return attempt
            if came_back + runs - tried < wanted or self.is_over:
                break
        if came_back:
            self.once = Shortest(attempt, tried, came_back)
        return best

    def comes_back(self) -> bool:
        """Replay the whole history until it came back as often as a part must; whether it came back at all.

        The rate decides how often to try parts.
        """
        while self.counts.came_back < CONFIRMATIONS and not self.is_over:
            if self.counts.tries >= self.patience:
                break
            came_back = int(self._is_wanted(self.performed(self.original.operations)))
            self.counts = self.counts.with_runs(1, came_back)
        return self.counts.came_back > 0

    def replayed(self, best: Attempt) -> Shortest:
        """Replay the shortest history a few times more, and count.

        If the rule broke in one of these replays, only they count, because the earlier runs selected the history.
        """
        shortest = self._replays(best, self.counts if best is self.original else ReplayCounts())
        if shortest.came_back:
            return shortest
        if best is not self.original:
            return Shortest(best, shortest.tries + self.kept.tries, self.kept.came_back)
        if self.once is not None:
            part = self._replays(self.once.attempt, ReplayCounts())
            return Shortest(part.attempt, self.once.tries + part.tries, self.once.came_back + part.came_back)
        return shortest

    def _replays(self, best: Attempt, before: ReplayCounts) -> Shortest:
        """Replay one history, and add to the counts before."""
        counts = before
        while counts.tries < self._replays_of(counts) and self._can_replay():
            attempt = self.performed(best.operations)
            is_back = self._is_wanted(attempt)
            counts = counts.with_runs(1, int(is_back))
            best = attempt if is_back else best
        return Shortest(best, counts.tries, counts.came_back)

    def _replays_of(self, counts: ReplayCounts) -> int:
        """How many replays suffice: a few, and more if the violation comes back sometimes."""
        if self.is_over:
            return CONFIRMATIONS
        is_seldom = 0 < counts.came_back < counts.tries or (self.counts.rate < SELDOM and not self.is_in_vain)
        return ENOUGH_REPLAYS if is_seldom else FINAL_REPLAYS

    def _is_wanted(self, attempt: Attempt) -> bool:
        assert self.original.violation is not None
        return is_same(attempt.violation, self.original.violation)

    def _can_replay(self) -> bool:
        return time.monotonic() + self.expected_s <= self.replays_until


def _fewer_entries(operations: Operations) -> Iterator[Operations]:
    for at, operation in enumerate(operations):
        if isinstance(operation, Send | StartSource) and len(operation.entries) > 1:
            for out in range(len(operation.entries)):
                entries = operation.entries[:out] + operation.entries[out + 1 :]
                yield [*operations[:at], msgspec.structs.replace(operation, entries=entries), *operations[at + 1 :]]
