"""Machines choose among the clients of a run, and choose the same again with the same seed."""

from __future__ import annotations

import random

from conformance.engine.example import RunningExample
from conformance.engine.execution import run_round
from conformance.engine.machines import Machine
from conformance.lockstep.lockstep import Lockstep
from model.example import Example
from model.operations import AnyOperation, OpenProducer
from model.subscription_operations import Subscribe
from stateful.key_shared.variations import KeysClientsMachine
from tests.lockstep.simulated.world import SimulatedPerformer

JAVA, GO = "java:4.0.8", "go:0.19.0"
MACHINE = Machine(name="one", decides=(), factory=KeysClientsMachine, steps=12, examples=4)


def libraries_for(operation: AnyOperation) -> tuple[str, ...]:
    """Go's client subscribes only."""
    match operation:
        case OpenProducer(client="official"):
            return (JAVA,)
        case Subscribe(client="official"):
            return (JAVA, GO)
        case _:
            return ()


def opened(seed: int, *, is_mixed: bool = True) -> list[OpenProducer | Subscribe]:
    """The producers and consumers of a round, on simulated brokers."""
    found: list[OpenProducer | Subscribe] = []

    def on_end(example: RunningExample) -> None:
        operations = (step.operation for step in example.lockstep.steps)
        found.extend(one for one in operations if isinstance(one, OpenProducer | Subscribe))

    def begin() -> RunningExample:
        lockstep = Lockstep(SimulatedPerformer(random.Random(1)), Example())
        choices = libraries_for if is_mixed else lambda _: ()
        return RunningExample(lockstep, is_time_up=lambda: False, on_end=on_end, libraries_for=choices)

    run_round(MACHINE, begin, seed=seed)
    return found


def test_a_machine_chooses_the_client_of_each_producer_and_consumer_and_a_seed_repeats_it() -> None:
    first = opened(1)
    assert {one.library for one in first if isinstance(one, Subscribe) and one.client == "official"} == {JAVA, GO}
    assert {one.library for one in first if isinstance(one, OpenProducer)} <= {JAVA, None}
    assert {one.library for one in first if one.client == "wire"} == {None}
    assert opened(1) == first
    assert [one.library for one in opened(2)] != [one.library for one in first]


def test_with_one_client_nothing_is_chosen() -> None:
    assert {one.library for one in opened(1, is_mixed=False)} == {None}
