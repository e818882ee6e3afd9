"""How an example is finished: what settles unknown outcomes, and what nobody can settle any more."""

from __future__ import annotations

import random

import pytest

from conformance.lockstep.lockstep import BARRIER, Lockstep
from model.example import Example
from model.operations import AnyOperation, CrashProducer, CreateTopic, OpenProducer, ReadLog, Send, Terminate
from model.vocabulary import Entry, Message
from tests.lockstep.simulated.world import SimulatedPerformer

UNANSWERED = (
    CreateTopic("t0"),
    OpenProducer("s1", "t0", "p0"),
    Send("s1", (Entry((Message(1, "b1"),)),), wait=False),
    CrashProducer("s1"),
)


@pytest.mark.parametrize(("then", "is_settled"), [((), True), ((Terminate("t0"),), False)], ids=["open", "terminated"])
def test_producers_with_unknown_outcomes_return_unless_their_topic_is_terminated(
    then: tuple[AnyOperation, ...], *, is_settled: bool
) -> None:
    lockstep = Lockstep(SimulatedPerformer(random.Random(1)), Example())
    for operation in (*UNANSWERED, *then):
        lockstep.do(operation)
    chosen = len(lockstep.steps)
    lockstep.finish()
    finishing = [step.operation for step in lockstep.steps[chosen:]]
    opened = {one.producer for one in finishing if isinstance(one, OpenProducer)}
    assert opened == ({"p0", BARRIER} if is_settled else set())
    assert ReadLog("t0") in finishing
