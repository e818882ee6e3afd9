"""Network faults are injected for producers, sources and consumers, and their outcomes are recorded; so is a kill after
which the broker does not run, or clusters beside it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from conformance.harness_error import NotReady
from conformance.lockstep.lockstep import Lockstep, RuleBroken
from conformance.lockstep.real import RealPerformer
from conformance.lockstep.world import World
from model.events import (
    Acknowledged,
    Answer,
    AnyOutcome,
    Created,
    Done,
    LogRead,
    NetworkFaultsCleared,
    Opened,
    ReceivedMessages,
    Sent,
    Skipped,
    SourceEnded,
    SourceStarted,
    Stored,
    Subscribed,
    Unknown,
)
from model.example import Example
from model.operations import (
    ClearNetworkFaults,
    CreateTopic,
    FinishSource,
    InjectNetworkFault,
    Kill,
    OpenProducer,
    ReadLog,
    Send,
    StartSource,
    Unload,
    UseProxy,
)
from model.subscription_operations import Acknowledge, CutConnection, CutDuring, Receive, Subscribe
from model.vocabulary import (
    Client,
    CutAfter,
    CutAt,
    Delay,
    Entry,
    Hold,
    LoseThenCut,
    Message,
    NetworkFault,
    RefuseConnections,
)
from tests.lockstep.cursor_stage import Stage, ids

ENTRIES = tuple(Entry((Message(number, f"b{number}"),)) for number in (1, 2, 3))
LATE_MS = 300


class DisturbedTopic:
    """An example whose producers connect through a proxy to topic ``t``, which has deduplication."""

    def __init__(self, world: World) -> None:
        self.performer = RealPerformer(world)
        for operation, kind in ((UseProxy(), Done), (CreateTopic("t"), Created)):
            assert isinstance(self.performer.perform(operation).outcome, kind)

    def open(self) -> None:
        """Open the producer."""
        assert isinstance(self.performer.perform(OpenProducer("s", "t", "p")).outcome, Opened)

    def disturb(self, fault: NetworkFault) -> None:
        """Inject a network fault."""
        assert isinstance(self.performer.perform(InjectNetworkFault("t", fault)).outcome, Done)

    def send(self) -> list[type[Answer]]:
        """The types of the answers to three entries."""
        outcome = self.performer.perform(Send("s", ENTRIES)).outcome
        assert isinstance(outcome, Sent)
        return [type(answer) for answer in outcome.answers]

    def logged(self) -> list[int]:
        """The sequence ids in the log, once another producer of the name is connected."""
        self.open()
        outcome = self.performer.perform(ReadLog("t")).outcome
        assert isinstance(outcome, LogRead)
        return [logged.entry.lowest for logged in outcome.entries]

    def mend(self) -> int:
        """Clear the faults, and return how often they took effect."""
        outcome = self.performer.perform(ClearNetworkFaults()).outcome
        assert isinstance(outcome, NetworkFaultsCleared)
        return outcome.fired


@pytest.fixture
def topic(world: World) -> Iterator[DisturbedTopic]:
    """A topic of the test's own."""
    topic = DisturbedTopic(world)
    yield topic
    topic.performer.close()


@pytest.mark.parametrize(
    ("fault", "surely", "perhaps", "logged"),
    [
        (CutAt("SEND", 2, "before"), 0, 1, [1]),
        (CutAt("SEND", 2, "within"), 0, 1, [1]),
        (CutAt("SEND", 3, "after"), 0, 3, [1, 2, 3]),
        (LoseThenCut("SEND_RECEIPT", 2, 2), 1, 1, [1, 2, 3]),
        (LoseThenCut("SEND_RECEIPT", 2, 9), 1, 1, [1, 2, 3]),
        (CutAfter(1), 0, 0, []),
        (CutAfter(1, to_broker=False), 0, 0, [1, 2, 3]),
        (Delay("SEND_RECEIPT", 2, LATE_MS), 3, 3, [1, 2, 3]),
    ],
)
def test_a_producer_gets_the_receipts_that_passed_and_the_log_has_the_entries_that_arrived(
    topic: DisturbedTopic, fault: NetworkFault, surely: int, perhaps: int, logged: list[int]
) -> None:
    topic.open()
    topic.disturb(fault)
    began = time.monotonic()
    answers = topic.send()
    assert answers[:surely] == [Stored] * surely
    assert answers[perhaps:] == [Unknown] * (3 - perhaps)
    assert not isinstance(fault, Delay) or time.monotonic() - began >= LATE_MS / 1000
    assert topic.mend() >= 1
    arrived = topic.logged()
    # An entry after the message whose receipt ends the connection may have passed before that, or not. A broker that
    # writes a receipt to a closed connection closes it, too, and drops what it has not read yet.
    is_open_ended = fault in (CutAfter(1, to_broker=False), CutAt("SEND", 3, "after"))
    least = max(1, answers.count(Stored)) if is_open_ended else len(logged)
    assert arrived == logged[: max(least, len(arrived))]


def test_delayed_entries_are_released_when_an_answer_is_awaited(topic: DisturbedTopic) -> None:
    topic.open()
    topic.disturb(Hold("SEND", 2))
    topic.performer.perform(Send("s", ENTRIES, wait=False))
    collected = topic.performer.perform(ReadLog("t"))
    assert [type(answer) for late in collected.late for answer in late.answers] == [Stored] * 3


def test_entries_delayed_until_their_topic_is_unloaded_are_not_stored(topic: DisturbedTopic) -> None:
    topic.open()
    topic.disturb(Hold("SEND", 1))
    topic.performer.perform(Send("s", ENTRIES, wait=False))
    unloaded = topic.performer.perform(Unload("t"))
    assert [type(answer) for late in unloaded.late for answer in late.answers] == [Unknown] * 3
    assert topic.logged() == []


@pytest.mark.parametrize("fault", [RefuseConnections(LATE_MS), CutAt("PRODUCER"), LoseThenCut("PRODUCER_SUCCESS")])
def test_a_producer_that_is_refused_connects_in_the_end(topic: DisturbedTopic, fault: NetworkFault) -> None:
    topic.disturb(fault)
    began = time.monotonic()
    topic.open()
    assert not isinstance(fault, RefuseConnections) or time.monotonic() - began >= LATE_MS / 1000 / 2
    assert topic.mend() >= 1
    assert topic.send() == [Stored] * 3


@pytest.mark.parametrize("client", ["wire", "official"])
@pytest.mark.parametrize(
    "fault", [CutAt("SEND", 2, "within"), LoseThenCut("SEND_RECEIPT", 1, 2), RefuseConnections(LATE_MS), CutAfter(200)]
)
def test_a_source_has_everything_confirmed_and_the_log_has_it_once(
    topic: DisturbedTopic, client: Client, fault: NetworkFault
) -> None:
    topic.disturb(fault)
    started = topic.performer.perform(StartSource("p", "t", ENTRIES, client=client)).outcome
    assert isinstance(started, SourceStarted)
    ended = topic.performer.perform(FinishSource("p")).outcome
    assert isinstance(ended, SourceEnded)
    assert ([one.sequence_id for one in ended.confirmed], ended.left, ended.stalled) == ([1, 2, 3], 0, 0)
    assert topic.mend() >= 1
    assert topic.logged() == [1, 2, 3]


def test_without_a_proxy_no_network_fault_is_injected(world: World) -> None:
    performer = RealPerformer(world)
    performer.perform(CreateTopic("t"))
    outcomes: list[AnyOutcome] = [
        performer.perform(one).outcome for one in (InjectNetworkFault("t", RefuseConnections(1)), ClearNetworkFaults())
    ]
    assert [type(outcome) for outcome in outcomes] == [Skipped, Skipped]
    performer.close()


# ----------------------------------------------------------------------------------------------------------- consumers


def join(stage: Stage, consumer: str = "c") -> None:
    """A consumer subscribes through its own proxy."""
    stage.see(Subscribe(consumer, "t", "s", proxied=True), Subscribed)


@pytest.mark.parametrize(
    ("where", "taken"), [("before", ["1", "2"]), ("within", ["1", "2"]), ("after", ["1", "2", "3"])]
)
def test_a_disconnected_consumer_keeps_the_messages_before_the_cut_and_the_next_receives_all(
    stage: Stage, where: str, taken: list[str]
) -> None:
    stage.send(5)
    join(stage)
    outcome = stage.see(CutDuring(Receive("c", 5), CutAt("MESSAGE", 3, where)), ReceivedMessages)  # type: ignore[arg-type]
    assert ids(outcome.messages) == taken
    assert isinstance(stage.do(Receive("c", 1)), Skipped), "it is disconnected"
    join(stage, "d")
    assert stage.take(5, "d") == ["1", "2", "3", "4", "5"]


@pytest.mark.parametrize(
    ("fault", "arrives"),
    [
        (CutAt("ACK"), False),
        (CutAt("ACK", where="within"), False),
        (LoseThenCut("ACK"), False),
        (LoseThenCut("ACK_RESPONSE"), True),
        (CutAt("ACK_RESPONSE"), True),
    ],
)
def test_an_ack_without_a_receipt_may_have_arrived(stage: Stage, fault: CutAt | LoseThenCut, arrives: bool) -> None:
    stage.send(3)
    join(stage)
    stage.take(3)
    outcome = stage.see(CutDuring(Acknowledge("c", (0, 1)), fault), Acknowledged)
    assert (ids(outcome.messages), outcome.receipt) == (["1", "2"], False)
    assert stage.left() == (["3"] if arrives else ["1", "2", "3"])


def test_a_consumer_cut_off_after_its_receipt_knows_that_the_ack_arrived(stage: Stage) -> None:
    stage.send(3)
    join(stage)
    stage.take(3)
    assert stage.see(CutDuring(Acknowledge("c", (0,)), CutAt("ACK_RESPONSE", where="after")), Acknowledged).receipt
    assert stage.left() == ["2", "3"]


def test_a_consumer_without_a_proxy_is_not_cut_off(stage: Stage) -> None:
    stage.send(1)
    stage.subscribe()
    assert isinstance(stage.do(CutDuring(Receive("c", 1), CutAt("MESSAGE"))), Skipped)
    assert isinstance(stage.do(CutConnection("c")), Skipped)
    assert stage.take(1) == ["1"]


def test_pulsar_client_reconnects_after_a_cut(stage: Stage) -> None:
    stage.send(3)
    stage.subscribe(client="official", queue=10)
    assert stage.take(2) == ["1", "2"]
    stage.see(CutConnection("c"), Done)
    assert set(stage.take(3)) == {"1", "2", "3"}


def test_a_broker_that_does_not_run_again_after_a_kill_breaks_a_rule(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ends() -> None:
        raise NotReady("The broker ended with status 1 instead of being ready.")

    example = Lockstep(RealPerformer(world), Example())
    try:
        example.do(CreateTopic("t0"))
        monkeypatch.setattr(world.broker, "start", ends)
        with pytest.raises(RuleBroken) as broken:
            example.do(Kill())
        assert broken.value.violation.rule == "SERVE-02"
        assert not world.is_serving()
    finally:
        monkeypatch.undo()
        world.start_again()
    assert world.is_serving()


def test_clusters_that_are_gone_end_and_the_broker_runs_on(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []
    gone = SimpleNamespace(gone=lambda: ["B"], close=lambda: ended.append("clusters"))
    monkeypatch.setattr(world, "_replication", gone)
    assert not world.is_serving()
    monkeypatch.setattr(world.broker, "kill", lambda: ended.append("the broker"))
    world.start_again()
    assert ended == ["clusters"]
    assert not world.has_clusters
    assert world.is_serving()
