"""How an example is finished: what settles unknown outcomes, and what nobody can settle any more."""

from __future__ import annotations

import random

import pytest

from conformance.lockstep.lockstep import BARRIER, Lockstep
from conformance.lockstep.real import RealPerformer
from conformance.lockstep.world import World
from model.events import Sent
from model.example import Example
from model.operations import AnyOperation, CrashProducer, CreateTopic, OpenProducer, ReadLog, Send, Terminate
from model.subscription_operations import Subscribe
from model.vocabulary import Entry, Message
from tests.lockstep.simulated.world import SimulatedPerformer
from tests.waits import eventually

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


def test_the_topics_of_an_example_are_gone_soon_after_its_end_and_no_others(world: World) -> None:
    ended, running = RealPerformer(world), RealPerformer(world)
    namespace = world.namespaces.of_switch("namespace-on")
    before = set(world.admin.topics(namespace))
    for performer in (ended, running):
        performer.perform(CreateTopic("t", deduplication="namespace-on"))
        performer.perform(Subscribe("c", "t", "s", kind="Shared"))
        performer.perform(OpenProducer("p", "t", "p"))
        performer.perform(Send("p", (Entry((Message(1, "m"),)),)))
    both = set(world.admin.topics(namespace)) - before
    assert len(both) == 2
    ended.close()
    eventually(lambda: len(both & set(world.admin.topics(namespace))) == 1)
    assert isinstance(running.perform(Send("p", (Entry((Message(2, "n"),)),))).outcome, Sent)
    running.close()
    eventually(lambda: not both & set(world.admin.topics(namespace)))


def test_a_namespace_of_one_topic_goes_with_it(world: World) -> None:
    performer = RealPerformer(world)
    tenant, _, _ = world.namespaces.of_switch("namespace-on").partition("/")
    before = set(world.admin.namespaces(tenant))
    performer.perform(CreateTopic("t", deduplication="own-namespace-on"))
    own = set(world.admin.namespaces(tenant)) - before
    assert len(own) == 1
    performer.close()
    eventually(lambda: not own & set(world.admin.namespaces(tenant)))
