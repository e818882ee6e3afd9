"""The shipped histories, on a real broker: each shows its deviation, reported when it is known, else a violation."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.brokers.select import parse_broker
from conformance.clusters import QUICK
from conformance.engine.plugin import SUITE_SETTINGS
from conformance.engine.run import perform
from conformance.history import document
from conformance.history.document import Violation
from conformance.known import KnownDeviation, shipped
from conformance.lockstep.lockstep import Lockstep
from conformance.lockstep.real import RealPerformer
from conformance.lockstep.world import World
from model.deviations import DEVIATIONS
from model.example import Example

TRIES = 16
"""A real broker is not deterministic; most histories come back nearly always, those of races every third time."""

BESIDE = {
    "read-outlives-consumers": ("replay-outlives-consumers",),
    "rewind-waits-for-news": ("replay-outlives-consumers",),
    "chunk-recovery-counts-unfinished": ("chunk-last-judged",),
    "chunk-buffers-survive": ("chunk-repetition-destroys",),
}
"""Deviations that may come up beside another one, or instead of it: of one race, or one is part of the other."""

SHOWN = [deviation for deviation in shipped() if deviation.history is not None]
each = pytest.mark.parametrize("deviation", [pytest.param(deviation, id=deviation.name) for deviation in SHOWN])


@pytest.fixture(scope="module")
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """A broker as the machines have it: the histories say what happens with their settings."""
    text = request.config.getoption("--broker")
    broker = parse_broker(text, settings=SUITE_SETTINGS)
    broker.start()
    made = World(
        broker,
        run=f"known-{uuid.uuid4().hex[:8]}",
        another=lambda: parse_broker(text, settings={**QUICK, **SUITE_SETTINGS}),
    )
    yield made
    made.close()
    broker.stop()


def replayed(deviation: KnownDeviation, world: World, *known: str) -> tuple[Violation | None, dict[str, int]]:
    """What a replay came to: the rule that it broke, and the known deviations that it met."""
    assert deviation.history is not None
    if not deviation.concerns(world.broker.version):
        pytest.skip(f"{world.broker.version} is not known to deviate so")
    history = document.read(Path(deviation.history))
    lockstep = Lockstep(RealPerformer(world), Example(known=frozenset(known)))
    attempt = perform([step.operation for step in history.steps], lockstep)
    return attempt.violation, dict(lockstep.deviations)


def test_every_deviation_that_the_model_knows_is_on_the_list() -> None:
    assert {deviation.name for deviation in shipped()} == set(DEVIATIONS)


@each
def test_its_history_breaks_its_rule_in_its_name(deviation: KnownDeviation, world: World) -> None:
    for _ in range(TRIES):
        violation, met = replayed(deviation, world, *BESIDE.get(deviation.name, ()))
        assert met.keys() <= set(BESIDE.get(deviation.name, ()))
        if violation is not None:
            break
    assert violation is not None
    assert (violation.rule, violation.deviation) == (deviation.rule, deviation.name)


@each
def test_when_it_is_known_it_is_met_and_nothing_else_is_broken(deviation: KnownDeviation, world: World) -> None:
    for _ in range(TRIES):
        violation, met = replayed(deviation, world, deviation.name, *BESIDE.get(deviation.name, ()))
        assert violation is None, violation
        if deviation.name in met:
            break
    assert deviation.name in met
    assert met.keys() <= {deviation.name, *BESIDE.get(deviation.name, ())}


@each
def test_what_is_shipped_is_what_the_suite_recorded(deviation: KnownDeviation) -> None:
    assert deviation.history is not None
    history = document.read(Path(deviation.history))
    assert history.violation is not None
    assert history.replays is not None
    assert (history.violation.rule, history.violation.deviation) == (deviation.rule, deviation.name)
    assert history.violation.step == len(history.steps)
    assert deviation.concerns(history.release, history.clients)
