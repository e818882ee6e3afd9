"""``explore``: every reachable state of the model's small configurations, and what holds in all of them."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from conformance.harness_error import HarnessError
from conformance.report.docs.exploration import in_words
from model.explorations import VARIANTS, explorations


def explore(variant: str | None, out: Console) -> int:
    """Explore the documents' configurations, or one variant, and in_words what was found.

    Returns 1 when something is broken that must hold, 2 when an exploration stopped at its limit before that was seen
    or put nothing to the test, 0 otherwise: a variant is there to be broken, and its counterexample is no failure.
    HarnessError when there is no such variant.
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
    """Print every variant of the model: its name, where it comes from, and what it does differently."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(ratio=1)
    for variant in VARIANTS:
        table.add_row(variant.name, Text(f"{variant.what} ({variant.origin.value})"))
    out.print(table)
