"""What can carry out operations: the real system, or, in tests of the suite itself, the reference model.

A performer says what it saw and judges nothing.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from model.events import AnyOutcome, Late
from model.operations import AnyOperation
from model.service.unexpected import Unexpected


class Performed(NamedTuple):
    """What came of an operation, of earlier sends that were collected on the way to it, and what nobody asked for."""

    outcome: AnyOutcome
    late: tuple[Late, ...] = ()
    unexpected: tuple[Unexpected, ...] = ()


class Performer(Protocol):
    """Carries out the operations of one example."""

    def perform(self, operation: AnyOperation) -> Performed:
        """Carry out one operation and say what was seen; HarnessError when that cannot be said."""

    def close(self) -> None:
        """End all sessions of the example. What it made on the broker stays."""
