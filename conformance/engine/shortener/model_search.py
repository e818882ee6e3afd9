"""Shortens a history without a broker: leaves steps out of the recording, and the model judges the rest again.

A part counts only if the model allows all steps but the last, and rejects that one with the same rule, deviation and
sentence as in the whole recording. So leaving steps out has not created the violation. A part shows that the rule was
broken, not why: the model may not need the step that causes it. So the part that is shown gets the steps back that may
be the cause (:mod:`.causes`). :mod:`conformance.engine.shortener.broker_search` finds the parts that break the rule on
a broker.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import msgspec

from conformance.engine.shortener.attempt import Attempt, parts
from conformance.engine.shortener.causes import causes
from conformance.events import Stage
from conformance.history.document import Step, Violation
from conformance.history.validation import Name, made_by, used_by
from model.example import Example
from model.explain import judge_step
from model.judgement import Allowed, Broken

Kept = tuple[int, ...]
"""The steps of a recording that a part has, by index."""


@dataclass(frozen=True, slots=True)
class Recording:
    """A recorded violation, and ever smaller parts that still have it; the first is the whole recording.

    ``explained``: the shortest part, with the steps that may have caused the violation.
    """

    whole: Attempt
    rungs: tuple[Kept, ...]
    stage: Stage
    explained: Kept = ()

    @property
    def shown(self) -> Attempt:
        """The part for a reader, which has the violation and what may have caused it."""
        kept = self.explained or self.rungs[-1]
        steps = tuple(self.whole.steps[at] for at in kept)
        assert self.whole.violation is not None
        violation = msgspec.structs.replace(self.whole.violation, step=len(steps))
        return Attempt(steps, sum(at < self.whole.chosen for at in kept), violation)


def shorten_recording(whole: Attempt, known: frozenset[str], *, limit_s: float) -> Recording | None:
    """Leave out the steps of a recording that its violation does not need, for at most ``limit_s`` seconds.

    ``known``: the deviations that the model knew. None if the model does not find the violation in the recording: the
    lockstep finds a few itself.
    """
    assert whole.violation is not None
    began = time.monotonic()
    search = _ModelSearch(whole.steps, whole.violation, known, began + limit_s)
    if not search.accepts(tuple(range(len(whole.steps)))):
        return None
    for name in search.names():
        search.leave_out(name)
    size = max(1, len(search.best) // 2)
    while not search.is_over:
        before = len(search.best)
        for part in parts(before - 1, size):
            search.leave_out(search.best[at] for at in part)
        if size == 1 and len(search.best) == before:
            break
        size = max(1, size // 2)
    stage = Stage(
        name="recording",
        seconds=round(time.monotonic() - began, 3),
        candidates=search.candidates,
        steps=len(search.best),
    )
    return Recording(whole, tuple(search.rungs), stage, explained=search.explained())


@dataclass(slots=True)
class _ModelSearch:
    """``states``: the model's possible states before each step of the shortest part so far."""

    steps: tuple[Step, ...]
    violation: Violation
    known: frozenset[str]
    deadline: float
    rungs: list[Kept] = field(default_factory=list)
    states: list[Example] = field(default_factory=list)
    candidates: int = 0
    made: list[frozenset[Name]] = field(init=False)
    used: list[frozenset[Name]] = field(init=False)

    def __post_init__(self) -> None:
        self.made = [made_by(step) for step in self.steps]
        self.used = [used_by(step) for step in self.steps]

    @property
    def best(self) -> Kept:
        return self.rungs[-1]

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self.deadline

    def names(self) -> Iterator[list[int]]:
        """The steps of each topic, each subscription and each actor."""
        for kind in ("topic", "subscription", "actor"):
            named = [getattr(step.operation, kind) for step in self.steps]
            for name in dict.fromkeys(named):
                if name is not None:
                    yield [at for at, other in enumerate(named) if other == name]

    def leave_out(self, places: Iterable[int]) -> None:
        """Leave these steps out if the rest still has the violation; the last step always stays."""
        out = set(places) - {self.best[-1]}
        kept = tuple(at for at in self.best if at not in out)
        if len(kept) < len(self.best) and not self.is_over:
            self.candidates += 1
            self.accepts(kept)

    def explained(self) -> Kept:
        """The shortest part, with each step that may have caused the violation and still leaves that the same."""
        kept = self.best
        for at in causes(self.steps[: self.best[-1] + 1]):
            if at not in kept and not self.is_over:
                more = self._with_what_is_used({*kept, at})
                kept = more if self._states_of(more) is not None else kept
        return kept

    def _with_what_is_used(self, kept: set[int]) -> Kept:
        """These steps, with the last steps before them that made what they use."""
        to_do = sorted(kept)
        while to_do:
            at = to_do.pop()
            for name in self.used[at]:
                makers = [maker for maker in range(at) if name in self.made[maker]]
                if makers and not kept & set(makers):
                    kept.add(makers[-1])
                    to_do.append(makers[-1])
        return tuple(sorted(kept))

    def accepts(self, kept: Kept) -> bool:
        """Whether these steps make sense and have the violation; then they become the shortest part."""
        states = self._states_of(kept)
        if states is None:
            return False
        self.rungs.append(kept)
        self.states = states
        return True

    def _states_of(self, kept: Kept) -> list[Example] | None:
        """The states before each of these steps; None if they make no sense or lack the violation."""
        made = frozenset(name for at in kept for name in self.made[at])
        if any(not self.used[at] <= made for at in kept):
            return None
        steps = [self.steps[at] for at in kept]
        before = self.best if self.rungs else ()
        alike = next((at for at, (one, other) in enumerate(zip(kept, before, strict=False)) if one != other), 0)
        states = self.states[: alike + 1] or [Example(known=self.known)]
        for step in steps[alike:-1]:
            after = _judged(states[-1], step)
            if not isinstance(after, Allowed):
                return None
            states.append(after.state)
        return states if self._is_it(_judged(states[-1], steps[-1])) else None

    def _is_it(self, judged: Allowed[Example] | Broken | None) -> bool:
        wanted = self.violation
        return isinstance(judged, Broken) and (judged.rule, judged.deviation, judged.side, judged.because) == (
            wanted.rule,
            wanted.deviation,
            wanted.side,
            wanted.because,
        )


def _judged(state: Example, step: Step) -> Allowed[Example] | Broken | None:
    """The model's judgement of a step; None if a step that it depends on is left out."""
    try:
        return judge_step(state, step)
    except (LookupError, AssertionError, ValueError, AttributeError, TypeError):
        return None
