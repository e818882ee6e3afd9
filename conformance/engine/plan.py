"""The options of a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from conformance.brokers.settings import Choice
from conformance.brokers.size import SMALLEST, Size
from conformance.clients.security.service import NO_SECURITY, Security
from conformance.tenancy.footprint import Footprint


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The options of a run. ``budget_s`` counts from the run's beginning; None runs each machine for one round.

    ``shortening_s``: the time for shortening one history beyond that; by default it is a part of the budget.
    ``lanes``: how many examples run in parallel. ``coverage``: the file with the choices of earlier runs.
    """

    broker: str
    seed: int
    rules: frozenset[str]
    report: Path
    budget_s: float | None = None
    shortening_s: float | None = None
    known: frozenset[str] = frozenset()
    defect: str | None = None
    settings: dict[str, str] = field(default_factory=dict)
    security: Security = NO_SECURITY
    footprint: Footprint | None = None
    choice: Choice = "quick"
    size: Size = SMALLEST
    lanes: int = 1
    coverage: Path | None = None
