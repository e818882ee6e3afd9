"""A run keeps to its budget by what operations took so far: it begins, and finishes, only what it has the time for."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis.stateful import rule

from conformance import events
from conformance.brokers.interface import Capability
from conformance.engine import rounds, run
from conformance.engine.durations import Durations
from conformance.engine.machines import Machine
from conformance.engine.plan import Plan
from conformance.history.document import Step
from conformance.lockstep.performer import Performed
from conformance.lockstep.world import World
from model.operations import AnyOperation, CreateTopic, ReadLog, Restart
from stateful.lockstep_machine import LockstepMachine
from tests.lockstep.simulated.world import SimulatedPerformer

Performances = list[list[AnyOperation]]


class NothingMissing:
    """The capabilities of a broker that lacks none."""

    def undecidable(self) -> dict[str, str]:
        return {}

    def why_not(self, _: AnyOperation) -> str | None:
        return None


class Restarting(LockstepMachine):
    """Creates a topic and restarts the broker, again and again."""

    @rule()
    def create_and_restart(self) -> None:
        self.do(CreateTopic("t0"))
        self.do(Restart())


def performances(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, durations: type[Durations]) -> Performances:
    """What was performed in the examples of a run with a little budget, in which operations take as long as is told."""
    performed: Performances = []

    class Recording(SimulatedPerformer):
        def __init__(self, _: object) -> None:
            super().__init__(random.Random(1))
            performed.append([])

        def perform(self, operation: AnyOperation) -> Performed:
            performed[-1].append(operation)
            return super().perform(operation)

    monkeypatch.setattr(rounds, "RealPerformer", Recording)
    monkeypatch.setattr(rounds, "Durations", durations)
    began = time.monotonic()
    plan = Plan(broker="", seed=1, rules=frozenset(), report=tmp_path, budget_s=2)
    broker = SimpleNamespace(capabilities=frozenset(Capability))
    world = cast(World, SimpleNamespace(broker=broker, capabilities=NothingMissing()))
    one = run.Run(plan, world, events.Emitter(None, began=began), began=began)
    machine = Machine(name="restarting", decides=(), factory=Restarting, steps=3, examples=1)
    one.expect([machine])
    one.explore(machine)
    return [operations for operations in performed if operations]


class Endless(Durations):
    """Restarts that nobody saw the end of."""

    def of(self, operation: AnyOperation) -> float:
        return math.inf if isinstance(operation, Restart) else 0.0


class LongFinish(Durations):
    """Finishing an example takes longer than there is, and so does every restart."""

    def of(self, operation: AnyOperation) -> float:
        return Endless().of(operation)

    def of_finishing(self, machine: str) -> float:
        assert machine == "restarting"
        return math.inf


class Learnt(Durations):
    """Restarts take no time until one was seen, and for ever then."""

    seen: Step | None = None

    def of(self, operation: AnyOperation) -> float:
        return math.inf if isinstance(operation, Restart) and self.seen is not None else 0.0

    def learn(self, machine: str, steps: Sequence[Step], chosen: int) -> None:
        assert (machine, chosen <= len(steps)) == ("restarting", True)
        self.seen = next((step for step in steps if isinstance(step.operation, Restart)), None)


def test_an_operation_that_would_exceed_the_budget_is_not_begun_and_the_example_is_finished(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    [operations] = performances(monkeypatch, tmp_path, Endless)
    assert operations[0] == CreateTopic("t0")
    assert Restart() not in operations
    assert ReadLog("t0") in operations


def test_an_example_is_not_finished_if_that_would_exceed_the_budget(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert performances(monkeypatch, tmp_path, LongFinish) == [[CreateTopic("t0")]]


def test_durations_are_learnt_from_an_example(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    first, second = performances(monkeypatch, tmp_path, Learnt)
    assert Restart() in first
    assert Restart() not in second
