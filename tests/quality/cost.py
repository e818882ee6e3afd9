"""What the suite costs: the same operations with it and without it, in turns, in one run.

With it: Hypothesis chooses, the operation is performed, written down and judged. Without it: the very same operations,
performed on fresh topics and nothing else. Both open the same sessions and read the same logs back. The broker is the
same and so is the hour, so the ratio means something where the seconds do not. It is no test: a slow day fails nothing.
A round in which pulsar-client waits for a while to come back says nothing of the suite; so, beside the ratio of the
turns, it is measured how much of the suite's own time is spent in performing, and how much on top.

    python -m tests.quality.cost [--machine deduplication] [--broker 4.0.8] [--rounds 20] [--seed 1]
"""

from __future__ import annotations

import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import click

from conformance.brokers.select import parse_broker
from conformance.engine.deployment import SUITE_SETTINGS
from conformance.engine.example import RunningExample
from conformance.engine.execution import run_round, spare_the_collector, weight
from conformance.engine.machines import Machine
from conformance.history.journal import Journal
from conformance.lockstep.lockstep import Lockstep
from conformance.lockstep.performer import Performed, Performer
from conformance.lockstep.real import RealPerformer
from conformance.lockstep.world import World
from conformance.tenancy.place import RunPlace
from model.deviations import DEVIATIONS
from model.example import Example
from model.operations import AnyOperation
from stateful import test_cursors, test_deduplication, test_key_shared, test_mixed

MACHINES = {
    machine.name: machine
    for machine in (
        *test_deduplication.MACHINES,
        *test_cursors.MACHINES,
        *test_key_shared.MACHINES,
        *test_mixed.MACHINES,
    )
}


class Timed:
    """A performer that counts the seconds that it is at work."""

    def __init__(self, performer: Performer) -> None:
        self.seconds = 0.0
        self._performer = performer

    def perform(self, operation: AnyOperation) -> Performed:
        """Carry out one operation."""
        began = time.perf_counter()
        try:
            return self._performer.perform(operation)
        finally:
            self.seconds += time.perf_counter() - began

    def close(self) -> None:
        """End all sessions of the example."""
        began = time.perf_counter()
        self._performer.close()
        self.seconds += time.perf_counter() - began


@dataclass(frozen=True, slots=True)
class Round:
    """One round with the suite: the seconds it took, those spent in performing, and the operations of its examples."""

    took_s: float
    performing_s: float
    examples: list[list[AnyOperation]]


def with_suite(machine: Machine, world: World, journal: Journal, seed: int) -> Round:
    """One round of a machine."""
    examples: list[list[AnyOperation]] = []
    performers: list[Timed] = []

    def begin() -> RunningExample:
        performers.append(Timed(RealPerformer(world)))
        lockstep = Lockstep(performers[-1], Example(known=frozenset(DEVIATIONS)), record=journal.record)
        return RunningExample(lockstep, is_time_up=lambda: False, on_end=lambda e: examples.append(_operations(e)))

    began = time.perf_counter()
    run_round(machine, begin, seed=seed)
    return Round(time.perf_counter() - began, sum(one.seconds for one in performers), examples)


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
@click.option("--machine", type=click.Choice(sorted(MACHINES)), default="deduplication", show_default=True)
@click.option("--broker", default="4.0.8", show_default=True)
@click.option("--rounds", default=20, show_default=True)
@click.option("--seed", default=1, show_default=True)
def main(machine: str, broker: str, rounds: int, seed: int) -> None:
    """Print operations per second with the suite and without it, and the ratio round by round."""
    spare_the_collector()
    started = parse_broker(broker, settings=SUITE_SETTINGS)
    started.start()
    try:
        with tempfile.TemporaryDirectory() as folder:
            world = World(started, place=RunPlace(started))
            journal = Journal(Path(folder) / "journal.jsonl")
            ratios, operations, seconds_with, seconds_without, performing = [], 0, 0.0, 0.0, 0.0
            for number in range(rounds):
                turn = with_suite(MACHINES[machine], world, journal, seed + number)
                took_without = without_suite(world, turn.examples)
                operations += sum(weight(operation) for example in turn.examples for operation in example)
                seconds_with, seconds_without = seconds_with + turn.took_s, seconds_without + took_without
                performing += turn.performing_s
                ratios.append(turn.took_s / took_without)
            click.echo(f"{operations} operations in {rounds} rounds on {started.version}")
            click.echo(f"with the suite     {operations / seconds_with:8.0f} operations/s")
            click.echo(f"without it         {operations / seconds_without:8.0f} operations/s")
            low, middle, high = min(ratios), statistics.median(ratios), max(ratios)
            click.echo(f"with / without     {seconds_with / seconds_without:.3f} in all")
            click.echo(f"by round           {low:.3f} least, {middle:.3f} median, {high:.3f} most")
            click.echo(f"performing {performing:.1f} s, and on top of it {seconds_with / performing - 1:.1%}")
            world.close()
            journal.close()
    finally:
        started.stop()


if __name__ == "__main__":
    main()
