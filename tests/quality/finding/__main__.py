"""How well bugs are found: the time and operations until each of a sample of seeded defects is found, in three ways.

    python -m tests.quality.finding measure [--broker 4.0.8] [--seeds 5] [--limit 60] [DEFECT…]

It appends to ``measured.jsonl`` and leaves out what that has, so it can be stopped and started again. The three ways
take turns, so a busy machine slows all of them. It starts a broker, and takes about a minute for a defect and a seed.
"""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import click

from conformance.faults import catalogue
from conformance.faults.defect import Defect
from conformance.harness_error import HarnessError
from tests.quality.finding import data
from tests.quality.finding.data import MEASURED, WAYS, Way
from tests.quality.finding.hunt import Deployment
from tests.quality.finding.sample import sample


@click.group()
def main() -> None:
    """Measure how well bugs are found."""


@main.command()
@click.argument("names", nargs=-1, metavar="[DEFECT…]")
@click.option("--broker", default="4.0.8", show_default=True)
@click.option("--seeds", default=5, show_default=True, help="How many; the first is 1.")
@click.option("--limit", default=60.0, show_default=True, help="How long to hunt at most, in seconds.")
@click.option("--data", "path", default=MEASURED, type=click.Path(path_type=Path), help="The file to append to.")
def measure(names: tuple[str, ...], broker: str, seeds: int, limit: float, path: Path) -> None:
    """Hunt for each defect (of the sample, or these) with each seed in each way, unless the data has it."""
    chosen = [catalogue.find(name) for name in names] or sample()
    done = {one.is_of for one in data.read(path)}
    deployment = Deployment(broker)
    try:
        for seed in range(1, seeds + 1):
            for number, defect in enumerate(sorted(chosen, key=lambda one: one.settings)):
                for way in _turns(seed + number):
                    if (way, defect.name, seed) not in done:
                        _measure(deployment, defect, way, seed, limit, path)
    finally:
        deployment.close()


def _measure(deployment: Deployment, defect: Defect, way: Way, seed: int, limit_s: float, path: Path) -> None:
    try:
        one = deployment.hunt(defect, way, seed, limit_s=limit_s)
    except HarnessError as error:
        click.echo(f"{defect.name}, {way}, seed {seed}: not measured: {error}")
        return
    data.append(path, [one])
    how = f"{one.rule} by {one.machine}" if one.found else "not found"
    click.echo(f"{defect.name}, {way}, seed {seed}: {how} after {one.seconds:.1f} s, {one.operations} operations")


def _turns(first: int) -> list[Way]:
    """The ways, each as often first as the others."""
    start = first % len(WAYS)
    return list(islice((*WAYS, *WAYS), start, start + len(WAYS)))


if __name__ == "__main__":
    main()
