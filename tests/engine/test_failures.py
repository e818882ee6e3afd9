"""A machine that fails is run once more, then reported; the other machines are run in any case."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis.stateful import RuleBasedStateMachine, rule

from conformance import events
from conformance.brokers.interface import Capability
from conformance.engine import plugin, rounds, run, served_broker
from conformance.engine.example import RunningExample
from conformance.engine.machines import Machine
from conformance.engine.plan import Plan
from conformance.harness_error import HarnessError
from conformance.lockstep.performer import Performed
from conformance.lockstep.world import World
from model.operations import AnyOperation, CreateTopic
from stateful.lockstep_machine import LockstepMachine
from tests.engine.lanes.simulated_lanes import NothingMissing
from tests.lockstep.simulated.world import SimulatedPerformer


class Creating(LockstepMachine):
    """Creates a topic."""

    @rule()
    def create(self) -> None:
        self.do(CreateTopic("t0"))


class Crashing(LockstepMachine):
    """Has a bug of its own."""

    @rule()
    def create(self) -> None:
        raise TypeError("unexpected keyword argument 'crypto'")


def machine(name: str, kind: Callable[[RunningExample], RuleBasedStateMachine], *decides: str) -> Machine:
    return Machine(name=name, decides=decides, factory=kind, steps=1, examples=2)


SOUND = machine("sound", Creating, "DEDUP-01")
BUGGY = machine("buggy", Crashing, "DEDUP-02", "DEDUP-03")


class Stage:
    """A run on a simulated broker, whose performer fails as often as ``failures`` says; and all that it told."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, failures: list[Exception], *, is_replaceable: bool
    ) -> None:
        stage = self
        self.performed = 0
        self.is_serving = True
        self.comes_back = True
        self.starts = 0
        self.new_brokers = 0
        self._kept = tmp_path / "events.jsonl"

        class Failing(SimulatedPerformer):
            def __init__(self, _: object) -> None:
                super().__init__(random.Random(1))

            def perform(self, operation: AnyOperation) -> Performed:
                if failures:
                    raise failures.pop(0)
                stage.performed += 1
                return super().perform(operation)

        monkeypatch.setattr(rounds, "RealPerformer", Failing)
        broker = SimpleNamespace(
            name="b",
            capabilities=frozenset(Capability),
            log_tail=lambda: "the end of the log",
            is_alive=lambda: self.is_serving,
            ended_with=lambda: None,
        )
        world = SimpleNamespace(
            broker=broker,
            is_serving=lambda: self.is_serving,
            start_again=self._start_again,
            capabilities=NothingMissing(),
        )
        began = time.monotonic()
        plan = Plan(broker="", seed=1, rules=frozenset(), report=tmp_path)
        self._world = cast(World, world)
        self.run = run.Run(
            plan,
            self._world,
            events.Emitter(self._kept, began=began),
            began=began,
            on_new_broker=(lambda _: self._start_new_broker()) if is_replaceable else None,
        )
        self.run.expect([SOUND, BUGGY])

    def _start_again(self) -> None:
        self.starts += 1
        if not self.comes_back:
            raise HarnessError("it does not start")
        self.is_serving = True

    def _start_new_broker(self) -> World:
        self.new_brokers += 1
        self.is_serving = True
        return self._world

    @property
    def harness_errors(self) -> list[str]:
        return [one.sentence for one in self._told if isinstance(one, events.HarnessErrorHappened)]

    @property
    def phases(self) -> list[events.Phase]:
        return [one for one in self._told if isinstance(one, events.Phase)]

    @property
    def _told(self) -> Iterator[events.AnyEvent]:
        return map(events.decode, self._kept.read_bytes().splitlines())


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Stage]:
    return lambda *failures, is_replaceable=False: Stage(
        monkeypatch, tmp_path, list(failures), is_replaceable=is_replaceable
    )


def test_a_machine_that_crashes_twice_is_reported_with_its_rules_and_the_others_are_run(
    stage: Callable[..., Stage],
) -> None:
    at = stage()
    assert at.run.explore(BUGGY) == []
    assert at.run.explore(SOUND) == []
    assert at.performed > 0
    (told,) = at.harness_errors
    assert told == (
        "buggy failed twice: a bug of the suite ended buggy: TypeError: unexpected keyword argument 'crypto'. "
        "It leaves undecided: DEDUP-02, DEDUP-03."
    )


def test_a_machine_that_fails_once_is_run_again_and_nothing_is_reported(stage: Callable[..., Stage]) -> None:
    at = stage(HarnessError("no port is free"))
    at.run.explore(SOUND)
    assert at.performed > 0
    assert at.harness_errors == []


def test_a_bug_of_a_performer_costs_one_example_and_not_the_run(stage: Callable[..., Stage]) -> None:
    at = stage(KeyError("c1"), KeyError("c1"))
    at.run.explore(SOUND)
    assert at.performed == 0
    (told,) = at.harness_errors
    assert told.startswith("sound failed twice: a bug of the suite ended an example: KeyError: 'c1'.")
    at.run.explore(SOUND)
    assert at.performed > 0


def test_a_broker_that_does_not_serve_is_restarted(stage: Callable[..., Stage]) -> None:
    at = stage(HarnessError("the broker is gone"))
    at.is_serving = False
    at.run.explore(SOUND)
    assert at.starts == 1
    assert at.performed > 0
    assert at.harness_errors == []


def test_if_the_broker_cannot_be_restarted_no_further_machine_is_run(stage: Callable[..., Stage]) -> None:
    at = stage(HarnessError("the broker is gone"))
    at.is_serving = at.comes_back = False
    at.run.explore(SOUND)
    at.run.explore(SOUND)
    assert at.performed == 0
    assert at.harness_errors[0] == "The broker does not start again, so the run ends: it does not start"


@pytest.mark.parametrize("at_once", [True, False])
def test_a_broker_that_no_time_is_left_to_start_ends_the_run_with_what_it_found(
    stage: Callable[..., Stage], monkeypatch: pytest.MonkeyPatch, at_once: bool
) -> None:
    at = stage(HarnessError("the broker is gone"), is_replaceable=True)
    at.is_serving = at.comes_back = False
    late = iter([at_once, True])
    monkeypatch.setattr(at.run._broker, "is_too_late_to_start", lambda _: next(late))
    at.run.explore(SOUND)
    at.run.explore(SOUND)
    assert (at.starts, at.new_brokers, at.performed) == (0 if at_once else 1, 0, 0)
    assert at.harness_errors == ["sound could not go on: the broker is gone. It leaves undecided: DEDUP-01."]


def test_a_start_that_hangs_may_take_longer_than_the_budget(stage: Callable[..., Stage]) -> None:
    at = stage(HarnessError("the broker is gone"))
    at.is_serving = False
    at.run.explore(SOUND)
    (start,) = (one for one in at.phases if one.what.startswith("starting the broker again"))
    assert start.until_s == pytest.approx(start.at_s + served_broker.START_AT_MOST_S, abs=0.01)


def test_a_broker_that_cannot_be_restarted_on_its_data_is_replaced_and_the_run_goes_on(
    stage: Callable[..., Stage],
) -> None:
    at = stage(HarnessError("the broker is gone"), is_replaceable=True)
    at.is_serving = at.comes_back = False
    at.run.explore(SOUND)
    assert at.new_brokers == 1
    assert at.performed > 0
    assert at.harness_errors == []


def test_an_interrupt_is_formatted_without_the_functions_that_it_interrupted() -> None:
    """Each is parsed, which took longer than the grace of an engine on busy cores."""
    with pytest.raises(KeyboardInterrupt) as interrupt:
        deep(30)
    where = interrupt.getrepr(funcargs=True).reprcrash
    plugin.pytest_keyboard_interrupt(interrupt)
    formatted = interrupt.getrepr(funcargs=True)
    assert len(formatted.reprtraceback.reprentries) == 1
    assert str(formatted.reprcrash) == str(where)


def deep(calls: int) -> None:
    if not calls:
        raise KeyboardInterrupt
    deep(calls - 1)
