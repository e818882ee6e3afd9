"""A request for stats may take longer than the suite waits: what came meanwhile is looked at all the same."""

from __future__ import annotations

import pytest

from conformance.lockstep.chunking import performer as chunking
from conformance.lockstep.chunking.consumers import ChunkConsumer
from conformance.lockstep.real import RealPerformer
from conformance.lockstep.world import World
from conformance.wait import Patience
from model.events import DueReceived, Sent
from model.operations import CreateTopic, OpenProducer, Send
from model.subscription_operations import ReceiveDue, Subscribe
from model.vocabulary import Entry, Message


class Impatient(Patience):
    """Its time is over after the first look, until something comes."""

    looks = 0
    has_come = False

    def progressed(self) -> None:
        self.has_come = True
        super().progressed()

    @property
    def passed(self) -> bool:
        return (Impatient.looks > 0 and not self.has_come) or super().passed


def test_messages_that_come_during_a_slow_request_for_stats_are_received(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_in = ChunkConsumer.take_in

    def nothing_at_first(consumer: ChunkConsumer) -> bool:
        Impatient.looks += 1
        return Impatient.looks > 1 and take_in(consumer)

    performer = RealPerformer(world)
    performer.perform(CreateTopic("t0", "namespace-off", is_chunked=True))
    performer.perform(OpenProducer("p", "t0", "p", client="official"))
    performer.perform(Subscribe("c1", "t0", "s0", kind="Exclusive", client="official", queue=10))
    entries = tuple(Entry((Message(number, f"b{number}"),)) for number in (1, 2, 3))
    assert isinstance(performer.perform(Send("p", entries)).outcome, Sent)
    monkeypatch.setattr(Impatient, "looks", 0)
    monkeypatch.setattr(chunking, "Patience", Impatient)
    monkeypatch.setattr(ChunkConsumer, "take_in", nothing_at_first)
    gathered = performer.perform(ReceiveDue("t0", "s0")).outcome
    performer.close()
    assert isinstance(gathered, DueReceived)
    (traffic,) = gathered.traffic
    assert len(traffic.received) == len(entries)
