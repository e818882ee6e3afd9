"""Writes a run's journal, every example of every machine, as a history for ``verify``."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

from conformance.history.about import About
from conformance.history.document import Step
from conformance.history.journal import ExampleBegins, JournalStep, read_journal
from conformance.history.parquet import HistoryWriter
from conformance.history.translation import translated

LANE = "machines"


def record_journals(report: Path, folder: Path, *, run: str, about: About) -> int:
    """Write the examples of a run and its lanes into a history; returns the number of events.

    ``report`` has their journals; ``run`` is a unique name. Raises :class:`~conformance.harness_error.HarnessError` if
    the history cannot be written.
    """
    events = 0
    with HistoryWriter(folder, LANE, about=about) as writer:
        for journal in sorted(report.glob("journal*.jsonl")):
            of_lane = journal.stem.removeprefix("journal")
            for example, steps in examples_of(journal):
                for event in translated(steps, run=f"{run}{of_lane}-{example.number}-{example.machine}", lane=LANE):
                    writer.record(event)
                    events += 1
    return events


def examples_of(journal: Path) -> Iterator[tuple[ExampleBegins, list[Step]]]:
    """Each example with its steps; several may have the same number, because a replay is an example, too."""
    lines = read_journal(journal)
    example: ExampleBegins | None = None
    for begins, group in itertools.groupby(lines, key=lambda line: isinstance(line, ExampleBegins)):
        if begins:
            example = [line for line in group if isinstance(line, ExampleBegins)][-1]
        elif example is not None:
            yield example, [line.step for line in group if isinstance(line, JournalStep)]
