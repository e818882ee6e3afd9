"""What the network is asked to do happens, to producers, sources and consumers, and is told as it was."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

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
from model.operations import (
    ClearNetworkFaults,
    CreateTopic,
    FinishSource,
    InjectNetworkFault,
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


class Bench:
    """An example whose producers come through a proxy to topic ``t``, which is deduplicated."""

    def __init__(self, world: World) -> None:
        self.performer = RealPerformer(world)
        for operation, kind in ((UseProxy(), Done), (CreateTopic("t"), Created)):
            assert isinstance(self.performer.perform(operation).outcome, kind)

    def open(self) -> None:
        """A producer comes."""
        assert isinstance(self.performer.perform(OpenProducer("s", "t", "p")).outcome, Opened)

    def disturb(self, fault: NetworkFault) -> None:
        """The network is to do this."""
        assert isinstance(self.performer.perform(InjectNetworkFault("t", fault)).outcome, Done)

    def send(self) -> list[type[Answer]]:
        """What kinds of answers three entries have."""
        outcome = self.performer.perform(Send("s", ENTRIES)).outcome
        assert isinstance(outcome, Sent)
        return [type(answer) for answer in outcome.answers]

    def logged(self) -> list[int]:
        """The sequence ids in the log, once another producer of the name was let in."""
        self.open()
        outcome = self.performer.perform(ReadLog("t")).outcome
        assert isinstance(outcome, LogRead)
        return [logged.entry.lowest for logged in outcome.entries]

    def mend(self) -> int:
        """How often the network did something."""
        outcome = self.performer.perform(ClearNetworkFaults()).outcome
        assert isinstance(outcome, NetworkFaultsCleared)
        return outcome.fired


@pytest.fixture
def bench(world: World) -> Iterator[Bench]:
    """A topic of the test's own."""
    bench = Bench(world)
    yield bench
    bench.performer.close()


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
def test_a_producer_learns_what_came_through_and_the_log_has_what_arrived(
    bench: Bench, fault: NetworkFault, surely: int, perhaps: int, logged: list[int]
) -> None:
    bench.open()
    bench.disturb(fault)
    began = time.monotonic()
    answers = bench.send()
    assert answers[:surely] == [Stored] * surely
    assert answers[perhaps:] == [Unknown] * (3 - perhaps)
    assert not isinstance(fault, Delay) or time.monotonic() - began >= LATE_MS / 1000
    assert bench.mend() >= 1
    arrived = bench.logged()
    # What was sent behind the message whose receipt ends the connection may have come through before that, or not.
    least = 1 if fault == CutAfter(1, to_broker=False) else len(logged)
    assert arrived == logged[: max(least, len(arrived))]


def test_what_is_held_comes_when_an_answer_is_waited_for(bench: Bench) -> None:
    bench.open()
    bench.disturb(Hold("SEND", 2))
    bench.performer.perform(Send("s", ENTRIES, wait=False))
    collected = bench.performer.perform(ReadLog("t"))
    assert [type(answer) for late in collected.late for answer in late.answers] == [Stored] * 3


def test_what_is_held_while_its_topic_is_unloaded_is_not_stored(bench: Bench) -> None:
    bench.open()
    bench.disturb(Hold("SEND", 1))
    bench.performer.perform(Send("s", ENTRIES, wait=False))
    unloaded = bench.performer.perform(Unload("t"))
    assert [type(answer) for late in unloaded.late for answer in late.answers] == [Unknown] * 3
    assert bench.logged() == []


@pytest.mark.parametrize("fault", [RefuseConnections(LATE_MS), CutAt("PRODUCER"), LoseThenCut("PRODUCER_SUCCESS")])
def test_a_producer_that_is_kept_out_comes_in_the_end(bench: Bench, fault: NetworkFault) -> None:
    bench.disturb(fault)
    began = time.monotonic()
    bench.open()
    assert not isinstance(fault, RefuseConnections) or time.monotonic() - began >= LATE_MS / 1000 / 2
    assert bench.mend() >= 1
    assert bench.send() == [Stored] * 3


@pytest.mark.parametrize("client", ["wire", "official"])
@pytest.mark.parametrize(
    "fault", [CutAt("SEND", 2, "within"), LoseThenCut("SEND_RECEIPT", 1, 2), RefuseConnections(LATE_MS), CutAfter(200)]
)
def test_a_source_has_everything_confirmed_and_the_log_has_it_once(
    bench: Bench, client: Client, fault: NetworkFault
) -> None:
    bench.disturb(fault)
    started = bench.performer.perform(StartSource("p", "t", ENTRIES, client=client)).outcome
    assert isinstance(started, SourceStarted)
    ended = bench.performer.perform(FinishSource("p")).outcome
    assert isinstance(ended, SourceEnded)
    assert ([one.sequence_id for one in ended.confirmed], ended.left, ended.stalled) == ([1, 2, 3], 0, 0)
    assert bench.mend() >= 1
    assert bench.logged() == [1, 2, 3]


def test_without_a_proxy_nothing_is_disturbed(world: World) -> None:
    performer = RealPerformer(world)
    performer.perform(CreateTopic("t"))
    outcomes: list[AnyOutcome] = [
        performer.perform(one).outcome for one in (InjectNetworkFault("t", RefuseConnections(1)), ClearNetworkFaults())
    ]
    assert [type(outcome) for outcome in outcomes] == [Skipped, Skipped]
    performer.close()


# ----------------------------------------------------------------------------------------------------------- consumers


def join(stage: Stage, consumer: str = "c") -> None:
    """A consumer comes through a proxy of its own."""
    stage.see(Subscribe(consumer, "t", "s", proxied=True), Subscribed)


@pytest.mark.parametrize(
    ("where", "taken"), [("before", ["1", "2"]), ("within", ["1", "2"]), ("after", ["1", "2", "3"])]
)
def test_a_consumer_that_is_cut_off_has_what_came_before_and_the_next_gets_all(
    stage: Stage, where: str, taken: list[str]
) -> None:
    stage.send(5)
    join(stage)
    outcome = stage.see(CutDuring(Receive("c", 5), CutAt("MESSAGE", 3, where)), ReceivedMessages)  # type: ignore[arg-type]
    assert ids(outcome.messages) == taken
    assert isinstance(stage.do(Receive("c", 1)), Skipped), "it is gone"
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
def test_an_acknowledgment_without_a_receipt_may_have_arrived(
    stage: Stage, fault: CutAt | LoseThenCut, arrives: bool
) -> None:
    stage.send(3)
    join(stage)
    stage.take(3)
    outcome = stage.see(CutDuring(Acknowledge("c", (0, 1)), fault), Acknowledged)
    assert (ids(outcome.messages), outcome.receipt) == (["1", "2"], False)
    assert stage.left() == (["3"] if arrives else ["1", "2", "3"])


def test_one_that_is_cut_off_behind_its_receipt_knows_that_it_has_arrived(stage: Stage) -> None:
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


def test_pulsar_client_is_cut_off_and_comes_back(stage: Stage) -> None:
    stage.send(3)
    stage.subscribe(client="official", queue=10)
    assert stage.take(2) == ["1", "2"]
    stage.see(CutConnection("c"), Done)
    assert set(stage.take(3)) == {"1", "2", "3"}
