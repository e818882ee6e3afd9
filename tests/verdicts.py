"""The model's verdict on a history, written as recorded steps or as operations with their outcomes."""

from __future__ import annotations

from collections.abc import Iterable

from conformance.history.document import Step
from model.cursors.ledger import Interval
from model.events import AnyOutcome, Late
from model.example import Example
from model.explain import judge
from model.judgement import Allowed, Broken
from model.operations import AnyOperation
from model.service.unexpected import Unexpected

Happened = tuple[AnyOperation, AnyOutcome] | tuple[AnyOperation, AnyOutcome, tuple[Late, ...]]
"""An operation and its outcome, with answers to earlier sends if some arrived."""

Verdict = Allowed[Example] | Broken


def judged(
    *history: Happened | Step,
    known: str | Iterable[str] = (),
    step_ms: float | None = None,
    start: Example | None = None,
) -> Verdict:
    """The first violation of a history, or what the whole of it allows, exercises and deviates in.

    ``known``: one deviation or several. ``step_ms``: how long each step takes, if it says nothing about its time.
    ``start``: what was before the history.
    """
    names = (known,) if isinstance(known, str) else known
    so_far: Allowed[Example] = Allowed(start or Example(known=frozenset(names)))
    for number, happened in enumerate(history):
        after = _judged(so_far.state, happened, number, step_ms)
        if isinstance(after, Broken):
            return after
        so_far = after.after(so_far)
    return so_far


def _judged(state: Example, happened: Happened | Step, number: int, step_ms: float | None) -> Verdict:
    if isinstance(happened, Step):
        return judge(state, happened.operation, happened.outcome, happened.late, happened.at, happened.unexpected)
    operation, outcome = happened[:2]
    late = happened[2] if len(happened) == 3 else ()
    if step_ms is None:
        return judge(state, operation, outcome, late)
    return judge(state, operation, outcome, late, Interval(number * step_ms, (number + 1) * step_ms))


def broken_by(*history: Happened | Step, known: str | Iterable[str] = (), step_ms: float | None = None) -> Broken:
    """What the last step of a history breaks, which is allowed before it."""
    before = judged(*history[:-1], known=known, step_ms=step_ms)
    assert isinstance(before, Allowed), before
    broken = judged(*history, known=known, step_ms=step_ms)
    assert isinstance(broken, Broken), broken
    return broken


def deviation_of(state: Example, operation: AnyOperation, outcome: AnyOutcome, *observed: Unexpected) -> str | None:
    """The deviation, if it has one, of a step that breaks a rule."""
    broken = judge(state, operation, outcome, unexpected=observed)
    assert isinstance(broken, Broken), broken
    return broken.deviation


def allowed_by(
    *history: Happened | Step, known: str | Iterable[str] = (), step_ms: float | None = None
) -> Allowed[Example]:
    """What a history comes to that breaks no rule."""
    allowed = judged(*history, known=known, step_ms=step_ms)
    assert isinstance(allowed, Allowed), allowed
    return allowed


def exercised(*history: Happened | Step, known: str | Iterable[str] = ()) -> tuple[str, ...]:
    """The rules of the documents that a history without a violation exercises; those of SERVE are exercised by any."""
    return tuple(rule for rule in allowed_by(*history, known=known).exercised if not rule.startswith("SERVE"))


def deviates(deviation: str, *history: Happened | Step, step_ms: float | None = None) -> bool:
    """Whether the last step of a history shows one deviation, which breaks a rule unless it is known."""
    broken = broken_by(*history, step_ms=step_ms)
    known = allowed_by(*history, known=deviation, step_ms=step_ms)
    return (broken.deviation, set(known.deviations)) == (deviation, {deviation})
