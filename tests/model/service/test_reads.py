"""Requests that only read: right answers, and whatever breaks right after one of them breaks SERVE-08."""

from __future__ import annotations

from dataclasses import replace

import pytest

from model.events import (
    Abandoned,
    Acknowledged,
    AnyOutcome,
    Created,
    Delivery,
    Done,
    Opened,
    ReceivedMessages,
    Refused,
    Sent,
    Starved,
    Stored,
    Subscribed,
    Terminated,
)
from model.example.state import Example
from model.explain import judge
from model.judgement import Allowed, Broken
from model.log import Position
from model.operations import AnyOperation, CreateTopic, OpenProducer, Send, Terminate, Unload
from model.read_operations import (
    AnalyzeBacklog,
    Answered,
    BacklogAnalyzed,
    EntryRead,
    ExamineMessage,
    FindByTime,
    Inquire,
    InternalsRead,
    MessageIdRead,
    ReadInternals,
    ReadMessage,
)
from model.service.unexpected import ErrorAnswer, Silence, Unexpected
from model.subscription_operations import (
    Acknowledge,
    CloseConsumer,
    CreateSubscription,
    PeekMessage,
    Receive,
    Subscribe,
)
from model.vocabulary import Entry, Message
from tests.verdicts import Happened, judged

BACKLOG_ANALYSIS_MOVES_READ_POSITION = "backlog-analysis-moves-read-position"
MISSING_ENTRY_FAILS = "read-of-absent-entry-fails"
MISSING_ENTRY_NOT_ANSWERED = "read-of-absent-entry-not-answered"
EXAMINE_BEFORE_FIRST_FAILS = "examine-before-first-entry-fails"
SENT = (
    *(Entry((Message(number, f"b{number}"),)) for number in (1, 2, 3)),
    Entry((Message(4, "b4"), Message(5, "b5"))),
)
HISTORY: tuple[Happened, ...] = (
    (CreateTopic("t0", persistence="every-ack"), Created(deduplication=False, snapshot_room=6)),
    (OpenProducer("p", "t0", "p"), Opened(-1)),
    (CreateSubscription("t0", "s0"), Done()),
    (CreateSubscription("t0", "s1"), Done()),
    (Send("p", SENT), Sent(tuple(Stored(Position(1, number)) for number in range(4)))),
    (Subscribe("c0", "t0", "s0"), Subscribed()),
    (Subscribe("c1", "t0", "s1"), Subscribed()),
    (Receive("c0", 1), ReceivedMessages((Delivery(Position(1, 0), -1, 0, "b1", 0),), settled=True)),
    (
        Acknowledge("c0", (0,)),
        Acknowledged((Delivery(Position(1, 0), -1, 0, "b1", 0),), receipt=True),
    ),
)
ANALYZED: Happened = (AnalyzeBacklog("t0", "s0"), BacklogAnalyzed(3, 4))
STARVED: tuple[AnyOperation, AnyOutcome] = (Receive("c0", 2), Starved("nothing arrives"))


def verdict(*more: Happened, known: str | tuple[str, ...] = ()) -> Allowed[Example] | Broken:
    return judged(*HISTORY, *more, known=known)


@pytest.mark.parametrize(
    ("operation", "right", "wrong"),
    [
        (AnalyzeBacklog("t0", "s0"), BacklogAnalyzed(3, 4), BacklogAnalyzed(4, 5)),
        (AnalyzeBacklog("t0", "s0"), BacklogAnalyzed(3, 4), BacklogAnalyzed(3, 3)),
        (ReadMessage("t0", "b2"), EntryRead(Position(1, 1)), EntryRead(Position(1, 2))),
        (ReadMessage("t0", "b2"), EntryRead(Position(1, 1)), Refused("404", "Message id not found")),
        (ReadMessage("t0", None), Refused("404", "Message id not found"), EntryRead(Position(1, 3))),
        (ExamineMessage("t0", 1, from_end=True), EntryRead(Position(1, 3)), EntryRead(Position(1, 2))),
        (ExamineMessage("t0", 2), EntryRead(Position(1, 1)), EntryRead(Position(1, 2))),
        (ExamineMessage("t0", 2), EntryRead(Position(1, 1)), Refused("412", "the total message is zero")),
        (ExamineMessage("t0", 9), EntryRead(Position(1, 3)), EntryRead(Position(1, 9))),
        (
            FindByTime("t0", "b2"),
            MessageIdRead(Position(1, 1), Position(1, 1)),
            MessageIdRead(Position(1, 4), Position(1, 1)),
        ),
        (
            ReadInternals("t0"),
            InternalsRead(4, Position(1, 3), ("s0", "s1")),
            InternalsRead(3, Position(1, 3), ("s0", "s1")),
        ),
        (
            ReadInternals("t0"),
            InternalsRead(4, Position(1, 3), ("s0", "s1")),
            InternalsRead(4, Position(1, 3), ("s0",)),
        ),
        (
            ReadInternals("t0"),
            InternalsRead(4, Position(2, -1), ("s0", "s1")),
            InternalsRead(4, Position(1, -1), ("s0", "s1")),
        ),
        (Inquire("t0", "subscriptions"), Answered(("s0", "s1")), Answered(("s1",))),
        (Inquire("t0", "last message id"), Answered(position=Position(1, 3)), Answered(position=Position(1, 2))),
        (Inquire("t0", "look-up"), Answered(), Refused("404", "Not found")),
        (Inquire("t0", "schema"), Refused("404", "Schema not found"), None),
    ],
)
def test_the_answer_to_a_read_agrees_with_what_was_done(
    operation: AnyOperation, right: AnyOutcome, wrong: AnyOutcome | None
) -> None:
    allowed = verdict((operation, right))
    assert isinstance(allowed, Allowed)
    assert "SERVE-08" in allowed.exercised
    if wrong is not None:
        broken = verdict((operation, wrong))
        assert isinstance(broken, Broken)
        assert broken.rule == "SERVE-08"


def test_what_breaks_right_after_a_read_breaks_the_rule_of_reads() -> None:
    plain, after_peek = verdict(STARVED), verdict((PeekMessage("t0", "s0", 9), Refused("404", "not found")), STARVED)
    assert isinstance(plain, Broken)
    assert isinstance(after_peek, Broken)
    assert (plain.rule, after_peek.rule) == ("SERVE-03", "SERVE-08")
    later: Happened = (Send("p", (Entry((Message(6, "b6"),)),)), Sent((Stored(Position(1, 4)),)))
    for read in ((ReadMessage("t0", "b1"), EntryRead(Position(1, 0))), (Inquire("t0", "stats"), Answered())):
        at_once, afterwards = verdict(read, STARVED), verdict(read, later, STARVED)
        assert isinstance(at_once, Broken)
        assert isinstance(afterwards, Broken)
        assert (at_once.rule, afterwards.rule) == ("SERVE-08", "SERVE-03")


def test_an_analysis_explains_only_the_starvation_of_its_subscription() -> None:
    name = BACKLOG_ANALYSIS_MOVES_READ_POSITION
    starved, allowed = verdict(ANALYZED, STARVED), verdict(ANALYZED, STARVED, known=name)
    assert isinstance(starved, Broken)
    assert (starved.rule, starved.deviation) == ("SERVE-08", name)
    assert isinstance(allowed, Allowed)
    assert name in allowed.deviations
    again: tuple[Happened, ...] = ((CloseConsumer("c0"), Done()), (Subscribe("c2", "t0", "s0"), Subscribed()))
    for history in (
        (STARVED,),
        (ANALYZED, (Receive("c1", 1), Starved("nothing arrives"))),
        (ANALYZED, *again, (Receive("c2", 1), Starved("nothing arrives"))),
    ):
        broken = verdict(*history, known=name)
        assert isinstance(broken, Broken)
        assert broken.deviation is None


def after(*known: str) -> Example:
    allowed = verdict()
    assert isinstance(allowed, Allowed)
    return replace(allowed.state, known=frozenset(known))


def error(message: str) -> ErrorAnswer:
    return ErrorAnswer("admin", "GET of topic t0", "500", message, "t0", is_last=False)


SILENT = Silence("admin", "ReadMessage", "no answer", "t0")
GIVEN_UP = Abandoned("no answer")


@pytest.mark.parametrize(
    ("operation", "outcome", "observed", "name"),
    [
        (ReadMessage("t0", None), Refused("500", "No such entry"), error("No such entry"), MISSING_ENTRY_FAILS),
        (ReadMessage("t0", None), GIVEN_UP, SILENT, MISSING_ENTRY_NOT_ANSWERED),
        (
            ReadMessage("t0", None),
            Refused("500", "LastConfirmedEntry is 1:3"),
            error("LastConfirmedEntry is 1:3"),
            MISSING_ENTRY_FAILS,
        ),
        (ReadMessage("t0", "b1"), Refused("500", "No such entry"), error("No such entry"), None),
        (ReadMessage("t0", "b1"), GIVEN_UP, SILENT, None),
        (ReadMessage("t0", None), Refused("500", "null"), error("null"), None),
    ],
)
def test_only_a_read_of_what_does_not_exist_may_fail(
    operation: AnyOperation, outcome: AnyOutcome, observed: Unexpected, name: str | None
) -> None:
    broken = judge(after(), operation, outcome, unexpected=(observed,))
    assert isinstance(broken, Broken)
    assert (broken.rule, broken.deviation) == ("SERVE-01", name)
    every = after(MISSING_ENTRY_FAILS, MISSING_ENTRY_NOT_ANSWERED)
    allowed = judge(every, operation, outcome, unexpected=(observed,))
    assert set(allowed.deviations) == {name} if isinstance(allowed, Allowed) else name is None


@pytest.mark.parametrize(
    ("ending", "explained"),
    [
        (((Terminate("t0"), Terminated(Position(2, -1))), (Unload("t0"), Done())), True),
        (((Terminate("t0"), Terminated(Position(2, -1))),), False),
        (((Terminate("t0"), Terminated(Position(1, 3))), (Unload("t0"), Done())), False),
        (((Unload("t0"), Done()),), False),
    ],
)
def test_only_a_reloaded_topic_that_ends_in_an_empty_ledger_fails_to_read_it(
    ending: tuple[Happened, ...], *, explained: bool
) -> None:
    message = "Error while reading ledger error code: -1"
    ended = judged(*HISTORY, *ending, known=(MISSING_ENTRY_FAILS,))
    assert isinstance(ended, Allowed)
    for read in (ReadMessage("t0", None), ReadMessage("t0", "b1")):
        found = judge(ended.state, read, Refused("500", message), unexpected=(error(message),))
        assert isinstance(found, Allowed) == (explained and read.message is None), found


@pytest.mark.parametrize(
    ("operation", "message", "name"),
    [
        (
            ExamineMessage("t0", 9, from_end=True),
            "Incorrect parameter input error code: -14",
            EXAMINE_BEFORE_FIRST_FAILS,
        ),
        (ExamineMessage("t0", 9), "Incorrect parameter input error code: -14", None),
        (ExamineMessage("t0", 9, from_end=True), "null", None),
        (ReadMessage("t0", None), "Incorrect parameter input error code: -14", None),
    ],
)
def test_only_an_examination_from_the_end_may_fail(operation: AnyOperation, message: str, name: str | None) -> None:
    broken = judge(after(), operation, Refused("500", message), unexpected=(error(message),))
    assert isinstance(broken, Broken)
    assert (broken.rule, broken.deviation) == ("SERVE-01", name)
    allowed = judge(after(EXAMINE_BEFORE_FIRST_FAILS), operation, Refused("500", message), unexpected=(error(message),))
    assert set(allowed.deviations) == {name} if isinstance(allowed, Allowed) else name is None
