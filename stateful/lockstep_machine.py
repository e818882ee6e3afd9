"""The base of all machines: operations are performed one by one, and each is judged before the next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar, cast

from hypothesis import strategies as st
from hypothesis.control import current_build_context
from hypothesis.stateful import Rule, RuleBasedStateMachine, RuleStrategy
from msgspec import structs

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

    @property
    def libraries_for(self) -> Callable[[AnyOperation], tuple[str, ...]]:
        """The clients among which the machine chooses one for an operation; none if that has no choice."""


DRAWS: Final = 6
"""How many rules are drawn at most until one may make a new choice."""


def name_of(machine: type[RuleBasedStateMachine], rule: Rule) -> str:
    """The name of a rule in a run's coverage."""
    return f"{machine.__name__}.{rule.function.__name__}"


def drawn(strategy: st.SearchStrategy[T]) -> T:
    """A value that the running rule draws."""
    value: T = current_build_context().data.draw(strategy)
    return value


def preferred(draw: Callable[[], T], name: Callable[[T], str], guide: Guide | None) -> T:
    """The value that is drawn. If choices are counted, the first of a few whose rule can make a new choice."""
    value = draw()
    if guide is not None:
        for _ in range(DRAWS - 1):
            if guide.lacks(name(value)):
                break
            value = draw()
        guide.begins(name(value))
    return value


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
        """Perform one operation, of a released client by one of those of the run."""
        libraries = self.example.libraries_for(operation)
        if libraries:
            operation = structs.replace(operation, library=drawn(st.sampled_from(libraries)))
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
