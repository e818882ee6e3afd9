"""Topics with deduplication follow the rules of subscriptions as far as the answers show what is stored."""

from __future__ import annotations

import pytest

from conformance.history.document import Step
from model.events import (
    Answer,
    Created,
    Delivery,
    Done,
    Duplicate,
    Late,
    LoggedEntry,
    LogRead,
    Opened,
    ReceivedMessages,
    Refused,
    Sent,
    Stored,
    Subscribed,
    Unknown,
)
from model.judgement import Broken
from model.log import Position
from model.operations import CrashProducer, CreateTopic, OpenProducer, ReadLog, Send
from model.subscription_operations import Receive, Skip, Subscribe
from model.vocabulary import Entry, Message
from tests.judging import Happened, judged

A, B = Entry((Message(1, "a"),)), Entry((Message(2, "b"),))
OTHER = Entry((Message(1, "other"), Message(2, "end")))
FIRST, SECOND = Stored(Position(7, 0)), Stored(Position(7, 1))
IN_FLIGHT = Refused("UnknownStatus", "a write is in flight")
CREATED: tuple[Happened, ...] = (
    (CreateTopic("t"), Created(deduplication=True, snapshot_room=5)),
    (OpenProducer("p", "t", "p"), Opened(-1)),
)
SUBSCRIBED: Happened = (Subscribe("c", "t", "s"), Subscribed())
UNAWAITED: Happened = (Send("p", (A,), wait=False), Sent(()))
CRASHED = Step(
    operation=CrashProducer("p"),
    outcome=Done(),
    late=(Late("p", (Unknown("cut"),)),),
    invoked_ms=0,
    completed_ms=0,
)
REOPENED: Happened = (OpenProducer("again", "t", "p"), Opened(1))
CONFIRMED: tuple[Happened, ...] = (
    (OpenProducer("q", "t", "q"), Opened(-1)),
    (Send("q", (OTHER,)), Sent((SECOND,))),
)
"""Another producer's entry, which is stored behind all that was written before it."""
SETTLED: tuple[Happened | Step, ...] = (UNAWAITED, CRASHED, REOPENED, *CONFIRMED)


def delivered(business_id: str, entry: int) -> ReceivedMessages:
    return ReceivedMessages((Delivery(Position(7, entry), -1, 0, business_id, 0),))


def rule_broken(received: ReceivedMessages, *sent: tuple[tuple[Entry, ...], tuple[Answer, ...]]) -> str | None:
    return rule_broken_by(
        *((Send("p", entries), Sent(answers)) for entries, answers in sent), SUBSCRIBED, (Receive("c", 1), received)
    )


def rule_broken_by(*happened: Happened | Step) -> str | None:
    """The rule that is broken by what happened to a topic that has a producer."""
    answer = judged(*CREATED, *happened)
    return answer.rule if isinstance(answer, Broken) else None


def log(*logged: tuple[str, Entry]) -> Happened:
    entries = (LoggedEntry(Position(7, number), producer, entry) for number, (producer, entry) in enumerate(logged))
    return ReadLog("t"), LogRead(tuple(entries))


def test_a_duplicate_is_not_stored_so_the_next_entry_has_the_next_position() -> None:
    sent = ((A, A), (FIRST, Duplicate())), ((B,), (SECOND,))
    assert rule_broken(delivered("a", 0), *sent) is None
    assert rule_broken(delivered("a", 0), ((A, A), (FIRST, Duplicate())), ((B,), (Stored(Position(7, 2)),))) == "ACK-06"


def test_an_entry_refused_while_no_write_fails_is_not_stored() -> None:
    assert rule_broken(delivered("other", 1), ((A, A), (FIRST, IN_FLIGHT))) == "ACK-06"


def test_a_message_that_was_never_stored_is_not_delivered() -> None:
    assert rule_broken(delivered("b", 0), ((A,), (FIRST,))) == "ACK-06"


def test_a_log_is_unknown_if_different_entries_in_flight_share_a_sequence_id() -> None:
    assert rule_broken(delivered("other", 0), ((A, OTHER), (FIRST, IN_FLIGHT))) is None


def test_nothing_is_said_of_subscriptions_while_a_write_may_be_in_flight() -> None:
    assert rule_broken_by(SUBSCRIBED, UNAWAITED, CRASHED, (Receive("c", 1), delivered("a", 3))) is None


def test_a_log_that_was_read_back_is_known_again() -> None:
    read = log(("p", A), ("q", OTHER))
    assert rule_broken_by(SUBSCRIBED, *SETTLED, read, (Receive("c", 1), delivered("a", 0))) is None
    assert rule_broken_by(SUBSCRIBED, *SETTLED, read, (Receive("c", 1), delivered("a", 3))) == "ACK-06"


@pytest.mark.parametrize(
    "happened", [(UNAWAITED, CRASHED), (UNAWAITED, CRASHED, REOPENED), (UNAWAITED, CRASHED, *CONFIRMED)]
)
def test_but_not_while_more_may_be_written(happened: tuple[Happened | Step, ...]) -> None:
    assert rule_broken_by(SUBSCRIBED, *happened, log(("p", A)), (Receive("c", 1), delivered("a", 3))) is None


def test_what_happened_to_a_subscription_meanwhile_is_not_known_so_it_is_not_tracked_any_more() -> None:
    meanwhile: Happened = (Skip("t", "s", 1), Done())
    after = (REOPENED, *CONFIRMED, log(("p", A), ("q", OTHER)))
    history: tuple[Happened | Step, ...] = (SUBSCRIBED, UNAWAITED, CRASHED, meanwhile, *after)
    assert rule_broken_by(*history, (Receive("c", 1), delivered("a", 3))) is None
    assert rule_broken_by(*history, SUBSCRIBED, (Receive("c", 1), delivered("a", 3))) is None
