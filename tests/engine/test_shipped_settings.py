"""The last part of a run is on a broker with the settings that the release ships."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis.stateful import rule

from conformance import events
from conformance.brokers.interface import Capability
from conformance.engine import rounds, run, served_broker
from conformance.engine.machines import Machine, on_shipped_settings
from conformance.engine.plan import Plan
from conformance.harness_error import HarnessError
from conformance.lockstep.world import World
from model.operations import CreateTopic
from stateful.lockstep_machine import LockstepMachine
from tests.engine.lanes.simulated_lanes import NothingMissing
from tests.lockstep.simulated.world import SimulatedPerformer


class Creating(LockstepMachine):
    """Creates topics."""

    @rule()
    def create(self) -> None:
        self.do(CreateTopic("t0"))


MACHINE = Machine(name="creating", decides=(), factory=Creating, steps=2, examples=2)
SHIPPED = on_shipped_settings(MACHINE)
ON_CLUSTERS = replace(MACHINE, name="on clusters", needs=frozenset({Capability.CLUSTERS}))


def world(name: str, *capabilities: Capability) -> World:
    broker = SimpleNamespace(name=name, capabilities=frozenset(capabilities), log_tail=lambda: "the end of the log")
    return cast(World, SimpleNamespace(broker=broker, capabilities=NothingMissing(), has_clusters=False))


QUICK = world("quick", *Capability)
STARTED = cast(World, SimpleNamespace(broker=QUICK.broker, capabilities=NothingMissing(), has_clusters=True))


class Performed(list[str]):
    """The worlds of the examples that were performed."""


@pytest.fixture
def performed(monkeypatch: pytest.MonkeyPatch) -> Performed:
    worlds = Performed()

    class Recording(SimulatedPerformer):
        def __init__(self, at: World) -> None:
            super().__init__(random.Random(1))
            worlds.append(at.broker.name)

    monkeypatch.setattr(rounds, "RealPerformer", Recording)
    return worlds


def a_run(
    tmp_path: Path,
    on_shipped: Callable[[], World] | None,
    *,
    at: World = QUICK,
    budget_s: float | None = None,
    start_took_s: float = 0.0,
    kept: Path | None = None,
) -> run.Run:
    began = time.monotonic() - start_took_s
    plan = Plan(broker="", seed=1, rules=frozenset(), report=tmp_path, budget_s=budget_s)
    one = run.Run(plan, at, events.Emitter(kept, began=began), began=began, on_shipped=on_shipped)
    one.expect([MACHINE, SHIPPED])
    return one


def test_the_broker_is_restarted_once_for_all_machines_with_shipped_settings(
    performed: Performed, tmp_path: Path
) -> None:
    starts: list[int] = []

    def on_shipped() -> World:
        starts.append(len(performed))
        return world("shipped", *Capability)

    one = a_run(tmp_path, on_shipped)
    one.explore(MACHINE)
    before = len(performed)
    one.explore(SHIPPED)
    one.explore(SHIPPED)
    assert starts == [before]
    assert set(performed[:before]) == {"quick"}
    assert set(performed[before:]) == {"shipped"}


def test_a_broker_that_the_suite_did_not_start_keeps_its_settings(performed: Performed, tmp_path: Path) -> None:
    one = a_run(tmp_path, lambda: pytest.fail("it was started"), at=world("theirs"))
    one.explore(SHIPPED)
    assert performed == []


def test_without_time_left_the_broker_is_not_restarted(performed: Performed, tmp_path: Path) -> None:
    one = a_run(tmp_path, lambda: pytest.fail("it was started"), budget_s=served_broker.LEAST_FOR_START_S)
    one.explore(SHIPPED)
    assert performed == []


def test_a_broker_that_starts_slowly_is_not_restarted_near_the_end(performed: Performed, tmp_path: Path) -> None:
    one = a_run(tmp_path, lambda: pytest.fail("it was started"), budget_s=75.0, start_took_s=20.0)
    one.explore(SHIPPED)
    assert performed == []


@pytest.mark.parametrize(
    ("start_took_s", "at", "is_run"), [(0.01, QUICK, True), (1.0, QUICK, False), (1.0, STARTED, True)]
)
def test_more_clusters_are_not_started_near_the_end(
    performed: Performed,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    start_took_s: float,
    at: World,
    *,
    is_run: bool,
) -> None:
    monkeypatch.setattr(served_broker, "LEAST_FOR_START_S", 0.1)
    one = a_run(tmp_path, None, at=at, budget_s=2.0 + start_took_s, start_took_s=start_took_s)
    one.explore(ON_CLUSTERS)
    assert bool(performed) == is_run


def test_if_the_broker_does_not_start_with_shipped_settings_no_further_machine_is_run(
    performed: Performed, tmp_path: Path
) -> None:
    def on_shipped() -> World:
        raise HarnessError("it does not start")

    kept = tmp_path / "events.jsonl"
    one = a_run(tmp_path, on_shipped, kept=kept)
    assert one.explore(SHIPPED) == one.explore(MACHINE) == []
    assert performed == []
    told = events.decode(kept.read_bytes().splitlines()[-1])
    assert isinstance(told, events.HarnessErrorHappened)
    assert (told.sentence, told.log_tail) == ("it does not start", "the end of the log")
