"""How well bugs are found: the time and operations until each of a sample of seeded defects is found.

    python -m tests.quality.finding measure [--broker 4.0.8] [--seeds 5] [--limit 60] [DEFECT…]
    python -m tests.quality.finding render
    python -m tests.quality.finding again [--broker 4.0.8] [--seeds 8] [DEFECT…]     # make quality

``measure`` appends to ``measured.jsonl`` and leaves out what that has, so it can be stopped and started again. It takes
about two minutes for a defect and a seed. The ways take turns, so a busy machine slows both of them. ``again``
measures lanes only, and says what got worse since: it exits with 1 if a defect is found later than before.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Final

import click

from conformance.faults import catalogue
from conformance.faults.defect import Defect
from conformance.harness_error import HarnessError
from model.rules.catalogue import RULES
from tests.quality.finding import data
from tests.quality.finding.comparison import SIGNIFICANT, Compared, compare
from tests.quality.finding.data import MEASURED, MEASURED_WAYS, Measurement, Way
from tests.quality.finding.hunt import Deployment
from tests.quality.finding.page import PAGE, PLOT, page, plot
from tests.quality.finding.sample import sample

REFERENCE: Final = Path("docs/reference")
FIRST_SEED_AGAIN: Final = 101
"""The first seed of hunts that are compared with the stored ones, which have others."""
FAILED: Final = 2
"""The exit status if nothing could be compared."""

of_data = click.option(
    "--data", "path", default=MEASURED, type=click.Path(path_type=Path), help="The file with the measurements."
)
on_broker = click.option("--broker", default="4.0.8", show_default=True)
within = click.option("--limit", default=60.0, show_default=True, help="How long to hunt at most, in seconds.")


@click.group()
def main() -> None:
    """Measure how well bugs are found."""


@main.command()
@click.argument("names", nargs=-1, metavar="[DEFECT…]")
@on_broker
@click.option("--seeds", default=5, show_default=True, help="How many; the first is 1.")
@within
@of_data
def measure(names: tuple[str, ...], broker: str, seeds: int, limit: float, path: Path) -> None:
    """Hunt for each defect (of the sample, or these) with each seed in each way, unless the data has it."""
    chosen = [catalogue.find(name) for name in names] or sample()
    done = {one.is_of for one in data.read(path)}
    with closing(Deployment(broker)) as deployment:
        for seed in range(1, seeds + 1):
            for number, defect in enumerate(sorted(chosen, key=lambda one: one.settings)):
                for way in _turns(seed + number):
                    if (way, defect.name, seed) not in done:
                        data.append(path, _measured(deployment, defect, way, seed, limit))


@main.command()
@of_data
@click.argument("folder", default=REFERENCE, type=click.Path(path_type=Path, exists=True, file_okay=False))
def render(path: Path, folder: Path) -> None:
    """Write the page and the plot of the documentation."""
    measured = data.read(path)
    (folder / PAGE).write_text(page(measured), encoding="utf-8")
    (folder / PLOT).write_text(plot(measured), encoding="utf-8")


@main.command()
@click.argument("names", nargs=-1, metavar="[DEFECT…]")
@on_broker
@click.option("--seeds", default=8, show_default=True, help="How many hunts for each defect.")
@within
@of_data
def again(names: tuple[str, ...], broker: str, seeds: int, limit: float, path: Path) -> None:
    """Hunt in lanes for one defect of each family (or for these), and compare with the stored hunts."""
    before = [one for one in data.read(path) if one.way == "lanes"]
    chosen = [catalogue.find(name) for name in names] or _one_of_each_family(before)
    now: list[Measurement] = []
    with closing(Deployment(broker)) as deployment:
        for seed in range(FIRST_SEED_AGAIN, FIRST_SEED_AGAIN + seeds):
            for defect in chosen:
                now += _measured(deployment, defect, "lanes", seed, limit)
    compared = compare(before, now)
    for line in lines(compared):
        click.echo(line)
    sys.exit(FAILED if not compared else int(any(one.is_worse for one in compared)))


def lines(compared: Sequence[Compared]) -> list[str]:
    """What is found later than before, and by what probability it is chance."""
    if not compared:
        return ["Nothing was measured both before and now."]
    worse = [one.what for one in compared if one.is_worse]
    outcome = f"Found later than before: {', '.join(worse)}." if worse else "Nothing is found later than before."
    return [
        "Operations until a defect is found, before and now (medians), and the probability that chance explains it:",
        *(f"  {one.what}: {_number(one.before)}, {_number(one.now)}; {one.by_chance:.3f}" for one in compared),
        f"{outcome} (A probability below {SIGNIFICANT:g} counts, after a correction for the number of tests.)",
    ]


def _number(operations: float) -> str:
    return "mostly not found" if math.isinf(operations) else f"{operations:.0f}"


def _one_of_each_family(measured: Sequence[Measurement]) -> list[Defect]:
    """The first one of each family of the sample that has been measured."""
    names = {one.defect for one in measured}
    first: dict[str, Defect] = {}
    for defect in sample():
        if defect.name in names:
            first.setdefault(RULES[defect.breaks].family, defect)
    return list(first.values())


def _measured(deployment: Deployment, defect: Defect, way: Way, seed: int, limit_s: float) -> list[Measurement]:
    """One hunt; none if it failed."""
    try:
        one = deployment.hunt(defect, way, seed, limit_s=limit_s)
    except HarnessError as error:
        click.echo(f"{defect.name}, {way}, seed {seed}: not measured: {error}")
        return []
    how = f"{one.rule} by {one.machine}" if one.found else "not found"
    click.echo(f"{defect.name}, {way}, seed {seed}: {how} after {one.seconds:.1f} s, {one.operations} operations")
    return [one]


def _turns(first: int) -> list[Way]:
    """The ways, each as often first as the others."""
    start = first % len(MEASURED_WAYS)
    return list(islice((*MEASURED_WAYS, *MEASURED_WAYS), start, start + len(MEASURED_WAYS)))


if __name__ == "__main__":
    main()
