"""What the suite costs: the same operations with it and without it, in turns, in one run.

With it: Hypothesis chooses, the operation is performed, written down and judged. Without it: the very same operations,
performed on fresh topics and nothing else. Both open the same sessions and read the same logs back. The broker is the
same and so is the hour, so the ratio means something where the seconds do not. It is no test: a slow day fails nothing.

    python -m tests.quality.cost [--broker 4.0.8] [--rounds 20] [--seed 1]
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

import click

from conformance.brokers.select import parse_broker
from conformance.engine.example import RunningExample
from conformance.engine.plugin import SUITE_SETTINGS
from conformance.engine.run import run_round, weight
from conformance.history.journal import Journal
from conformance.lockstep.lockstep import Lockstep
from conformance.lockstep.real import RealPerformer
from conformance.lockstep.world import World
from model.deviations import DEVIATIONS
from model.example import Example
from model.operations import AnyOperation
from stateful.test_dedup import MACHINES


def with_suite(world: World, journal: Journal, seed: int) -> tuple[float, list[list[AnyOperation]]]:
    """One round of the main machine: the seconds that it took, and the operations of its examples."""
    examples: list[list[AnyOperation]] = []

    def begin() -> RunningExample:
        lockstep = Lockstep(RealPerformer(world), Example(known=frozenset(DEVIATIONS)), record=journal.record)
        return RunningExample(lockstep, is_time_up=lambda: False, on_end=lambda e: examples.append(_operations(e)))

    began = time.perf_counter()
    run_round(next(machine for machine in MACHINES if machine.name == "deduplication"), begin, seed=seed)
    return time.perf_counter() - began, examples


def _operations(example: RunningExample) -> list[AnyOperation]:
    return [step.operation for step in example.lockstep.steps]


def without_suite(world: World, examples: list[list[AnyOperation]]) -> float:
    """The same operations on fresh topics; the seconds that it took."""
    began = time.perf_counter()
    for operations in examples:
        performer = RealPerformer(world)
        for operation in operations:
            performer.perform(operation)
        performer.close()
    return time.perf_counter() - began


@click.command()
@click.option("--broker", default="4.0.8", show_default=True)
@click.option("--rounds", default=20, show_default=True)
@click.option("--seed", default=1, show_default=True)
def main(broker: str, rounds: int, seed: int) -> None:
    """Print operations per second with the suite and without it, and the ratio round by round."""
    started = parse_broker(broker, settings=SUITE_SETTINGS)
    started.start()
    try:
        with tempfile.TemporaryDirectory() as folder:
            world = World(started, run=f"cost-{time.time_ns():x}")
            journal = Journal(Path(folder) / "journal.jsonl")
            ratios, operations, seconds_with, seconds_without = [], 0, 0.0, 0.0
            for number in range(rounds):
                took_with, examples = with_suite(world, journal, seed + number)
                took_without = without_suite(world, examples)
                operations += sum(weight(operation) for example in examples for operation in example)
                seconds_with, seconds_without = seconds_with + took_with, seconds_without + took_without
                ratios.append(took_with / took_without)
            click.echo(f"{operations} operations in {rounds} rounds on {started.version}")
            click.echo(f"with the suite     {operations / seconds_with:8.0f} operations/s")
            click.echo(f"without it         {operations / seconds_without:8.0f} operations/s")
            low, middle, high = min(ratios), statistics.median(ratios), max(ratios)
            click.echo(f"with / without     {seconds_with / seconds_without:.3f} in all")
            click.echo(f"by round           {low:.3f} least, {middle:.3f} median, {high:.3f} most")
            world.close()
            journal.close()
    finally:
        started.stop()


if __name__ == "__main__":
    main()
