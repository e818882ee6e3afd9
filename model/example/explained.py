"""Judges an operation by the known deviations, and explains a violation by the others."""

from __future__ import annotations

from model.cursors.cursor import Interval
from model.events import AnyOutcome, Late
from model.example.judge import NO_TIME
from model.example.judge import judge as by_known
from model.example.state import Example, Judgement
from model.explain import required
from model.judgement import Allowed, Broken
from model.operations import AnyOperation
from model.service.unexpected import Unexpected


def judge(
    state: Example,
    operation: AnyOperation,
    outcome: AnyOutcome,
    late: tuple[Late, ...] = (),
    at: Interval = NO_TIME,
    unexpected: tuple[Unexpected, ...] = (),
) -> Judgement:
    """As :func:`model.example.judge.judge`.

    Only what known deviations may have done makes a check unsure. If a rule is broken without a name, this assumes the
    unknown ones that lead to a possible state of a subscription. Those that explain the outcome name the violation.
    """

    def judged(known: frozenset[str]) -> Judgement:
        return by_known(state.with_known(known), operation, outcome, late, at, unexpected)

    answer = judged(state.known)
    if not isinstance(answer, Broken) or answer.deviation is not None:
        return answer
    unknown = (way for way in state.consumption.ways if not way <= state.known)
    explaining = [way for way in unknown if isinstance(judged(state.known | way), Allowed)]
    return required(explaining, state, state.known, answer.because) if explaining else answer
