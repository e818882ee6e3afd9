"""What is judged on which topics: how often each rule is exercised on those with chunks, deduplication, both, neither.

A machine runs on a real broker, or the journals of runs are read; each history is judged again step by step. A step
counts for the topic that it names, or that its actor named last.

    python -m tests.quality.rules_by_topic [--machine deduplication] [--broker 4.0.8] [--rounds 5] [--seed 1]
    python -m tests.quality.rules_by_topic REPORT/journal.jsonl …
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Literal

import click

from conformance.brokers.select import parse_broker
from conformance.engine.deployment import SUITE_SETTINGS
from conformance.engine.example import RunningExample
from conformance.engine.execution import run_round
from conformance.engine.slices import topics_of
from conformance.history.document import Step
from conformance.history.from_journal import examples_of
from conformance.history.journal import Journal
from conformance.lockstep.lockstep import Lockstep
from conformance.lockstep.real import RealPerformer
from conformance.lockstep.world import World
from conformance.tenancy.place import RunPlace
from model.deviations import DEVIATIONS
from model.example import Example, judge
from model.judgement import Broken
from tests.quality.cost import MACHINES

Kind = Literal["both", "chunks", "deduplication", "others"]
KINDS: Final[tuple[Kind, ...]] = ("both", "chunks", "deduplication", "others")


def kind_of(state: Example, topic: str) -> Kind:
    """What a topic has by now."""
    followed, view = state.consumption.topics.get(topic), state.topics.get(topic)
    is_deduplicated = view is not None and view.enabled
    if topic in state.chunking.topics:
        return "both" if state.chunking.topics[topic].deduplication else "chunks"
    if followed is not None and followed.log.chunks:
        return "both" if is_deduplicated else "chunks"
    return "deduplication" if is_deduplicated else "others"


def counted(steps: Iterable[Step]) -> Counter[tuple[str, Kind]]:
    """How often each rule was exercised on topics of each kind, up to a violation."""
    counts: Counter[tuple[str, Kind]] = Counter()
    steps = list(steps)
    state = Example(known=frozenset(DEVIATIONS))
    for step, topic in zip(steps, topics_of([step.operation for step in steps]), strict=True):
        judged = judge(state, step.operation, step.outcome, step.late, step.at, step.unexpected)
        if isinstance(judged, Broken):
            click.echo(f"{judged.rule} is broken: {judged.because}")
            break
        state = judged.state
        kind = kind_of(state, topic or "")
        counts.update((rule, kind) for rule in judged.exercised)
        counts.update((name, kind) for name in judged.deviations)
    return counts


@click.command()
@click.argument("journals", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--machine", type=click.Choice(sorted(MACHINES)), default="deduplication", show_default=True)
@click.option("--broker", default="4.0.8", show_default=True)
@click.option("--rounds", default=5, show_default=True)
@click.option("--seed", default=1, show_default=True)
def main(journals: tuple[Path, ...], machine: str, broker: str, rounds: int, seed: int) -> None:
    """Print for each rule, and each deviation met, how often that was on topics of each kind."""
    counts: Counter[tuple[str, Kind]] = Counter()
    for journal in journals:
        for _, steps in examples_of(journal):
            counts.update(counted(steps))
    if not journals:
        counts = run(machine, broker, rounds, seed)
    click.echo(f"rule or deviation: {', '.join(KINDS)}")
    for name in sorted({name for name, _ in counts}):
        click.echo(f"{name:40}" + "".join(f"{counts[name, kind]:8}" for kind in KINDS))


def run(machine: str, broker: str, rounds: int, seed: int) -> Counter[tuple[str, Kind]]:
    """Count what a machine exercises on a broker."""
    started = parse_broker(broker, settings=SUITE_SETTINGS)
    started.start()
    counts: Counter[tuple[str, Kind]] = Counter()
    try:
        with tempfile.TemporaryDirectory() as folder:
            world = World(started, place=RunPlace(started))
            journal = Journal(Path(folder) / "journal.jsonl")

            def begin() -> RunningExample:
                lockstep = Lockstep(RealPerformer(world), Example(known=frozenset(DEVIATIONS)), record=journal.record)
                return RunningExample(
                    lockstep, is_time_up=lambda: False, on_end=lambda e: counts.update(counted(e.lockstep.steps))
                )

            for number in range(rounds):
                run_round(MACHINES[machine], begin, seed=seed + number)
            world.close()
            journal.close()
    finally:
        started.stop()
    return counts


if __name__ == "__main__":
    main()
