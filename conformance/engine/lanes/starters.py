"""Starts the processes that lanes are forked from, one ahead of its use: it imports all machines first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from conformance.engine.lanes.protocol import Report, read_report
from conformance.workers.starter import Starter

MODULE: Final = "conformance.engine.lanes"


class LaneStarters:
    """The starters of a run, one for each set of lanes."""

    def __init__(self, modules: Sequence[str]) -> None:
        """``modules``: those of the machines."""
        self._modules = modules
        self._next: Starter[Report] | None = None

    def prepare(self) -> None:
        """Start the next process now, beside what the run does meanwhile."""
        if self._next is None:
            self._next = Starter(MODULE, read_report, arguments=self._modules)
            self._next.prepare()

    def take(self) -> Starter[Report]:
        """The next starter; its user closes it."""
        self.prepare()
        assert self._next is not None
        taken, self._next = self._next, None
        return taken

    def close(self) -> None:
        """End the process that no lanes were forked from; safe to call twice."""
        if self._next is not None:
            self._next.close()
            self._next = None
