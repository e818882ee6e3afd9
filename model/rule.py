"""What a rule is: one statement of a document."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Decided(enum.Enum):
    """From what a rule can be decided."""

    WIRE = "wire"
    STATS = "stats"
    FAULT = "fault"
    MODEL = "model"


@dataclass(frozen=True, slots=True)
class Rule:
    """One statement of a document: its id, the document, the statement and from what it is decided."""

    id: str
    document: str
    statement: str
    decided_by: tuple[Decided, ...]

    @property
    def family(self) -> str:
        """The part of the id before the number: ``DEDUP`` of ``DEDUP-03``."""
        return self.id.partition("-")[0]
