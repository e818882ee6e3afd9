"""An example that is cut short, because there is no time for what it would do next."""

from __future__ import annotations

import random
from itertools import pairwise

from hypothesis import strategies as st
from hypothesis.stateful import rule

from conformance.engine.catalogue import DESCRIPTIONS, ROUND_AT_MOST
from conformance.engine.example import RunningExample
from conformance.engine.execution import run_round
from conformance.engine.machines import Machine
from conformance.lockstep.lockstep import Lockstep
from model.example import Example
from model.operations import CreateTopic, OpenProducer, ReadLog, Restart
from stateful.lockstep_machine import LockstepMachine
from tests.lockstep.simulated.world import SimulatedPerformer


def test_an_example_without_time_for_a_long_operation_stops_and_is_finished() -> None:
    lockstep = Lockstep(SimulatedPerformer(random.Random(1)), Example())
    example = RunningExample(
        lockstep,
        is_time_up=lambda: False,
        on_end=lambda _: None,
        has_time_for=lambda _, operation: not isinstance(operation, Restart),
    )
    for operation in (CreateTopic("t0"), Restart(), OpenProducer("s1", "t0", "p0")):
        example.do(operation)
    assert example.is_short
    assert [type(step.operation) for step in lockstep.steps] == [CreateTopic]
    example.end()
    assert ReadLog("t0") in [step.operation for step in lockstep.steps]


def test_an_example_whose_time_is_over_is_not_finished() -> None:
    lockstep = Lockstep(SimulatedPerformer(random.Random(1)), Example())
    example = RunningExample(lockstep, is_time_up=lambda: len(lockstep.steps) > 0, on_end=lambda _: None)
    for operation in (CreateTopic("t0"), OpenProducer("s1", "t0", "p0")):
        example.do(operation)
    example.end()
    assert [type(step.operation) for step in lockstep.steps] == [CreateTopic]


def test_an_example_without_time_to_finish_is_not_finished() -> None:
    lockstep = Lockstep(SimulatedPerformer(random.Random(1)), Example())
    example = RunningExample(
        lockstep, is_time_up=lambda: False, on_end=lambda _: None, has_time_to_finish=lambda _: False
    )
    example.do(CreateTopic("t0"))
    example.end()
    assert [type(step.operation) for step in lockstep.steps] == [CreateTopic]


class _Creating(LockstepMachine):
    """Creates topics, whose names it chooses."""

    @rule(number=st.integers(0, 1_000_000))
    def create(self, number: int) -> None:
        self.do(CreateTopic(f"t{number}"))


def created_in(rounds: int, *, steps: int, examples: int) -> list[list[str]]:
    """The topics that each example of so many rounds creates."""
    performed: list[list[str]] = []

    def ended(example: RunningExample) -> None:
        made = (step.operation for step in example.lockstep.steps)
        performed.append([one.topic for one in made if isinstance(one, CreateTopic)])

    def begin() -> RunningExample:
        lockstep = Lockstep(SimulatedPerformer(random.Random(1)), Example())
        return RunningExample(lockstep, is_time_up=lambda: False, on_end=ended)

    machine = Machine(name="creating", decides=(), factory=_Creating, steps=steps, examples=examples)
    for seed in range(rounds):
        run_round(machine, begin, seed=seed)
    return performed


def test_rounds_of_one_example_do_not_repeat_the_simplest_one() -> None:
    performed = created_in(10, steps=3, examples=1)
    assert len(performed) == 10
    assert [names for names in performed if names and set(names) != {"t0"}]
    assert len({tuple(names) for names in performed}) > 5


def test_no_example_of_a_round_is_mostly_the_simplest_or_a_change_of_an_earlier_one() -> None:
    performed = created_in(20, steps=4, examples=ROUND_AT_MOST)
    assert len(performed) == 20 * ROUND_AT_MOST
    assert not [names for names in performed if names[1:] == ["t0"] * 3]
    assert not [names for before, names in pairwise(performed) if len(set(before) & set(names)) > 1]


def test_no_round_of_a_machine_is_longer() -> None:
    assert max(description.examples for description in DESCRIPTIONS) == ROUND_AT_MOST
