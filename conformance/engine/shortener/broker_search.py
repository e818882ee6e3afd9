"""Shortens a violation's history on a broker, and measures how often the violation comes back.

It works on the operations of a history, not on Hypothesis' choices: a part of a history is a history that can be
performed. The operations that finish an example follow from the others, so it shortens only these. It starts from the
shortest part of the recording that breaks the rule for the model, and adds the steps that the broker needs, too. How
many runs confirm a part depends on how often the violation comes back (:mod:`conformance.engine.shortener.replays`).
A violation that never comes back is reported with the whole history, *in doubt*. Where several histories can be
performed side by side, the runs of a part are, and those of the next parts. No run begins that is not expected to end
before the deadline.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from conformance.engine.shortener.attempt import Attempt, Operations, Replayer, is_same, parts
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
    replayer: Replayer,
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
    first_s = replayer.starts_in_s + original.took_s
    search = _BrokerSearch(replayer, original, now + limit_s, now + replay_limit_s, first_s, patience)
    best = original if recording is None else _from_recording(search, recording)
    best = search.better(best, _of_one_topic(best))
    best = search.better(best, _of_what_was_performed(best))
    size = max(1, best.chosen // 2)
    while not search.has_ended:
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

    Of the parts that were left out of the recording one by one, it puts back the first one without which the rule
    holds, until the rule is broken without all others.
    """
    best, rungs, needed = search.original, list(recording.rungs), set(recording.rungs[-1])
    found = search.better(best, _operations(recording, needed))
    if found is best and search.comes_back() and search.counts.rate < 1:  # not tried often enough
        found = search.better(best, _operations(recording, needed))
    if found is not best or not search.counts.came_back:
        return found
    while len(rungs) > 1 and not search.is_over:
        best, low = _last_that_breaks(search, best, [_operations(recording, needed.union(rung)) for rung in rungs])
        needed |= set(rungs[low]) - set(rungs[low + 1])
        rungs = rungs[low + 1 :]
        found = search.better(best, _operations(recording, needed))
        if found is not best:
            return found
    return best


def _last_that_breaks(search: _BrokerSearch, best: Attempt, histories: Sequence[Operations]) -> tuple[Attempt, int]:
    """The last of ever shorter histories that breaks the rule, and its place: of those with a shorter one after it.

    ``best``: the attempt of the first. It is found by bisection, or, side by side, by dividing into more parts.
    """
    low, high = 0, len(histories) - 1
    while high - low > 1 and not search.is_over:
        count = min(search.group, high - low - 1)
        places = [low + (high - low) * nth // (count + 1) for nth in range(count, 0, -1)]
        tried = [at for at in places if histories[at] != best.operations]
        found = search.first([histories[at] for at in tried]) if tried else None
        if found is None:
            low = max((at for at in places if at not in tried), default=low)
            high = tried[-1] if tried else high
        else:
            best, low = found.attempt, tried[found.number]
            high = tried[found.number - 1] if found.number else high
    return best, low


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
    left = list(parts(best.chosen, size))
    while left and not search.has_ended:
        operations, group = best.operations, left[: search.group]
        found = search.first([[*operations[: part.start], *operations[part.stop :]] for part in group])
        best = best if found is None else found.attempt
        left = left[len(group) if found is None else found.number + 1 :]
    return best


def _without_entries(search: _BrokerSearch, best: Attempt) -> Attempt:
    """Leave out single entries of sends and sources, if the rule breaks without them."""
    fewer = _fewer_entries(best.operations)
    while group := list(itertools.islice(fewer, search.group)):
        found = search.first(group)
        if found is not None:
            return _without_entries(search, found.attempt)
    return best


def _length(operations: Operations) -> tuple[int, int]:
    """The numbers of operations and of entries that they send."""
    entries = (len(one.entries) for one in operations if isinstance(one, Send | StartSource))
    return len(operations), sum(entries)


@dataclass(slots=True)
class _Candidate:
    """A part of a history, and how often it broke the rule. ``attempt``: the last run that did."""

    number: int
    operations: Operations
    attempt: Attempt
    counts: ReplayCounts = field(default_factory=ReplayCounts)

    def count(self, attempt: Attempt, *, is_wanted: bool) -> None:
        self.counts = self.counts.with_runs(1, int(is_wanted))
        self.attempt = attempt if is_wanted else self.attempt

    def can_break_it(self, wanted: int, runs: int) -> bool:
        """Whether it can still break the rule in ``wanted`` of ``runs``."""
        return self.counts.tries < runs and self.counts.came_back + runs - self.counts.tries >= wanted


def _runs_of(candidates: Sequence[_Candidate], runs: int) -> Iterator[_Candidate]:
    """The next runs of each in turn, as long as it has some left."""
    for further in range(runs):
        yield from (one for one in candidates if one.counts.tries + further < runs)


@dataclass(slots=True)
class _BrokerSearch:
    replayer: Replayer
    original: Attempt
    deadline: float
    replays_until: float
    expected_s: float
    """The duration of the last run, expected of the next one, too; the first one waits for what has to start."""
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

    @property
    def has_ended(self) -> bool:
        """Whether no other part is tried."""
        return self.is_over or self.is_in_vain

    @property
    def group(self) -> int:
        """How many parts to try side by side: so many that each has the runs that it needs at least."""
        return max(1, self.replayer.at_once // self.counts.confirmations[0])

    def performed(self, histories: Sequence[Operations]) -> list[tuple[int, Attempt]]:
        """Perform these histories side by side: the attempts that ended, each with the number of its history.

        If one did not end in time, the search is over.
        """
        attempts = list(enumerate(self.replayer.run(histories)))
        ended = [(number, attempt) for number, attempt in attempts if attempt is not None]
        self.runs += len(ended)
        self.expected_s = max((attempt.took_s for _, attempt in ended), default=self.expected_s)
        if len(ended) < len(attempts):
            self.deadline = self.replays_until = -math.inf
        return ended

    def better(self, best: Attempt, operations: Operations) -> Attempt:
        """The attempt of these operations if they are fewer and break the rule often enough in time; else ``best``."""
        if _length(operations) >= _length(best.operations):
            return best
        found = self.first([operations])
        return best if found is None else found.attempt

    def first(self, candidates: Sequence[Operations]) -> _Candidate | None:
        """The first of these parts that breaks the rule often enough, in time."""
        if self.has_ended:
            return None
        self.candidates += len(candidates)
        wanted, runs = self.counts.confirmations
        tried = [_Candidate(number, operations, self.original) for number, operations in enumerate(candidates)]
        while open_ := [one for one in tried if one.can_break_it(wanted, runs)]:
            batch = list(itertools.islice(_runs_of(open_, runs), self.replayer.at_once))
            for number, attempt in self.performed([one.operations for one in batch]):
                batch[number].count(attempt, is_wanted=self._is_wanted(attempt))
            found = next((one for one in tried if one.counts.came_back >= wanted), None)
            if found is not None:
                self.kept = found.counts
                self.counts = self.counts.with_runs(found.counts.tries, found.counts.came_back)
                return found
            if self.is_over:
                break
        for one in tried:
            if one.counts.came_back:
                self.once = Shortest(one.attempt, one.counts.tries, one.counts.came_back)
        return None

    def comes_back(self) -> bool:
        """Replay the whole history until it came back as often as a part must; whether it came back at all.

        The rate decides how often to try parts.
        """
        while self.counts.came_back < CONFIRMATIONS and not self.is_over:
            if self.counts.tries >= self.patience:
                break
            at_once = self.replayer.at_once if self.counts.tries else min(CONFIRMATIONS, self.replayer.at_once)
            again = self.performed([self.original.operations] * min(at_once, self.patience - self.counts.tries))
            self.counts = self.counts.with_runs(len(again), sum(self._is_wanted(attempt) for _, attempt in again))
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
            at_once = min(self.replayer.at_once, self._replays_of(counts) - counts.tries)
            again = self.performed([best.operations] * at_once)
            back = [attempt for _, attempt in again if self._is_wanted(attempt)]
            counts = counts.with_runs(len(again), len(back))
            best = back[-1] if back else best
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
