"""Carries out operations: on the real system, or, in tests of the suite itself, on the reference model.

A performer returns outcomes and judges nothing.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from model.events import AnyOutcome, Late
from model.operations import AnyOperation
from model.service.unexpected import Unexpected


class Performed(NamedTuple):
    """The outcome of an operation, the late answers to earlier sends, and unexpected answers."""

    outcome: AnyOutcome
    late: tuple[Late, ...] = ()
    unexpected: tuple[Unexpected, ...] = ()


class Performer(Protocol):
    """Carries out the operations of one example."""

    def perform(self, operation: AnyOperation) -> Performed:
        """Carry out one operation and return the outcome. Raises :class:`HarnessError`."""

    def close(self) -> None:
        """End all sessions of the example. Its topics stay."""
