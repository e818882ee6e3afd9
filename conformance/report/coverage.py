"""The choices that no run has drawn, on a terminal, for each subscription type and setting."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from conformance.coverage.coverage import Drawn, Gaps, gaps
from conformance.report.console import say, show_table
from conformance.report.sentences.lists import count, joined


def show(before: Drawn, drawn: Drawn, console: Console, *, verbose: bool = False) -> None:
    """Print what a run has drawn on top of what was drawn ``before``, and what is still missing.

    ``verbose``: which operations never followed another one, and not only how many.
    """
    new = len(drawn.choices.keys() - before.choices.keys())
    together = before + drawn
    console.print()
    say(
        console,
        f"Coverage: the run drew {count(len(drawn.choices), 'choice', 'choices')}, {new} of them for the first time; "
        f"all runs drew {len(together.choices)}.",
        style="bold",
    )
    found = gaps(together)
    show_table(
        console,
        [_row(one, its) for one, its in found.items()],
        justify=("left", "right", "right", "left"),
        headings=("Type or setting", "Pairs", "Never drawn", "Never followed by a kill"),
    )
    if verbose:
        for one, its in found.items():
            for first, never in its.never_after.items():
                say(console, f"{one}: {first} was never followed by {joined(never)}", indent=2)


def _row(one: str, its: Gaps) -> list[Text]:
    never = sum(map(len, its.never_after.values()))
    return [Text(one), Text(str(its.pairs)), Text(str(never)), Text(joined(its.never_killed))]
