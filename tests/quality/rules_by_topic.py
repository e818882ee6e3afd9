"""What is judged on which topics: how often each rule is exercised on topics with deduplication and without it.

Each machine runs on a real broker, and each of its histories is judged again step by step. A step counts for the topic
that it names, or that its actor named last.

    python -m tests.quality.rules_by_topic [--machine deduplication] [--broker 4.0.8] [--rounds 5] [--seed 1]
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import click

from conformance.brokers.select import parse_broker
from conformance.engine.example import RunningExample
from conformance.engine.performing import run_round
from conformance.engine.plugin import SUITE_SETTINGS
from conformance.engine.slices import topics_of
from conformance.history.document import Step
from conformance.history.journal import Journal
from conformance.lockstep.lockstep import Lockstep
from conformance.lockstep.real import RealPerformer
from conformance.lockstep.world import World
from conformance.tenancy.place import Place
from model.deviations import DEVIATIONS
from model.example import Example, judge
from model.judgement import Broken
from tests.quality.cost import MACHINES


def counted(steps: Iterable[Step]) -> Counter[tuple[str, bool]]:
    """How often each rule was exercised on topics with deduplication (True) and on others, up to a violation."""
    counts: Counter[tuple[str, bool]] = Counter()
    steps = list(steps)
    state = Example(known=frozenset(DEVIATIONS))
    for step, topic in zip(steps, topics_of([step.operation for step in steps]), strict=True):
        judged = judge(state, step.operation, step.outcome, step.late, step.at, step.unexpected)
        if isinstance(judged, Broken):
            click.echo(f"{judged.rule} is broken: {judged.because}")
            break
        state = judged.state
        view = state.topics.get(topic or "")
        counts.update((rule, view is not None and view.enabled) for rule in judged.exercised)
    return counts


@click.command()
@click.option("--machine", type=click.Choice(sorted(MACHINES)), default="deduplication", show_default=True)
@click.option("--broker", default="4.0.8", show_default=True)
@click.option("--rounds", default=5, show_default=True)
@click.option("--seed", default=1, show_default=True)
def main(machine: str, broker: str, rounds: int, seed: int) -> None:
    """Print for each rule how often it was exercised on topics with deduplication and on others."""
    started = parse_broker(broker, settings=SUITE_SETTINGS)
    started.start()
    counts: Counter[tuple[str, bool]] = Counter()
    try:
        with tempfile.TemporaryDirectory() as folder:
            world = World(started, place=Place(started))
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
    click.echo(f"{machine} on {started.version}: rule, checks on topics with deduplication, on others")
    for rule in sorted({rule for rule, _ in counts}):
        click.echo(f"{rule:10} {counts[rule, True]:8} {counts[rule, False]:8}")


if __name__ == "__main__":
    main()
