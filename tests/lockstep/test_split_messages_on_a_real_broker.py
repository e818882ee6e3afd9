"""The chunks that pulsar-client makes of a message, as entries of a history, and what is received on their topics."""

from __future__ import annotations

import pytest

from conformance.lockstep.chunking import performer as chunking
from conformance.lockstep.chunking.consumers import ChunkConsumer, pending_after
from conformance.lockstep.real import RealPerformer
from conformance.lockstep.world import World
from conformance.wait import Patience
from model.events import Answer, Cleared, DueReceived, Duplicate, LogRead, Sent, Skipped, Stored
from model.log import Position
from model.operations import ClearFailpoints, CreateTopic, OpenProducer, ReadLog, Send, SetFailpoint, Switch
from model.subscription_operations import ReceiveDue, Subscribe
from model.traffic import CommandFlow, CommandMessage, CommandRedeliver, CommandSubscribe, Part
from model.vocabulary import ChunkNumber, Entry, Message, SubscriptionType
from stateful.cursors.chunks import SplitMessages


@pytest.mark.parametrize("deduplication", ["namespace-off", "namespace-on"])
def test_each_chunk_has_its_name_its_position_and_its_number(world: World, deduplication: Switch) -> None:
    performer = RealPerformer(world)
    performer.perform(CreateTopic("t0", deduplication))
    split = SplitMessages("split", "w", [])
    (opening,) = split.opened()
    performer.perform(opening)
    sends = [split.message(2, key="k"), split.message(4), split.message(4, again=True)]
    sent = [performer.perform(send).outcome for send in sends]
    read = performer.perform(ReadLog("t0")).outcome
    performer.close()
    assert isinstance(read, LogRead)
    answers: list[tuple[Entry, Answer]] = []
    for send, outcome in zip(sends, sent, strict=True):
        assert isinstance(outcome, Sent)
        answers += zip(send.entries, outcome.answers, strict=True)
    stored = {answer.position: entry for entry, answer in answers[:6] if isinstance(answer, Stored)}
    assert len(stored) == 6
    assert [answer.position for _, answer in answers[:6] if isinstance(answer, Stored)] == sorted(stored)
    logged = {one.position: one.entry for one in read.entries}
    assert {position: logged[position] for position in stored} == stored
    assert (Duplicate() in [answer for _, answer in answers[6:]]) == (deduplication == "namespace-on")


def test_a_part_of_a_message_is_not_sent(world: World) -> None:
    performer = RealPerformer(world)
    performer.perform(CreateTopic("t0", "namespace-off"))
    performer.perform(OpenProducer("split", "t0", "w", client="official", is_chunking=True))
    whole = SplitMessages("split", "w", []).message(3)
    for entries in (whole.entries[:2], whole.entries[1:], whole.entries[::-1]):
        assert isinstance(performer.perform(Send("split", entries)).outcome, Skipped)
    performer.close()


@pytest.mark.parametrize(("kind", "pending"), [("Failover", {0}), ("Exclusive", {0}), ("Shared", {0, 1})])
def test_what_was_sent_before_a_redelivery_request_arrived_is_sent_again(
    kind: SubscriptionType, pending: set[int]
) -> None:
    """Seen in an upgrade: the request passed the proxy before two entries that the broker had sent already."""
    first, second = (CommandMessage(Position(1, entry), "p", Part(1, "")) for entry in (0, 1))
    passed = (CommandRedeliver(()), first, second, first)
    assert pending_after((), passed, kind) == {Position(1, entry) for entry in pending}
    assert pending_after((), (*passed, second), kind) == {Position(1, 0), Position(1, 1)}


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


def test_each_chunk_has_a_permit_that_passed_before_it_also_when_reads_are_slow(world: World) -> None:
    performer = RealPerformer(world)
    performer.perform(CreateTopic("t0", "namespace-off", is_chunked=True))
    performer.perform(OpenProducer("p", "t0", "p"))
    chunks = tuple(Entry((Message(1, "u1", chunk=ChunkNumber(number, 3)),)) for number in range(3))
    assert isinstance(performer.perform(Send("p", chunks)).outcome, Sent)
    performer.perform(SetFailpoint("t0", "read-slow", delay_ms=20))
    performer.perform(Subscribe("c1", "t0", "s0", kind="Shared", client="official", queue=1))
    gathered = performer.perform(ReceiveDue("t0", "s0")).outcome
    cleared = performer.perform(ClearFailpoints()).outcome
    performer.close()
    assert isinstance(gathered, DueReceived)
    (traffic,) = gathered.traffic
    permits = [isinstance(one, CommandFlow) - isinstance(one, CommandMessage) for one in traffic.commands]
    assert isinstance(traffic.commands[0], CommandSubscribe)
    assert sum(isinstance(one, CommandMessage) for one in traffic.commands) == len(chunks)
    assert all(sum(permits[:number]) >= 0 for number in range(len(permits) + 1))
    assert world.failpoints is None or (isinstance(cleared, Cleared) and [one.times for one in cleared.fired] == [1])
