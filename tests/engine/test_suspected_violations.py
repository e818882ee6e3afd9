"""A violation that does not come back is replayed at the end of a run, after all machines, until enough is known."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis.stateful import rule

from conformance import events
from conformance.brokers.interface import Capability
from conformance.engine import findings, rounds, run
from conformance.engine.machines import Machine
from conformance.engine.plan import Plan
from conformance.engine.shortener.broker_search import FINAL_REPLAYS, PATIENCE
from conformance.history.document import ENOUGH_REPLAYS
from conformance.lockstep.performer import Performed
from conformance.lockstep.world import World
from model.events import LogRead
from model.operations import AnyOperation, CreateTopic, OpenProducer, ReadLog, Send
from model.vocabulary import Entry, Message
from stateful.lockstep_machine import LockstepMachine
from tests.engine.lanes.simulated_lanes import NothingMissing
from tests.lockstep.simulated.world import SimulatedPerformer
from tests.waits import eventually

BUDGET_S = 1.0
"""A budget for one example, and for thirty replays, where nothing takes any time."""

Told = list[events.AnyEvent]


class Sending(LockstepMachine):
    """Sends one message, which must be found in the log at the end."""

    @rule()
    def send(self) -> None:
        self.do(CreateTopic("t0"))
        self.do(OpenProducer("s1", "t0", "p0"))
        self.do(Send("s1", (Entry((Message(1, "b1"),)),)))


@pytest.fixture
def told_by(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Told]:
    """What a run tells in which the log loses the message in these examples, counted from 0, replays included."""

    def told_by(
        *lossy: int,
        budget_s: float | None = None,
        on_top_s: float = 60.0,
        examples: int = 1,
        interrupted: bool = False,
    ) -> Told:
        performers = 0

        class Losing(SimulatedPerformer):
            def __init__(self, _: object) -> None:
                nonlocal performers
                super().__init__(random.Random(1))
                self.number = performers
                performers += 1

            def perform(self, operation: AnyOperation) -> Performed:
                done = super().perform(operation)
                if isinstance(operation, ReadLog) and self.number in lossy:
                    return Performed(LogRead(()), done.late)
                return done

        monkeypatch.setattr(rounds, "RealPerformer", Losing)
        monkeypatch.setattr(findings, "on_top_s", lambda _: on_top_s)
        began = time.monotonic()
        plan = Plan(broker="", seed=1, rules=frozenset(), report=tmp_path, budget_s=budget_s)
        broker = SimpleNamespace(
            capabilities=frozenset(Capability), version="4.0.8", configuration={}, is_alive=lambda: True
        )
        world = cast(World, SimpleNamespace(broker=broker, clients={}, settings={}, capabilities=NothingMissing()))
        kept = tmp_path / "events.jsonl"
        kept.unlink(missing_ok=True)
        one = run.Run(plan, world, events.Emitter(kept, began=began), began=began)
        machine = Machine(name="sending", decides=(), factory=Sending, steps=1, examples=examples)
        one.expect([machine])
        one.explore(machine)
        if interrupted:
            eventually(lambda: budget_s is None or time.monotonic() >= began + budget_s)
            one.interrupt()
        one.settle_doubts()
        return [events.decode(line) for line in kept.read_bytes().splitlines()]

    return told_by


def replays(told: Told) -> list[tuple[int, int]]:
    return [(one.tries, one.came_back) for one in told if isinstance(one, events.ViolationMinimised)]


def test_a_violation_that_does_not_come_back_is_replayed_thirty_times(told_by: Callable[..., Told]) -> None:
    told = told_by(0)
    assert replays(told) == [(PATIENCE, 0), (ENOUGH_REPLAYS, 0)]
    last = [one for one in told if isinstance(one, events.ViolationMinimised)][-1]
    assert (last.broke_in, last.checked_in) == (1, 1)
    phases = [one for one in told if isinstance(one, events.Phase) and one.until_s is not None]
    assert len(phases) == 1
    assert "did not come back yet" in phases[0].what


def test_a_violation_is_replayed_until_it_comes_back(told_by: Callable[..., Told]) -> None:
    tries, came_back = replays(told_by(0, 20))[-1]
    assert came_back == 1
    assert PATIENCE < tries < ENOUGH_REPLAYS


def test_replays_of_suspected_violations_may_exceed_the_budget_by_a_limit(told_by: Callable[..., Told]) -> None:
    assert replays(told_by(0, budget_s=BUDGET_S))[-1] == (ENOUGH_REPLAYS, 0)
    assert replays(told_by(0, budget_s=BUDGET_S, on_top_s=-BUDGET_S))[-1:] != [(ENOUGH_REPLAYS, 0)]


def test_another_example_with_the_same_violation_counts(told_by: Callable[..., Told]) -> None:
    """The second example of the run breaks the rule as well; it is counted, and replayed in turn with the first."""
    told = told_by(0, 1, examples=3)
    last = [one for one in told if isinstance(one, events.ViolationMinimised)][-1]
    assert (last.broke_in, last.checked_in) == (2, 3)
    assert (last.tries, last.came_back) == (ENOUGH_REPLAYS, 0)


def test_a_violation_that_always_comes_back_is_not_replayed_again(told_by: Callable[..., Told]) -> None:
    told = told_by(*range(100))
    assert replays(told) == [(FINAL_REPLAYS, FINAL_REPLAYS)]
    assert not any(isinstance(one, events.Phase) and one.until_s for one in told)


def test_an_interrupted_run_replays_nothing_more(told_by: Callable[..., Told]) -> None:
    told = told_by(0, interrupted=True)
    assert replays(told) == [(PATIENCE, 0)]
    assert not any(isinstance(one, events.Phase) and one.until_s for one in told)


def test_a_run_that_is_interrupted_because_its_time_is_up_replays_what_did_not_come_back(
    told_by: Callable[..., Told],
) -> None:
    assert replays(told_by(0, interrupted=True, budget_s=BUDGET_S))[-1] == (ENOUGH_REPLAYS, 0)
