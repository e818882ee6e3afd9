"""A history that is judged again: the state of the model before each step, and what breaks the rule at last."""

from __future__ import annotations

from dataclasses import dataclass

from conformance.harness_error import HarnessError
from conformance.history.document import History, Step
from conformance.known import unlike
from model.deviation import CLASSIC
from model.events import Created
from model.example.judge import judge_step as by_documents
from model.example.state import Example
from model.explain import judge_step
from model.judgement import Allowed, Broken
from model.log import Position
from model.subscriptions.state import Consumption
from model.vocabulary import SubscriptionId


@dataclass(frozen=True, slots=True)
class JudgedHistory:
    """``before``: the state before each step up to the violated one. ``broken``: by the documents alone.

    ``is_classic``: the broker's setting switches on the classic implementation of Key_Shared.
    """

    steps: tuple[Step, ...]
    before: tuple[Example, ...]
    broken: Broken
    is_classic: bool

    @property
    def has_draining_hashes(self) -> bool:
        """Whether Key_Shared had the implementation with draining hashes."""
        created = (one.outcome for one in self.steps if isinstance(one.outcome, Created))
        return not self.is_classic and all(one.has_draining_hashes for one in created)

    @property
    def violated(self) -> Step:
        return self.steps[-1]

    def backlog(self, index: int, subscription: SubscriptionId) -> int | None:
        """The number of unacknowledged entries before a step; None if it is not certain."""
        return backlog_in(self.before[index].consumption, subscription)


def backlog_in(state: Consumption, subscription: SubscriptionId) -> int | None:
    """The number of unacknowledged entries of a subscription; None if it is not certain."""
    cursor = state.cursors.get(subscription)
    if cursor is None or subscription.topic not in state.topics:
        return None
    left = {one.count_left(state.log(subscription.topic)) for one in cursor.possible}
    return left.pop() if len(left) == 1 and not cursor.unsure else None


def names_at(state: Consumption, topic: str, position: Position) -> tuple[str, ...]:
    """The business ids of an entry."""
    return tuple(state.log(topic).entries[position])


def judged(history: History) -> JudgedHistory:
    """Judge a history again up to its violation, with all deviations known but the one that it shows.

    Raises:
        HarnessError: nothing breaks a rule.
    """
    named = history.violation and history.violation.deviation
    for known in (unlike(named or ""), frozenset[str]()):
        if (found := _judged(history, known)) is not None:
            return found
    raise HarnessError("no step of this history breaks a rule any more, so there is nothing to reproduce")


def _judged(history: History, known: frozenset[str]) -> JudgedHistory | None:
    before = [Example(known=known)]
    for number, step in enumerate(history.steps, start=1):
        state = before[-1]
        after = judge_step(state, step)
        if isinstance(after, Broken):
            broken = by_documents(state, step)
            steps = history.steps[:number]
            name, _, value = CLASSIC.partition("=")
            is_classic = history.settings.get(name) == value
            return JudgedHistory(steps, tuple(before), broken if isinstance(broken, Broken) else after, is_classic)
        assert isinstance(after, Allowed)
        before.append(after.state)
    return None
