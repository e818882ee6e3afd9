"""Hunts for one seeded defect on a broker that keeps running, until a rule of its family is broken.

The engine runs the machines as ``check`` does, from a seed. The clock starts when the broker serves and the defect is
on. No violation is replayed or shortened. One of another family does not count: it may be the defect's doing, but a
broker on a busy machine may also be slow.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from conformance import events
from conformance.brokers.interface import Broker
from conformance.brokers.select import parse_broker, releases_of
from conformance.engine.budget import reserve_s
from conformance.engine.deployment import SUITE_SETTINGS
from conformance.engine.execution import weight
from conformance.engine.found import FoundViolation
from conformance.engine.machines import Machine
from conformance.engine.plan import Plan
from conformance.engine.run import Run
from conformance.faults import defects
from conformance.faults.catalogue import BrokerDefect
from conformance.faults.defect import Defect
from conformance.faults.seeded_defect import seed_defect
from conformance.harness_error import HarnessError
from conformance.history.journal import JournalStep, read_journal
from conformance.known import known_of, shipped
from conformance.lockstep.world import World
from conformance.tenancy.footprint import Footprint
from conformance.tenancy.place import RunPlace
from conformance.tenancy.run_name import RunName
from model.rules.catalogue import RULES, select
from stateful.test_chunking import MACHINES as OF_CHUNKING
from stateful.test_cursors import MACHINES as OF_CURSORS
from stateful.test_deduplication import MACHINES as OF_DEDUPLICATION
from stateful.test_effectively_once import MACHINES as OF_APPLICATIONS
from stateful.test_key_shared import MACHINES as OF_KEY_SHARED
from stateful.test_mixed import MACHINES as OF_ALL
from stateful.test_service import MACHINES as OF_SERVICE
from tests.quality.finding.data import Measurement, Way

LANES: Final = 8
MACHINES: Final = (
    *OF_CHUNKING,
    *OF_CURSORS,
    *OF_DEDUPLICATION,
    *OF_APPLICATIONS,
    *OF_KEY_SHARED,
    *OF_ALL,
    *OF_SERVICE,
)
"""All machines of one cluster, in the order in which the engine runs them."""
WARM_UP_S: Final = 8.0
"""How long a broker works before it is measured: the first examples on a new one are several times slower."""
MOST_HUNTS: Final = 30
"""After so many hunts another broker is started: topics stay, and a restart takes longer with more of them."""


class Watch(events.Emitter):
    """Calls ``on_found`` at the first violation of these rules; it notes that, the first example, and harness errors.

    ``report``: the folder of the run, with the journals.
    """

    def __init__(self, began: float, report: Path, rules: Set[str]) -> None:
        super().__init__(None, began=began)
        self._report = report
        self._rules = rules
        self.found: events.ViolationFound | None = None
        self.operations = 0
        """Those performed until then, also in examples that had not ended."""
        self.first_s: float | None = None
        self.errors: list[str] = []
        self.on_found: Callable[[], None] = lambda: None

    def __call__(self, event: events.AnyEvent) -> None:
        match event:
            case events.ViolationFound() if self.found is None and event.violation.rule in self._rules:
                self.found = event
                self.operations = _performed(self._report)
                self.on_found()
            case events.ExampleFinished() if self.first_s is None:
                self.first_s = event.at_s
            case events.HarnessErrorHappened(sentence=sentence):
                self.errors.append(sentence)
            case _:
                pass


class UnshortenedRun(Run):
    """A run that goes on after violations, without making their histories short."""

    def _concluded(self, found: list[FoundViolation]) -> list[FoundViolation]:
        if self._interrupted:
            raise KeyboardInterrupt
        return found


def rules_of(defect: Defect) -> frozenset[str]:
    """The rules of the defect's family."""
    return frozenset(rule.id for rule in select(RULES[defect.breaks].family))


def machines_for(defect: Defect) -> Sequence[Machine]:
    """The machines that decide a rule of the defect's family, as in ``defects --hunt``."""
    return [machine for machine in MACHINES if not machine.on_shipped and machine.is_for(rules_of(defect))]


class Deployment:
    """One broker at a time, with the settings that a defect needs."""

    def __init__(self, broker: str) -> None:
        self._name = broker
        self._broker: Broker | None = None
        self._settings: dict[str, str] = {}
        self._hunts = 0

    def close(self) -> None:
        if self._broker is not None:
            self._broker.stop()
        self._broker = None

    def hunt(self, defect: Defect, way: Way, seed: int, *, limit_s: float) -> Measurement:
        """Hunt for a defect in one way, for at most so many seconds.

        Raises HarnessError if the hunt failed; the next one has a new broker.
        """
        try:
            broker = self._started(defect)
            self._hunts += 1
            return self._hunt(broker, defect, way, seed, limit_s)
        except HarnessError:
            self.close()
            raise

    def _started(self, defect: Defect) -> Broker:
        """The running broker, or another one if the defect needs other settings."""
        settings = {**SUITE_SETTINGS, **dict(defect.settings)}
        if self._broker is None or settings != self._settings or self._hunts >= MOST_HUNTS:
            self.close()
            self._broker = parse_broker(self._name, settings=settings)
            self._settings, self._hunts = settings, 0
            self._broker.start()
            with world_on(self._broker, None) as (world, footprint):
                self._run(world, footprint, OF_ALL[:1], frozenset(), seed=0, lanes=LANES, limit_s=WARM_UP_S)
        return self._broker

    def _hunt(self, broker: Broker, defect: Defect, way: Way, seed: int, limit_s: float) -> Measurement:
        with world_on(broker, defect) as (world, footprint):
            lanes = 1 if way == "one lane" else LANES
            watch = self._run(
                world, footprint, machines_for(defect), rules_of(defect), seed=seed, lanes=lanes, limit_s=limit_s
            )
            found = watch.found
            if found is None and (watch.errors or watch.now_s < limit_s / 2):
                raise HarnessError("; ".join(watch.errors) or f"it ended after {watch.now_s:.1f} s")
            return Measurement(
                date=datetime.now(UTC).date().isoformat(),
                release=broker.version,
                way=way,
                defect=defect.name,
                seed=seed,
                seconds=limit_s if found is None else found.at_s,
                operations=watch.operations,
                found=found is not None,
                rule=None if found is None else found.violation.rule,
                machine=None if found is None else found.machine,
                first_s=watch.first_s,
            )

    def _run(
        self,
        world: World,
        footprint: Footprint,
        machines: Sequence[Machine],
        rules: Set[str],
        *,
        seed: int,
        lanes: int,
        limit_s: float,
    ) -> Watch:
        """Run machines until one of these rules is broken; returns what happened."""
        with tempfile.TemporaryDirectory() as report:
            plan = plan_of(self._name, footprint, Path(report), seed=seed, lanes=lanes, limit_s=limit_s)
            began = time.monotonic()
            watch = Watch(began, plan.report, rules)
            run = UnshortenedRun(plan, world, watch, began=began)
            watch.on_found = run.interrupt
            run.expect(machines)
            try:
                for machine in machines:
                    run.explore(machine)
            except KeyboardInterrupt:  # which the run raises once it is interrupted
                if watch.found is None:
                    raise
            if watch.found is None:
                watch.operations = _performed(plan.report)
            return watch


def plan_of(broker: str, footprint: Footprint, report: Path, *, seed: int, lanes: int, limit_s: float) -> Plan:
    """The plan of a run that shortens nothing, and leaves so much time to the machines."""
    return Plan(
        broker=broker,
        seed=seed,
        rules=frozenset(),
        report=report,
        budget_s=_budget_s(limit_s),
        shortening_s=0.0,
        known=frozenset(one.name for one in known_of(shipped(), releases_of(broker))),
        footprint=footprint,
        lanes=lanes,
    )


@contextmanager
def world_on(broker: Broker, defect: Defect | None) -> Iterator[tuple[World, Footprint]]:
    """A world of its own on the broker, which has the defect meanwhile."""
    footprint = Footprint(name=RunName.new(at_most_s=3600.0))
    with ExitStack() as stack:
        seeded = None if defect is None else seed_defect(broker, defect.name)
        if seeded is not None:
            stack.callback(seeded.close)
        if isinstance(defect, BrokerDefect):
            stack.callback(_switch_off, broker, defect)
        place = stack.enter_context(RunPlace(broker, footprint))
        world = World(
            broker,
            place=place,
            on_start=None if seeded is None else seeded.give,
            service=None if seeded is None else seeded.service,
        )
        stack.callback(world.close)
        yield world, footprint


def _switch_off(broker: Broker, defect: BrokerDefect) -> None:
    for agent in broker.load_agents():
        defects.switch_off(agent, defect)


def _performed(report: Path) -> int:
    """How many operations the journals of a run have."""
    read = (line for journal in report.glob("journal*.jsonl") for line in read_journal(journal))
    return sum(weight(line.step.operation) for line in read if isinstance(line, JournalStep))


def _budget_s(limit_s: float) -> float:
    """The budget whose reserve leaves so much to the machines."""
    budget_s = limit_s
    while budget_s - reserve_s(budget_s) < limit_s:
        budget_s += 0.5
    return budget_s
