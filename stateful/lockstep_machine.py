"""What every machine is made of: a rule performs operations one by one, each judged before the next; no rules here."""

from __future__ import annotations

from hypothesis.stateful import RuleBasedStateMachine

from conformance.engine.example import RunningExample
from model.operations import AnyOperation


class LockstepMachine(RuleBasedStateMachine):
    """A machine whose operations are performed and judged in an example that is running."""

    def __init__(self, example: RunningExample) -> None:
        super().__init__()
        self.example = example

    def do(self, operation: AnyOperation) -> None:
        """Perform one operation."""
        self.example.do(operation)

    def teardown(self) -> None:
        """End the example."""
        self.example.end()
