"""``explore``: every reachable state of the model's small configurations, and the statements that hold in all."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from conformance.harness_error import HarnessError
from conformance.report.docs.exploration import in_words
from model.explorations import VARIANTS, explorations


def explore(variant: str | None, out: Console) -> int:
    """Explore the documents' configurations, or one variant, and print the results.

    Returns 1 if a statement is broken that must hold, 2 if an exploration stopped at its limit before that or exercised
    nothing, 0 otherwise. A variant is expected to break a statement, so its counterexample is no failure.
    """
    try:
        named = explorations(variant)
    except ValueError as error:
        raise HarnessError(str(error)) from error
    status = 0
    for exploration in named:
        found = exploration.run()
        out.print(Text(in_words(exploration, found)), soft_wrap=True)
        if exploration.must_hold and not found.holds:
            broken = found.counterexamples or found.dead_end is not None
            status = 1 if broken or status == 1 else 2
    return status


def list_variants(out: Console) -> None:
    """Print every variant of the model: its name, its origin, and the difference that it makes."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(ratio=1)
    for variant in VARIANTS:
        table.add_row(variant.name, Text(f"{variant.what} ({variant.origin.value})"))
    out.print(table)
