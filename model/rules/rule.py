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
    """One statement of a document: its id, the document, the statement, from what it is decided, its section."""

    id: str
    document: str
    statement: str
    decided_by: tuple[Decided, ...]
    section: str

    @property
    def family(self) -> str:
        """The part of the id before the number: ``DEDUP`` of ``DEDUP-03``."""
        return self.id.partition("-")[0]


@dataclass(frozen=True, slots=True)
class Page:
    """A public page that says the same: a PIP, or a page of Pulsar's documentation."""

    title: str
    address: str


@dataclass(frozen=True, slots=True)
class Document:
    """One of the five documents, or the rules without a document: its name, its own title, and the public pages."""

    name: str
    title: str
    pages: tuple[Page, ...]
