"""``replay --shorten``: a history that a user brings is made short as those are that the machines find."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from conformance import events
from conformance.brokers.interface import Capability
from conformance.engine import rounds, run
from conformance.engine.plan import Plan
from conformance.history import document
from conformance.history.document import History, Step
from conformance.lockstep.performer import Performed
from conformance.lockstep.world import World
from model.events import Done, LogRead
from model.operations import AnyOperation, CreateTopic, OpenProducer, ReadLog, Send
from model.vocabulary import Entry, Message
from tests.engine.lanes.simulated_lanes import NothingMissing
from tests.lockstep.simulated.world import SimulatedPerformer

OPERATIONS: tuple[AnyOperation, ...] = (
    CreateTopic("t0"),
    CreateTopic("t1"),
    OpenProducer("s0", "t0", "p0"),
    OpenProducer("s1", "t1", "p0"),
    Send("s0", (Entry((Message(1, "b1"),)),)),
    Send("s1", (Entry((Message(1, "b2"),)),)),
)


class Losing(SimulatedPerformer):
    """The log of one topic loses its messages."""

    def __init__(self, _: object) -> None:
        super().__init__(random.Random(1))

    def perform(self, operation: AnyOperation) -> Performed:
        done = super().perform(operation)
        is_lost = isinstance(operation, ReadLog) and operation.topic == "t1"
        return Performed(LogRead(()), done.late) if is_lost else done


@pytest.fixture
def shortened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[float | None], list[History]]:
    """The histories that a replay of so many seconds for shortening leaves, made short."""

    def replayed(shortening_s: float | None) -> list[History]:
        monkeypatch.setattr(rounds, "RealPerformer", Losing)
        began = time.monotonic()
        plan = Plan(broker="", seed=1, rules=frozenset(), report=tmp_path, shortening_s=shortening_s)
        broker = SimpleNamespace(
            capabilities=frozenset(Capability), version="4.0.8", configuration={}, is_alive=lambda: True
        )
        world = cast(World, SimpleNamespace(broker=broker, clients={}, settings={}, capabilities=NothingMissing()))
        one = run.Run(plan, world, events.Emitter(tmp_path / "events.jsonl", began=began), began=began)
        steps = tuple(
            Step(operation=operation, outcome=Done(), invoked_ms=0.0, completed_ms=0.0) for operation in OPERATIONS
        )
        history = History(
            machine="by hand", release="4.0.8", broker="", clients={}, seed=1, settings={}, steps=steps, violation=None
        )
        assert {violation.rule for violation in one.replay(history, times=2)} == {"DEDUP-02"}
        return [document.read(path) for path in sorted(tmp_path.glob("*-minimal.json"))]

    return replayed


def test_a_replayed_history_is_made_short_if_that_is_asked_for(
    shortened: Callable[[float | None], list[History]],
) -> None:
    (history,) = shortened(20.0)
    assert {step.operation.topic for step in history.steps if step.operation.topic} == {"t1"}
    assert history.replays is not None
    assert history.replays.came_back == history.replays.tries


def test_a_replayed_history_stays_as_it_is_if_nothing_else_is_asked_for(
    shortened: Callable[[float | None], list[History]],
) -> None:
    assert shortened(None) == []
