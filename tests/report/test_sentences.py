"""Histories as sentences."""

from __future__ import annotations

from typing import get_args

import msgspec
import pytest
from syrupy.assertion import SnapshotAssertion

from conformance.report.sentences.lists import LISTED_AT_MOST
from conformance.report.sentences.participants import BROKER, SUITE
from conformance.report.sentences.results import Tone
from conformance.report.sentences.words import LeftOut, actors, cut, explain
from model.events import (
    AnyOutcome,
    Delivery,
    Done,
    Duplicate,
    Late,
    LoggedEntry,
    LogRead,
    NotPersisted,
    Opened,
    ReceivedMessages,
    Starved,
    Stored,
    Stuck,
    Subscribed,
    Unknown,
)
from model.failpoints import FailpointKind
from model.log import Position
from model.operations import (
    AnyOperation,
    CloseProducer,
    Consume,
    CrashProducer,
    CreateTopic,
    Death,
    GoesOn,
    Kill,
    OpenProducer,
    Point,
    ReadLog,
    RunReader,
    Send,
    SetFailpoint,
    StartSource,
    Switch,
    Then,
)
from model.service.unexpected import BeyondPermits, Closed, ErrorAnswer, Overdue, Silence
from model.subscription_operations import (
    CreateSubscription,
    Receive,
    Subscribe,
)
from model.vocabulary import Persistence, Start
from tests.report.one_of_each import OPERATIONS, OUTCOMES, SILENT
from tests.report.samples import STEPS, answers, entry, history, step

OPENED = step(OpenProducer("s1", "t0", "p0"), Opened(4))
SUBSCRIBED = step(Subscribe("c1", "t0", "sub"), Subscribed())


def sentence(operation: AnyOperation, outcome: AnyOutcome | None = None) -> str:
    return str(explain(history(OPENED, SUBSCRIBED, step(operation, outcome)))[-1])


def test_every_operation_has_its_sentence(snapshot: SnapshotAssertion) -> None:
    assert {type(operation) for operation in OPERATIONS} == set(get_args(AnyOperation))
    assert "\n".join(map(sentence, OPERATIONS)) == snapshot


def test_every_outcome_has_its_sentence(snapshot: SnapshotAssertion) -> None:
    assert {type(outcome) for outcome in (*OUTCOMES, *SILENT)} == set(get_args(AnyOutcome))
    assert "\n".join(sentence(Kill(), outcome) for outcome in OUTCOMES) == snapshot


@pytest.mark.parametrize("outcome", SILENT)
def test_an_expected_outcome_has_no_sentence(outcome: AnyOutcome) -> None:
    assert sentence(Kill(), outcome) == sentence(Kill())


def test_an_unexpected_observation_follows_the_outcome(snapshot: SnapshotAssertion) -> None:
    unexpected = (
        ErrorAnswer("admin", "GET stats of topic t0", "500", "no ledger"),
        ErrorAnswer("binary", "a Send", "UnknownError", "why", is_last=False),
        Silence("binary", "Acknowledge of c1", "nothing in 10 s"),
        Closed("c1", "the broker closed the consumer"),
        BeyondPermits("c1", -2, 1, "t0"),
        Overdue("SERVE-04", "the stats do not follow"),
    )
    observed = [msgspec.structs.replace(step(Kill(), Done()), unexpected=(one,)) for one in unexpected]
    steps = explain(history(*observed))
    assert {step.tone for step in steps} == {Tone.REFUSED}
    assert "\n".join(map(str, steps)) == snapshot


@pytest.mark.parametrize("kind", get_args(FailpointKind))
def test_every_failpoint_has_a_sentence(kind: FailpointKind) -> None:
    assert sentence(SetFailpoint("t0", kind)).endswith(f" ({kind}).")


@pytest.mark.parametrize("goes_on", get_args(GoesOn))
def test_every_way_to_resume_a_source_has_a_sentence(goes_on: GoesOn) -> None:
    assert "resumes " in sentence(StartSource("a", "t0", (), goes_on))


@pytest.mark.parametrize("then", get_args(Then))
def test_every_end_of_a_consumer_has_a_sentence(then: Then) -> None:
    words = sentence(Consume("c0", "t0", "sub", 1, then=then))
    assert words.endswith(" and acknowledges each message.") is (then == "stays")


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
    sentences = [str(step) for step in explain(history(*STEPS))]
    assert sentences[3].endswith("all in flight at once, and does not wait for the receipts.")
    assert sentences[4].endswith(
        "Before that, session s1 received stored at 3:1; unknown, because the connection was cut before the answer."
    )


def test_equal_late_answers_are_counted() -> None:
    cut_off = Unknown("it was cut")
    late = Late("s1", (cut_off, cut_off, Duplicate(), cut_off))
    words = str(explain(history(OPENED, step(CrashProducer("s1"), late=(late,))))[1])
    assert words.endswith(
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
    steps = explain(history(*(step(Kill()) for _ in range(100))))
    kept = cut(steps, at_most=30)
    assert (kept[:10], kept[10], kept[11:]) == (steps[:10], LeftOut(first=11, last=80), steps[80:])
    assert str(kept[10]) == "… 70 steps, 11 to 80, are left out …"


def test_a_short_history_is_complete() -> None:
    steps = explain(history())
    assert cut(steps, at_most=len(steps)) == steps


def test_participants_are_the_sessions_in_order_then_the_broker_and_the_suite() -> None:
    assert actors(explain(history())) == ("s1", "s2", BROKER, SUITE)


def test_a_send_has_the_tone_of_its_worst_answer() -> None:
    several = step(Send("s1", (entry(4), entry(5))), answers(Unknown("cut"), Stored(Position(3, 1))))
    sent = explain(history(OPENED, several))[1]
    assert [result.tone for result in sent.results] == [Tone.UNKNOWN, Tone.STORED]
    assert sent.tone is Tone.UNKNOWN
