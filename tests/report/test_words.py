"""Histories as sentences."""

from __future__ import annotations

from typing import get_args

import msgspec
import pytest

from conformance.report.sentences.lists import LISTED_AT_MOST
from conformance.report.sentences.participants import BROKER, SUITE
from conformance.report.sentences.results import Tone
from conformance.report.sentences.words import LeftOut, actors, cut, explain
from model.events import (
    Abandoned,
    Acknowledged,
    AllReceived,
    AnyOutcome,
    Cleared,
    Confirmed,
    Consumed,
    ConsumerRead,
    Created,
    CursorRead,
    CursorReset,
    DatabaseRead,
    DeduplicationSet,
    Delivery,
    Done,
    Drained,
    DrainingHash,
    DueReceived,
    Duplicate,
    Expired,
    Fired,
    Late,
    LoggedEntry,
    LogRead,
    MessagePeeked,
    NetworkFaultsCleared,
    NotPersisted,
    Opened,
    Persisted,
    PolicyIgnored,
    Ran,
    Range,
    ReceivedMessages,
    RedeliveryRequested,
    RedeliveryTimes,
    Refused,
    Sent,
    Skipped,
    SnapshotRead,
    SourceEnded,
    SourceStarted,
    Starved,
    Stored,
    StoredCursorRead,
    Stuck,
    Subscribed,
    Trimmed,
    Unknown,
)
from model.failpoints import FailpointKind
from model.log import Position
from model.operations import (
    AnyOperation,
    ClearFailpoints,
    ClearNetworkFaults,
    CloseProducer,
    Consume,
    CrashProducer,
    CrashSource,
    CreateTopic,
    Death,
    Drain,
    FinishSource,
    GoesOn,
    InjectNetworkFault,
    Kill,
    OpenProducer,
    Point,
    ReadDatabase,
    ReadLog,
    ReadSnapshot,
    Restart,
    RunReader,
    RunSubscriber,
    Send,
    SetDeduplication,
    SetFailpoint,
    StartSource,
    Switch,
    Terminate,
    Then,
    Trim,
    Unload,
    UseProxy,
)
from model.service.unexpected import Closed, ErrorAnswer, Overdue, Silence, Unexpected
from model.subscription_operations import (
    AckById,
    Acknowledge,
    AwaitPersisted,
    CloseConsumer,
    CrashConsumer,
    CreateSubscription,
    CutConnection,
    CutDuring,
    DeleteSubscription,
    Expire,
    Nack,
    NackRepeatedly,
    PeekMessage,
    Permit,
    ReadCursor,
    ReadStoredCursor,
    Receive,
    ReceiveAll,
    ReceiveDue,
    ResetCursor,
    Seek,
    Skip,
    SkipAll,
    Subscribe,
)
from model.vocabulary import CutAt, LoseThenCut, Persistence, Start
from tests.report import chunks_told, replication_samples
from tests.report.samples import STEPS, answers, entry, history, step

OPENED = step(OpenProducer("s1", "t0", "p0"), Opened(4))
SUBSCRIBED = step(Subscribe("c1", "t0", "sub"), Subscribed())
B4 = Delivery(Position(3, 0), -1, 0, "b4", 0)
B5 = Delivery(Position(3, 1), 0, 2, "b5", 2)

TOLD_OPERATIONS: list[tuple[AnyOperation, str]] = [
    (
        CreateTopic("t0", "own-namespace-off"),
        "the suite creates topic t0, in a namespace of its own that disables deduplication.",
    ),
    (OpenProducer("s1", "t0", "p0", "official"), "producer p0 (session s1, pulsar-client) is created on topic t0."),
    (CloseProducer("s1"), "producer p0 (session s1, wire client) closes."),
    (
        CrashProducer("s1"),
        "producer p0 (session s1, wire client) crashes: its connection closes without CloseProducer.",
    ),
    (Send("s1", (entry(4),)), "producer p0 (session s1, wire client) sends 4 (b4)."),
    (
        SetDeduplication("t0", "topic", on=False),
        "the suite disables deduplication of topic t0, by a policy of the topic.",
    ),
    (Unload("t0"), "the broker unloads topic t0; the next look-up reloads it."),
    (Restart(), "the broker restarts gracefully on the same data."),
    (
        Restart(deduplication=False),
        "the broker restarts gracefully on the same data, with deduplication off for topics without a policy.",
    ),
    (Kill(), "the broker is killed (SIGKILL) and restarts on the same data."),
    (
        SetFailpoint("t0", "write-slow", 2, 50),
        "the broker has a failpoint on topic t0, 2 times: "
        "an entry is stored, but its write completes late, by 50 ms (write-slow).",
    ),
    (
        SetFailpoint("t0", "write-fails", spared=2),
        "the broker has a failpoint on topic t0, once, after 2 writes that succeed: "
        "a write fails before anything is stored (write-fails).",
    ),
    (ClearFailpoints(), "the broker clears its failpoints."),
    (ReadSnapshot("t0"), "the suite reads the stored deduplication snapshot of topic t0."),
    (ReadLog("t0"), "the suite reads the log of topic t0."),
    (
        StartSource("a", "t0", (entry(3), entry(4, 5)), back=1),
        "source a starts on topic t0 (wire client), resumes after its last confirmed message, "
        "sends its last confirmed entry again, and sends 3 (b3), batch 4..5 (b4, b5).",
    ),
    (FinishSource("a"), "source a sends again until everything is confirmed, and closes."),
    (
        CrashSource("a", 2),
        "source a crashes once 2 entries of this run are confirmed.",
    ),
    (
        Consume("c0", "t0", "sub", 3, acks=(True, False), then="crashes", kind="Shared"),
        "consumer c0 receives up to 3 messages of subscription sub (Shared) of topic t0 with the wire client "
        "and acknowledges messages in turn: yes, no, then crashes.",
    ),
    (
        Drain("t0", "sub"),
        "the suite disconnects all consumers, and receives and acknowledges the backlog of "
        "subscription sub (Exclusive) of topic t0.",
    ),
    (
        RunReader("r", "t0", Death(2, "committed")),
        "program r reads topic t0, storing its last message id and its state in one transaction, "
        "and kills itself at message 2, right after the commit.",
    ),
    (
        RunSubscriber("r", "t0"),
        "program r consumes topic t0, storing business ids and its state in one transaction.",
    ),
    (ReadDatabase("r"), "the suite reads the database of program r."),
    (CreateSubscription("t0", "sub"), "the suite creates subscription sub of topic t0, at the earliest position."),
    (DeleteSubscription("t0", "sub"), "the suite deletes subscription sub of topic t0."),
    (Skip("t0", "sub", 2), "the suite skips the next 2 entries of subscription sub of topic t0."),
    (SkipAll("t0", "sub"), "the suite clears the backlog of subscription sub of topic t0."),
    (Expire("t0", "sub", "b4"), "the suite expires everything up to b4 of subscription sub of topic t0."),
    (ResetCursor("t0", "sub", None), "the suite resets subscription sub of topic t0 to the earliest position."),
    (ReadCursor("t0", "sub"), "the suite reads the state of subscription sub of topic t0."),
    (PeekMessage("t0", "sub", 2), "the suite peeks at unacknowledged entry 2 of subscription sub of topic t0."),
    (ReadStoredCursor("t0", "sub"), "the suite reads subscription sub of topic t0 in the metadata store."),
    (
        NackRepeatedly("t0", 2),
        "a consumer of pulsar-client nacks on a subscription of topic t0 of its own, 2 times with its first message, "
        "and acknowledges all others.",
    ),
    (AwaitPersisted("t0", "sub"), "the suite waits until the state of subscription sub of topic t0 is persisted."),
    (
        ReceiveAll("t0", "sub"),
        "the suite disconnects all consumers, and receives the backlog of subscription sub (Shared) "
        "of topic t0 without acks.",
    ),
    (
        Subscribe("c2", "t0", "sub", "Failover", "official", durable=False, queue=5),
        "consumer c2 (Failover, subscription sub, pulsar-client) subscribes to topic t0, "
        "non-durable, with a receiver queue of 5 messages.",
    ),
    (
        Subscribe("c2", "t0", "sub", "Key_Shared", known_as="x", sticky=((0, 9), (20, 29)), out_of_order=True),
        "consumer c2 (Key_Shared, subscription sub, wire client) subscribes to topic t0, with the consumer name x, "
        "for hashes 0 to 9, 20 to 29, with out-of-order delivery.",
    ),
    (
        Permit("c1", 3),
        "consumer c1 (Shared, subscription sub, wire client) gives the broker permits for 3 more messages.",
    ),
    (
        ReceiveDue("t0", "sub"),
        "the suite waits until the consumers of subscription sub of topic t0 received all that is due.",
    ),
    (CloseConsumer("c1"), "consumer c1 (Shared, subscription sub, wire client) closes."),
    (
        CrashConsumer("c1"),
        "consumer c1 (Shared, subscription sub, wire client) crashes: its connection closes without CloseConsumer.",
    ),
    (Receive("c1", 1), "consumer c1 (Shared, subscription sub, wire client) receives up to 1 message."),
    (
        Acknowledge("c1", (0, 2)),
        "consumer c1 (Shared, subscription sub, wire client) acknowledges what it received as no. 0, 2 "
        "(counted from 0).",
    ),
    (
        CutDuring(Receive("c1", 1), CutAt("MESSAGE")),
        "consumer c1 (Shared, subscription sub, wire client) receives up to 1 message while the network is to cut the "
        "connection before MESSAGE number 1, and then disconnects.",
    ),
    (
        CutConnection("c1"),
        "consumer c1 (Shared, subscription sub, wire client) loses its connection, and reconnects.",
    ),
    (
        AckById("c1", ("b4",), cumulative=True),
        "consumer c1 (Shared, subscription sub, wire client) acknowledges everything up to b4 by message id.",
    ),
    (
        Nack("c1", (1,)),
        "consumer c1 (Shared, subscription sub, wire client) nacks what it received as no. 1 (counted from 0).",
    ),
    (
        Seek("c1", "b4", by_time=True),
        "consumer c1 (Shared, subscription sub, wire client) seeks to b4, by its publish time.",
    ),
    (UseProxy(), "the network leads through a proxy from now on."),
    (
        InjectNetworkFault("t0", CutAt("SEND", 2, "after")),
        "the network will cut the connection after SEND number 2, for producers of topic t0.",
    ),
    (
        InjectNetworkFault("t0", LoseThenCut("SEND_RECEIPT", 1, 3)),
        "the network will lose 3 SEND_RECEIPT from number 1 on, and then cut the connection, "
        "for producers of topic t0.",
    ),
    (ClearNetworkFaults(), "the network has no faults any more."),
    (Terminate("t0"), "the suite terminates topic t0."),
    (Trim("t0"), "the suite trims topic t0."),
    *replication_samples.OPERATIONS,
]

TOLD_OUTCOMES: list[tuple[AnyOutcome, str]] = [
    (Created(deduplication=False, snapshot_room=1), "deduplication is off, a snapshot holds 1 producer"),
    (
        Cleared((Fired("t0", "write-fails", 1), Fired("t1", "write-slow", 0))),
        "write-fails on topic t0 fired once; write-slow on topic t1 fired never",
    ),
    (DeduplicationSet(deduplication=True), "deduplication is on now"),
    (PolicyIgnored("Enabled"), "the broker still reports deduplication as Enabled"),
    (Done(), ""),
    (Skipped("s1 was never opened"), "not performed, because s1 was never opened"),
    (Refused("ProducerBusy", "it is connected"), "refused with ProducerBusy (it is connected)"),
    (Unknown("the connection was cut"), "unknown, because the connection was cut"),
    (Abandoned("the broker refused it"), "given up: the broker refused it"),
    (Stored(Position(3, 1)), "stored at 3:1"),
    (Duplicate(), "the broker confirms it as a duplicate"),
    (Sent((Stored(Position(3, 1)), Duplicate())), "stored at 3:1; the broker confirms it as a duplicate"),
    (Opened(4), "last sequence id 4"),
    (LogRead((LoggedEntry(Position(3, 0), "p0", entry(4, 5)),)), "1 entry: 3:0 p0 batch 4..5 (b4, b5)"),
    (SnapshotRead(Position(3, 0), {"p0": 4}), "taken at 3:0, with p0 at 4"),
    (SourceStarted(-1), "last sequence id -1"),
    (
        SourceEnded((Confirmed(3, Position(3, 0)), Confirmed(4, None)), left=1, came_back=2),
        "confirmed: 3 at 3:0, 4 as a duplicate; 1 entry left unconfirmed; it reconnected 2 times",
    ),
    (
        Consumed(
            (Delivery(Position(3, 0), -1, 0, "b1"), Delivery(Position(3, 1), 0, 0, "b2")),
            (Delivery(Position(3, 0), -1, 0, "b1"),),
        ),
        "2 messages (3:0 b1, 3:1[0] b2); acknowledged: 3:0 b1",
    ),
    (Drained(()), "0 messages; the subscription is drained"),
    (Ran(killed=True, received=3), "killed, after 3 messages"),
    (DatabaseRead((Delivery(Position(3, 0), -1, 0, "b1"),)), "it has applied 1 message (3:0 b1)"),
    (Stuck("nothing came in 30 s"), "stuck: nothing came in 30 s"),
    (Subscribed(), "subscribed"),
    (
        ReceivedMessages((B4, B5), settled=True),
        "2 messages (3:0 b4, 3:1[0] b5 (delivered 2 times before)); the broker dispatched nothing more",
    ),
    (Acknowledged((B4,), receipt=True), "3:0 b4; the broker confirmed it"),
    (RedeliveryRequested((B4,)), "3:0 b4"),
    (
        CursorRead(Position(3, 0), (Range(Position(3, 1), Position(3, 3)),), 4, 2, (ConsumerRead("c1", (B4,), 2),)),
        "mark-delete at 3:0; ranges: (3:1..3:3]; 4 entries in the backlog, 2 messages unacknowledged at consumers; "
        "c1 received 1 message (3:0 b4), and has 2 unacknowledged",
    ),
    (Persisted(12.4, 3), "persisted after 12 ms, 3 entries written in total"),
    (NotPersisted(5000.0), "not persisted within 5000 ms"),
    (CursorReset(Position(3, 0)), "reset to 3:0"),
    (MessagePeeked(Position(3, 1)), "entry 3:1"),
    (MessagePeeked(None), "no such entry"),
    (StoredCursorRead(None), "only the ledger of the cursor"),
    (
        StoredCursorRead(Position(3, 0), (Range(Position(3, 1), Position(3, 2)),)),
        "mark-delete at 3:0; ranges: (3:1..3:2]",
    ),
    (
        RedeliveryTimes(B4, 300.0, (301.2, 305.0), (B4,)),
        "b4 was redelivered after 301, 305 ms (the first delay is 300 ms); 3:0 b4 too",
    ),
    (CursorReset(None), "reset to the earliest position"),
    (Expired(), "done"),
    (Trimmed((3, 7)), "ledgers left: 3, 7"),
    (DueReceived(()), "no consumer is connected"),
    (
        DueReceived((ConsumerRead("c1", (B4,), permits=1, unacknowledged=3, draining=(DrainingHash(7, 2, 1),)),)),
        "c1 got 1 message (3:0 b4) (1 permit left, 3 unacknowledged, draining: 7 for 2)",
    ),
    (AllReceived((B4,)), "1 message (3:0 b4); the cursor has no other message"),
    (NetworkFaultsCleared(2), "network faults fired 2 times"),
    (Starved("nothing came in 10 s", (B4,)), "starved: nothing came in 10 s; only 1 message (3:0 b4) arrived"),
    *replication_samples.OUTCOMES,
]


TOLD_OPERATIONS += chunks_told.OPERATIONS
TOLD_OUTCOMES += chunks_told.OUTCOMES


def sentence(operation: AnyOperation, outcome: AnyOutcome | None = None) -> str:
    return str(explain(history(OPENED, SUBSCRIBED, step(operation, outcome)))[-1])


@pytest.mark.parametrize(("operation", "told"), TOLD_OPERATIONS)
def test_an_operation_has_a_sentence(operation: AnyOperation, told: str) -> None:
    assert sentence(operation) == f"3. {told}"


@pytest.mark.parametrize(("outcome", "told"), TOLD_OUTCOMES)
def test_an_outcome_has_a_sentence(outcome: AnyOutcome, told: str) -> None:
    assert sentence(Kill(), outcome).removeprefix(sentence(Kill())[:-1]).removeprefix(": ") == f"{told}."


def test_every_operation_and_every_outcome_has_a_sentence() -> None:
    assert {type(operation) for operation, _ in TOLD_OPERATIONS} == set(get_args(AnyOperation))
    silent = {type(outcome) for outcome in replication_samples.SILENT}
    assert {type(outcome) for outcome, _ in TOLD_OUTCOMES} | silent == set(get_args(AnyOutcome))


@pytest.mark.parametrize(
    ("unexpected", "told"),
    [
        (
            ErrorAnswer("admin", "GET stats of topic t0", "500", "no ledger"),
            "GET stats of topic t0 is answered with 500 (no ledger)",
        ),
        (
            ErrorAnswer("binary", "a Send", "UnknownError", "why", is_last=False),
            "a Send is first answered with UnknownError (why)",
        ),
        (
            Silence("binary", "Acknowledge of c1", "nothing in 10 s"),
            "Acknowledge of c1 is not answered (nothing in 10 s)",
        ),
        (Closed("c1", "the broker closed the consumer"), "c1 is closed (the broker closed the consumer)"),
        (Overdue("SERVE-04", "the stats do not follow"), "the stats do not follow"),
    ],
)
def test_an_unexpected_observation_follows_the_outcome(unexpected: Unexpected, told: str) -> None:
    observed = msgspec.structs.replace(step(Kill(), Done()), unexpected=(unexpected,))
    (telling,) = explain(history(observed))
    assert str(telling).endswith(f": {told}.")
    assert telling.tone is Tone.REFUSED


@pytest.mark.parametrize("outcome", replication_samples.SILENT)
def test_an_expected_outcome_has_no_sentence(outcome: AnyOutcome) -> None:
    assert sentence(Kill(), outcome) == sentence(Kill())


@pytest.mark.parametrize("kind", get_args(FailpointKind))
def test_every_failpoint_has_a_sentence(kind: FailpointKind) -> None:
    assert sentence(SetFailpoint("t0", kind)).endswith(f" ({kind}).")


@pytest.mark.parametrize("goes_on", get_args(GoesOn))
def test_every_way_to_resume_a_source_has_a_sentence(goes_on: GoesOn) -> None:
    assert "resumes " in sentence(StartSource("a", "t0", (), goes_on))


@pytest.mark.parametrize("then", get_args(Then))
def test_every_end_of_a_consumer_has_a_sentence(then: Then) -> None:
    told = sentence(Consume("c0", "t0", "sub", 1, then=then))
    assert told.endswith(" and acknowledges each message.") is (then == "stays")


@pytest.mark.parametrize("point", get_args(Point))
def test_every_crash_of_a_program_has_a_sentence(point: Point) -> None:
    assert "kills itself at message 1, " in sentence(RunReader("r", "t0", Death(1, point)))


@pytest.mark.parametrize("switch", get_args(Switch))
def test_every_deduplication_switch_has_a_sentence(switch: Switch) -> None:
    assert ("deduplication" in sentence(CreateTopic("t0", switch))) is True


@pytest.mark.parametrize("persistence", get_args(Persistence))
def test_every_persistence_of_cursors_has_a_sentence(persistence: Persistence) -> None:
    assert "cursors persisted " in sentence(CreateTopic("t0", persistence=persistence, partitions=2))


@pytest.mark.parametrize("start", get_args(Start))
def test_every_start_of_a_subscription_has_a_sentence(start: Start) -> None:
    assert "at the " in sentence(CreateSubscription("t0", "sub", start))
    assert ("at the latest position" in sentence(Subscribe("c1", "t0", "sub", start=start))) is (start == "latest")


def test_a_consumer_that_never_subscribed_has_a_sentence() -> None:
    assert sentence(Receive("c9", 1)) == "3. consumer c9, which never subscribed, receives up to 1 message."


def test_of_many_messages_only_the_first_and_last_are_listed() -> None:
    messages = tuple(Delivery(Position(3, number), -1, 0, f"b{number}") for number in range(1000))
    came = explain(history(SUBSCRIBED, step(Receive("c1", 1000), ReceivedMessages(messages))))[1].results[0]
    assert came.words.startswith("1000 messages (3:0 b0, ")
    assert f"… {1000 - LISTED_AT_MOST} more …" in came.words


@pytest.mark.parametrize("outcome", [Starved("nothing came"), NotPersisted(5000.0), Stuck("nothing came")])
def test_a_missing_message_has_the_tone_of_a_refusal(outcome: AnyOutcome) -> None:
    assert explain(history(SUBSCRIBED, step(Receive("c1", 1), outcome)))[1].tone is Tone.REFUSED


def test_an_answer_is_next_to_its_entry() -> None:
    several = Send("s1", (entry(4), entry(5, 6), entry(7)))
    assert sentence(several, answers(Duplicate(), Stored(Position(3, 1)))) == (
        "3. producer p0 (session s1, wire client) sends 4 (b4), batch 5..6 (b5, b6), 7 (b7), all in flight at once: "
        "4, the broker confirms it as a duplicate; 5 to 6, stored at 3:1; no answer for the other 1."
    )


def test_a_late_answer_is_reported_where_it_arrived() -> None:
    told = [str(telling) for telling in explain(history(*STEPS))]
    assert told[3].endswith("all in flight at once, and does not wait for the receipts.")
    assert told[4].endswith(
        "Before that, session s1 received stored at 3:1; unknown, because the connection was cut before the answer."
    )


def test_equal_late_answers_are_counted() -> None:
    cut_off = Unknown("it was cut")
    late = Late("s1", (cut_off, cut_off, Duplicate(), cut_off))
    told = str(explain(history(OPENED, step(CrashProducer("s1"), late=(late,))))[1])
    assert told.endswith(
        "unknown, because it was cut (2 times); the broker confirms it as a duplicate; unknown, because it was cut."
    )


def test_an_awaited_answer_that_never_arrived_is_reported() -> None:
    assert sentence(Send("s1", (entry(4),)), answers()).endswith("sends 4 (b4): no answer.")


def test_a_session_that_was_never_opened_has_a_sentence() -> None:
    assert str(explain(history(step(CloseProducer("s9"))))[0]) == ("1. session s9, which was never opened, closes.")


def test_of_a_long_log_only_the_first_and_last_entries_are_listed() -> None:
    entries = tuple(LoggedEntry(Position(3, number), "p0", entry(number)) for number in range(1000))
    came = explain(history(step(ReadLog("t0"), LogRead(entries))))[0].results[0].words
    assert came.startswith("1000 entries: 3:0 p0 0 (b0); ")
    assert f"… {1000 - LISTED_AT_MOST} more …" in came
    assert came.endswith("; 3:999 p0 999 (b999)")


def test_a_long_history_is_cut_in_the_middle() -> None:
    told = explain(history(*(step(Kill()) for _ in range(100))))
    kept = cut(told, at_most=30)
    assert (kept[:10], kept[10], kept[11:]) == (told[:10], LeftOut(first=11, last=80), told[80:])
    assert str(kept[10]) == "… 70 steps, 11 to 80, are left out …"


def test_a_short_history_is_complete() -> None:
    told = explain(history())
    assert cut(told, at_most=len(told)) == told


def test_participants_are_the_sessions_in_order_then_the_broker_and_the_suite() -> None:
    assert actors(explain(history())) == ("s1", "s2", BROKER, SUITE)


def test_a_send_has_the_tone_of_its_worst_answer() -> None:
    several = step(Send("s1", (entry(4), entry(5))), answers(Unknown("cut"), Stored(Position(3, 1))))
    told = explain(history(OPENED, several))[1]
    assert [result.tone for result in told.results] == [Tone.UNKNOWN, Tone.STORED]
    assert told.tone is Tone.UNKNOWN
