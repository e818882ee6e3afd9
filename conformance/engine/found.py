"""A violation that a run found, and the examples that showed it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from conformance.engine.shortener.attempt import Attempt
from conformance.history.document import Violation

KEPT_ALIKE = 2
"""How many further examples that break a rule in the same way are kept, should the first one not come back."""


@dataclass(slots=True)
class FoundViolation:
    """A violation as it was found, waiting to be made short; ``is_steady``: it comes back, None until it was tried.

    ``machine``: the name of the one that found it. ``alike``: further examples that broke the rule in the same way, of
    which ``broke_in`` counts all.
    """

    machine: str
    attempt: Attempt
    violation: Violation
    path: Path
    is_steady: bool | None = None
    alike: list[Attempt] = field(default_factory=list)
    broke_in: int = 1

    @property
    def attempts(self) -> list[Attempt]:
        """The examples that it can be replayed from."""
        return [self.attempt, *self.alike]

    def count_alike(self, attempt: Attempt) -> None:
        """Another example broke the rule in the same way; a few of these are kept."""
        self.broke_in += 1
        if len(self.alike) < KEPT_ALIKE:
            self.alike.append(attempt)
