"""Steers one example: whether a rule of its machine may draw what no run has drawn, and what it drew after all."""

from __future__ import annotations

from collections import Counter

from conformance.coverage.choices import Choices
from conformance.coverage.coverage import Coverage, Drawn
from model.events import AnyOutcome
from model.operations import AnyOperation


class Guide:
    """Counts the choices of one example, and tells which rules may draw new ones. A rule is named ``machine.rule``."""

    def __init__(self, coverage: Coverage) -> None:
        self._coverage = coverage
        self._choices = Choices()
        self._tried: Counter[str] = Counter()
        self._openings: Counter[str] = Counter()
        self._begun: str | None = None
        """The rule that has not performed anything yet."""

    def lacks(self, rule: str) -> bool:
        """Whether a rule may draw next what no run has drawn."""
        return bool(self._coverage.lacking(rule, self._choices))

    def begins(self, rule: str) -> None:
        """A rule was drawn, and performs its first operation next."""
        self._begun = rule
        self._tried.update(self._coverage.lacking(rule, self._choices))

    def note(self, operation: AnyOperation, outcome: AnyOutcome) -> None:
        """An operation was performed."""
        kind = self._choices.note(operation, outcome)
        if kind is not None and self._begun is not None:
            self._openings[f"{self._begun} > {kind}"] += 1
            self._begun = None

    @property
    def drawn(self) -> Drawn:
        """What the example has drawn so far."""
        return Drawn(choices=dict(self._choices.drawn), tried=dict(self._tried), openings=dict(self._openings))
