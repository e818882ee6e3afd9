"""How the model answers: what is still allowed, or which rule is broken.

An observer holds the states that are possible, is told an operation with its outcome, and answers with the states that
are possible after it. None left: a rule is broken. Which states there are is each document's own module's business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any, Final, Generic, Literal, ParamSpec, TypeVar, cast

S = TypeVar("S")
T = TypeVar("T")
P = ParamSpec("P")

Part = frozenset[Any] | None
"""A part of the evidence of a violation; None: all of it."""
Side = Literal["client", "broker"]
"""On which side of the wire something went wrong, where both are systems that a rule is about (document 002)."""


@dataclass(frozen=True, slots=True)
class Allowed(Generic[S]):
    """What was observed is allowed: the state after it, and the known deviations it showed.

    ``exercised``: the rules of which a check could have failed, each as often as it was checked. ``excused``: those of
    which it could not: an administrator's operation, a state that is not known, or a deviation met before stood in its
    way. What a deviation explains in this very step is not named here, for :func:`counted` adds it; except for the
    deviations that are ``counted`` already, check by check.
    """

    state: S
    exercised: tuple[str, ...] = ()
    deviations: tuple[str, ...] = ()
    excused: tuple[str, ...] = ()
    counted: frozenset[str] = frozenset()

    def of(self, state: T) -> Allowed[T]:
        """The same answer with another state."""
        return Allowed(state, self.exercised, self.deviations, self.excused, self.counted)

    def then(self, judge: Callable[[S], Allowed[T] | Broken]) -> Allowed[T] | Broken:
        """What this and the judgement from its state come to."""
        judged = judge(self.state)
        return judged.after(self) if isinstance(judged, Allowed) else judged.counting(self)

    def after(self, *before: Allowed[Any]) -> Allowed[S]:
        """The same answer, with what was exercised, met and excused before it."""
        every = (*before, self)
        return Allowed(
            self.state,
            tuple(rule for one in every for rule in one.exercised),
            tuple(name for one in every for name in one.deviations),
            tuple(rule for one in every for rule in one.excused),
            frozenset(name for one in every for name in one.counted),
        )


@dataclass(frozen=True, slots=True)
class Broken:
    """What was observed is not allowed: the rule, why in one sentence, and the deviation's name if it has one.

    ``side``: on which side of the wire it happened, where the wire was watched. ``is_overdue``: the rule is broken by
    what did not happen before a wait ended, so on a machine that is too slow it may only be late.

    ``evidence``: what breaks it, if that is one of several things that were observed. ``passed``: what the rest of the
    step comes to where a deviation explains this, or a part of the evidence: the next violation, or the state after the
    step. None: nobody knows.
    """

    rule: str
    because: str
    deviation: str | None = None
    side: Side | None = None
    is_overdue: bool = False
    evidence: object = field(default=None, compare=False)
    passed: Callable[[Part], Allowed[Any] | Broken] | None = field(default=None, compare=False, repr=False)

    def passing_to(self, state: object) -> Broken:
        """The same; the state after the check, if a deviation explains it."""
        return replace(self, passed=lambda _: Allowed(state))

    def passing(self, part: Part = None) -> Allowed[Any] | Broken:
        """What the rest of the step comes to, if this is explained. ``part``: if only this much of the evidence is, of
        a check whose evidence has parts; what is left of it is then the next violation."""
        if self.passed is None:
            raise TypeError(f"it is not known what follows if a deviation explains a violation of {self.rule}")
        return self.passed(part)

    def then(self, judge: Callable[[Any], Allowed[Any] | Broken]) -> Broken:
        """The same violation; if it is explained, what follows is judged, too."""
        return self._following(lambda after: after.then(judge))

    def changed(self, change: Callable[[Broken], Broken]) -> Broken:
        """This violation changed, and each one that this check finds once it is explained."""
        return change(self)._following(lambda after: after.changed(change) if isinstance(after, Broken) else after)

    def _following(self, change: Callable[[Allowed[Any] | Broken], Allowed[Any] | Broken]) -> Broken:
        passed = self.passed
        return self if passed is None else replace(self, passed=lambda part: change(passed(part)))

    def counting(self, before: Allowed[Any]) -> Broken:
        """The same violation after other checks."""
        return self.then(lambda state: Allowed(state).after(before))


def overdue(judged: T) -> T:
    """The same answer; if a rule is broken, by something that did not happen in time."""
    if not isinstance(judged, Broken):
        return judged
    return cast(T, judged.changed(lambda one: replace(one, is_overdue=True)))


def judges_waits(judge: Callable[P, T]) -> Callable[P, T]:
    """Marks a function of the model that judges only what did not happen in time."""

    @wraps(judge)
    def judged(*args: P.args, **kwargs: P.kwargs) -> T:
        return overdue(judge(*args, **kwargs))

    return judged


def in_turn(state: S, steps: Iterable[Callable[[S], Allowed[S] | Broken]]) -> Allowed[S] | Broken:
    """One step after the other, each from the state after the one before, until a rule is broken."""
    judged: Allowed[S] | Broken = Allowed(state)
    for step in steps:
        judged = judged.then(step)
    return judged


HOLDS: Final = Allowed(None)
"""The answer of a check that has nothing to say."""


def all_of(answers: Iterable[Allowed[None] | Broken]) -> Allowed[None] | Broken:
    """All of these answers: the first violation without a name, or else the first one, and each deviation once.

    If that is explained, the others follow.
    """
    every = [one for one in answers if one is not HOLDS]
    if not every:
        return HOLDS
    broken = [one for one in every if isinstance(one, Broken)]
    if broken:
        first = next((one for one in broken if one.deviation is None), broken[0])
        return first.then(lambda _: all_of(one for one in every if one is not first))
    together = Allowed(None).after(*(one for one in every if isinstance(one, Allowed)))
    return Allowed(None, together.exercised, tuple(dict.fromkeys(together.deviations)), together.excused)
