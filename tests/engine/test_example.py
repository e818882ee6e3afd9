"""An example that is cut short, because there is no time for what it would do next."""

from __future__ import annotations

import random

from conformance.engine.example import RunningExample
from conformance.lockstep.lockstep import Lockstep
from model.example import Example
from model.operations import CreateTopic, OpenProducer, ReadLog, Restart
from tests.lockstep.simulated import SimulatedPerformer


def test_an_example_without_time_for_what_takes_long_does_nothing_more_and_is_finished() -> None:
    lockstep = Lockstep(SimulatedPerformer(random.Random(1)), Example())
    example = RunningExample(
        lockstep,
        is_time_up=lambda: False,
        on_end=lambda _: None,
        has_time_for=lambda operation: not isinstance(operation, Restart),
    )
    for operation in (CreateTopic("t0"), Restart(), OpenProducer("s1", "t0", "p0")):
        example.do(operation)
    assert example.is_short
    assert [type(step.operation) for step in lockstep.steps] == [CreateTopic]
    example.end()
    assert ReadLog("t0") in [step.operation for step in lockstep.steps]


def test_an_example_whose_time_is_up_is_not_finished() -> None:
    lockstep = Lockstep(SimulatedPerformer(random.Random(1)), Example())
    example = RunningExample(lockstep, is_time_up=lambda: len(lockstep.steps) > 0, on_end=lambda _: None)
    for operation in (CreateTopic("t0"), OpenProducer("s1", "t0", "p0")):
        example.do(operation)
    example.end()
    assert [type(step.operation) for step in lockstep.steps] == [CreateTopic]
