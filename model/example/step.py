"""One operation with what was observed of it: a step of a history."""

from __future__ import annotations

from msgspec import Struct

from model.cursors.ledger import Interval
from model.events import AnyOutcome, Late
from model.operations import AnyOperation
from model.service.unexpected import Unexpected


class Step(Struct, frozen=True, kw_only=True):
    """One operation with its outcome; times in milliseconds since the history began."""

    operation: AnyOperation
    outcome: AnyOutcome
    invoked_ms: float
    completed_ms: float
    late: tuple[Late, ...] = ()
    """Answers to earlier sends that were not awaited; they are judged before this operation."""
    unexpected: tuple[Unexpected, ...] = ()
    """What the broker did besides the outcome; it is judged first."""

    @property
    def at(self) -> Interval:
        """The time of the step as an interval of the model."""
        return Interval(self.invoked_ms, self.completed_ms)
