"""Judges a recorded history again from its first step, like somebody who finds it later."""

from __future__ import annotations

from collections.abc import Iterable

from conformance.history.document import Step
from model.example import Example, judge
from model.judgement import Allowed, Broken


def judged_again(steps: Iterable[Step], known: Iterable[str] = ()) -> Allowed[Example] | Broken:
    """The verdict on these steps with these known deviations: the first violation, or what the whole history allows."""
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
