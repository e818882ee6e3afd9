"""What every machine is made of: a rule performs operations one by one, each judged before the next; no rules here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar, cast

from hypothesis import strategies as st
from hypothesis.stateful import Rule, RuleBasedStateMachine, RuleStrategy

from conformance.coverage.guide import Guide
from model.operations import AnyOperation

T = TypeVar("T")


class Performing(Protocol):
    """What a machine performs its operations on: an example that is running, or one that it shares with others."""

    def do(self, operation: AnyOperation) -> None:
        """Perform and judge one operation."""

    def end(self) -> None:
        """End the example."""

    @property
    def guide(self) -> Guide | None:
        """What counts its choices and prefers new ones, if anything does."""


DRAWS: Final = 6
"""How many rules are drawn at most until one may make a new choice."""


def name_of(machine: type[RuleBasedStateMachine], rule: Rule) -> str:
    """The name of a rule in a run's coverage."""
    return f"{machine.__name__}.{rule.function.__name__}"


def preferred(draw: Callable[[], T], name: Callable[[T], str], guide: Guide | None) -> T:
    """What is drawn; where choices are counted, of a few the first whose rule may make a new one."""
    drawn = draw()
    if guide is not None:
        for _ in range(DRAWS - 1):
            if guide.lacks(name(drawn)):
                break
            drawn = draw()
        guide.begins(name(drawn))
    return drawn


@st.composite
def _guided(
    draw: st.DrawFn, usual: st.SearchStrategy[tuple[Rule, dict[str, Any]]], machine: LockstepMachine
) -> tuple[Rule, dict[str, Any]]:
    """A rule of a machine, with its arguments."""
    return preferred(lambda: draw(usual), lambda drawn: name_of(type(machine), drawn[0]), machine.guide)


class LockstepMachine(RuleBasedStateMachine):
    """A machine whose operations are performed and judged in an example that is running."""

    def __init__(self, example: Performing) -> None:
        super().__init__()
        self.example = example
        self._rules_strategy = cast("RuleStrategy", _guided(self._rules_strategy, self))
        self.last: AnyOperation | None = None
        """What it performed last."""

    @property
    def guide(self) -> Guide | None:
        """What counts the choices of its example and prefers new ones, if anything does."""
        return self.example.guide

    def do(self, operation: AnyOperation) -> None:
        """Perform one operation."""
        self.last = operation
        self.example.do(operation)

    def producers_closed(self) -> None:
        """Another machine on this topic did what may close producers of the topic: reopen them."""

    def disconnected(self) -> None:
        """Another machine on this topic unloaded it or stopped its broker: clients that do not reconnect are gone."""
        self.producers_closed()

    def teardown(self) -> None:
        """End the example."""
        self.example.end()
