"""The topics of an example that has ended are deleted while the run goes on."""

from __future__ import annotations

from conformance.lockstep.real import RealPerformer
from conformance.lockstep.world import World
from model.events import Sent
from model.operations import CreateTopic, OpenProducer, Send
from model.subscription_operations import Subscribe
from model.vocabulary import Entry, Message
from tests.waits import eventually


def test_the_topics_of_an_example_are_gone_soon_after_its_end_and_no_others(world: World) -> None:
    ended, running = RealPerformer(world), RealPerformer(world)
    namespace = world.namespace_for("namespace-on")
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
    tenant, _, _ = world.namespace_for("namespace-on").partition("/")
    before = set(world.admin.namespaces(tenant))
    performer.perform(CreateTopic("t", deduplication="own-namespace-on"))
    own = set(world.admin.namespaces(tenant)) - before
    assert len(own) == 1
    performer.close()
    eventually(lambda: not own & set(world.admin.namespaces(tenant)))
