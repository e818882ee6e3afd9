"""What every machine is made of: a rule performs operations one by one, each judged before the next; no rules here."""

from __future__ import annotations

from typing import Protocol

from hypothesis.stateful import RuleBasedStateMachine

from model.operations import AnyOperation


class Performing(Protocol):
    """What a machine performs its operations on: an example that is running, or one that it shares with others."""

    def do(self, operation: AnyOperation) -> None:
        """Perform and judge one operation."""

    def end(self) -> None:
        """End the example."""


class LockstepMachine(RuleBasedStateMachine):
    """A machine whose operations are performed and judged in an example that is running."""

    def __init__(self, example: Performing) -> None:
        super().__init__()
        self.example = example
        self.last: AnyOperation | None = None
        """What it performed last."""

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
