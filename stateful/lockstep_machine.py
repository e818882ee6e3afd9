"""The base of all machines: operations are performed one by one, and each is judged before the next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar, cast

from hypothesis import strategies as st
from hypothesis.stateful import Rule, RuleBasedStateMachine, RuleStrategy

from conformance.coverage.guide import Guide
from model.operations import AnyOperation

T = TypeVar("T")


class Performing(Protocol):
    """What performs a machine's operations: a running example, or one that it shares with other machines."""

    def do(self, operation: AnyOperation) -> None:
        """Perform and judge one operation."""

    def end(self) -> None:
        """End the example."""

    @property
    def guide(self) -> Guide | None:
        """Counts the choices and prefers new ones; None without."""


DRAWS: Final = 6
"""How many rules are drawn at most until one may make a new choice."""


def name_of(machine: type[RuleBasedStateMachine], rule: Rule) -> str:
    """The name of a rule in a run's coverage."""
    return f"{machine.__name__}.{rule.function.__name__}"


def preferred(draw: Callable[[], T], name: Callable[[T], str], guide: Guide | None) -> T:
    """The value that is drawn. If choices are counted, the first of a few whose rule can make a new choice."""
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
    """A machine that performs and judges its operations in a running example."""

    def __init__(self, example: Performing) -> None:
        super().__init__()
        self.example = example
        self._rules_strategy = cast("RuleStrategy", _guided(self._rules_strategy, self))
        self.last: AnyOperation | None = None
        """What it performed last."""

    @property
    def guide(self) -> Guide | None:
        """Counts the choices of the example and prefers new ones; None without."""
        return self.example.guide

    def do(self, operation: AnyOperation) -> None:
        """Perform one operation."""
        self.last = operation
        self.example.do(operation)

    def producers_closed(self) -> None:
        """Another machine on this topic may have closed its producers: reopen them."""

    def disconnected(self) -> None:
        """Another machine on this topic unloaded it or stopped its broker: wire clients are disconnected."""
        self.producers_closed()

    def teardown(self) -> None:
        """End the example."""
        self.example.end()
