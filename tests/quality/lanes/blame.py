"""Whether lanes blame a violation on the lane that shows it: seeded defects that only the topics of one lane have.

Each defect is switched on for the topics of the first lane, and all lanes run the machines of its family. A violation
in another lane is a false alarm, or is blamed on the wrong lane. It is no test: it takes twenty minutes.

    python -m tests.quality.lanes.blame [--broker 4.0.8] [--lanes 8] [--limit 40s] [--report FOLDER] [NAME ...]
"""

from __future__ import annotations

import re
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import click

from conformance import events
from conformance.brokers.interface import Broker
from conformance.brokers.select import parse_broker
from conformance.cli.parameters.types import Duration
from conformance.engine.deployment import SUITE_SETTINGS
from conformance.faults import catalogue, defects
from conformance.faults.catalogue import BrokerDefect
from conformance.harness_error import HarnessError
from conformance.history import document
from conformance.history.document import Step
from conformance.history.journal import ExampleBegins, JournalStep, read_journal
from tests.quality.finding.hunt import UnshortenedRun, machines_for, plan_of, rules_of, world_on

TOPIC_OF: Final = {
    "ManagedCursorImpl": "$0.ledger.getName()",
    "PersistentSubscription": "$0.getTopicName()",
    "PersistentTopic": "$0.getName()",
    "MessageDeduplication": "$0.topic.getName()",
    "Consumer": "$0.getSubscription().getTopicName()",
    "PersistentDispatcherMultipleConsumers": "$0.topic.getName()",
    "PersistentStickyKeyDispatcherMultipleConsumers": "$0.topic.getName()",
}
"""How a rule of the agent finds the name of the topic, by its class."""
SAMPLE: Final = (
    "ack-dropped",
    "ack-on-another-subscription",
    "ack-unanswered",
    "backlog-one-too-many",
    "check-removed",
    "chunk-dropped",
    "chunk-stored-twice",
    "cumulative-one-too-many",
    "duplicate-lowers-the-id",
    "duplicate-stored-too",
    "join-registers-nothing",
    "last-id-always-none",
    "leave-drops-pending-acks",
    "mark-delete-goes-back",
    "nack-ignored",
    "read-order-reversed",
    "skip-all-leaves-one",
    "skip-one-too-many",
    "stats-fail",
    "subscribe-refused",
    "unknown-stored",
)
"""Defects of each document, in code that has the topic at hand."""
_RULE: Final = re.compile(r"^CLASS \S*\.(?P<name>\w+)$(?P<head>.*?)^IF (?P<condition>.*?)$(?P<rest>\nDO)", re.M | re.S)


@dataclass(frozen=True, slots=True)
class Blamed:
    """The violations of a run, as lane and rule."""

    by_lane: Counter[tuple[int, str]]
    errors: tuple[str, ...]

    def rules(self, lane: int) -> dict[str, int]:
        """How often each rule was violated in this lane."""
        return {rule: count for (one, rule), count in sorted(self.by_lane.items()) if one == lane}

    def others(self, lane: int) -> dict[str, int]:
        """How often each rule was violated in the other lanes."""
        found = Counter[str]()
        for (one, rule), count in sorted(self.by_lane.items()):
            if one != lane:
                found[rule] += count
        return found


def limited(defect: BrokerDefect, lane: int) -> BrokerDefect:
    """The same defect for the topics of one lane. Raises ValueError if its code does not know the topic."""

    def only_there(rule: re.Match[str]) -> str:
        topic = TOPIC_OF[rule["name"]]
        condition = f'({rule["condition"]}) AND {topic}.contains("/lane-{lane}-")'
        return rule[0].replace(f"IF {rule['condition']}\n", f"IF {condition}\n")

    try:
        text, count = _RULE.subn(only_there, defect.text)
    except KeyError as unknown:
        raise ValueError(f"a rule of {defect.name} is in {unknown}, which does not know its topic") from None
    if count != len(re.findall("^RULE ", defect.text, re.M)):
        raise ValueError(f"a rule of {defect.name} is not understood")
    return replace(defect, text=text)


class _Violations(events.Emitter):
    """Collects the histories of violations, and harness errors."""

    def __init__(self, began: float) -> None:
        super().__init__(None, began=began)
        self.found: list[events.ViolationFound] = []
        self.errors: list[str] = []

    def __call__(self, event: events.AnyEvent) -> None:
        match event:
            case events.ViolationFound():
                self.found.append(event)
            case events.HarnessErrorHappened(sentence=sentence):
                self.errors.append(sentence)
            case _:
                pass


def blame(
    broker: Broker, name: str, defect: BrokerDefect, report: Path, *, lanes: int, limit_s: float, seed: int
) -> Blamed:
    """Run lanes, of which the first has the defect. ``report``: a new folder, for journals and histories."""
    agents = broker.load_agents()
    report.mkdir(parents=True)
    with world_on(broker, None) as (world, footprint):
        plan = plan_of(name, footprint, report, seed=seed, lanes=lanes, limit_s=limit_s)
        began = time.monotonic()
        happened = _Violations(began)
        run = UnshortenedRun(plan, world, happened, began=began)
        machines = [machine for machine in machines_for("lanes", defect) if machine.affects == "topics"]
        run.expect(machines)
        for agent in agents:
            defects.switch_on(agent, limited(defect, 1))
        try:
            for machine in machines:
                run.explore(machine)
        finally:
            for agent in agents:
                defects.switch_off(agent, limited(defect, 1))
        blamed = Counter((_lane_of(plan.report, one), one.violation.rule) for one in happened.found)
        return Blamed(blamed, tuple(happened.errors))


def _lane_of(report: Path, violation: events.ViolationFound) -> int:
    """The lane whose journal has the example that broke a rule."""
    first = document.read(Path(violation.history)).steps[0]
    for journal in report.glob("journal-lane-*.jsonl"):
        if any(_are_same(first, line) for line in read_journal(journal)):
            return int(journal.stem.rpartition("-")[2])
    raise AssertionError(f"no lane has the example of {violation.history}")


def _are_same(first: Step, line: ExampleBegins | JournalStep) -> bool:
    return isinstance(line, JournalStep) and line.step == first


def _listed(rules: Mapping[str, int]) -> str:
    return ", ".join(f"{rule} {count}" for rule, count in rules.items()) or "nothing"


def chosen(names: Sequence[str]) -> list[BrokerDefect]:
    """These defects of the broker, or the sample."""
    found = [catalogue.find(name) for name in names or sorted(SAMPLE)]
    return [defect for defect in found if isinstance(defect, BrokerDefect)]


@click.command()
@click.argument("names", nargs=-1)
@click.option("--broker", default="4.0.8", show_default=True)
@click.option("--lanes", default=8, show_default=True)
@click.option("--limit", type=Duration(), default="40s", show_default=True)
@click.option("--seed", default=1, show_default=True)
@click.option("--report", type=click.Path(path_type=Path), help="Keeps the journals and histories in this folder.")
def main(names: tuple[str, ...], broker: str, lanes: int, limit: float, seed: int, report: Path | None) -> None:
    """Print for each defect which rules its lane violated, and how many violations other lanes had."""
    try:
        asked = chosen(names)
    except HarnessError as unknown:
        raise click.ClickException(str(unknown)) from unknown
    started = parse_broker(broker, settings=SUITE_SETTINGS)
    started.start()
    try:
        for defect in asked:
            with tempfile.TemporaryDirectory() as temporary:
                folder = (report or Path(temporary)) / defect.name
                found = blame(started, broker, defect, folder, lanes=lanes, limit_s=limit, seed=seed)
            its = found.rules(1)
            is_right = bool(rules_of(defect) & its.keys()) and not found.others(1)
            print(
                f"{'right' if is_right else 'WRONG':5} {defect.name:28} breaks {defect.breaks:9} in its lane: "
                f"{_listed(its)}; in the other {lanes - 1}: {_listed(found.others(1))}"
                f"{''.join(f'; {error}' for error in found.errors)}",
                flush=True,
            )
    finally:
        started.stop()


if __name__ == "__main__":
    main()
