"""Judges what was recorded once more, from the first step on, as whoever finds a history does."""

from __future__ import annotations

from collections.abc import Iterable

from conformance.history.document import Step
from model.example import Example, judge
from model.judgement import Allowed, Broken


def judged_again(steps: Iterable[Step], known: Iterable[str] = ()) -> Allowed[Example] | Broken:
    """What these steps come to, to who knows of these deviations only: the first rule that they break, or all of it."""
    state = Example(known=frozenset(known))
    exercised, deviations = list[str](), list[str]()
    for step in steps:
        judged = judge(state, step.operation, step.outcome, step.late, step.at, step.unexpected)
        if isinstance(judged, Broken):
            return judged
        state = judged.state
        exercised += judged.exercised
        deviations += judged.deviations
    return Allowed(state, tuple(exercised), tuple(deviations))
