"""SERVE-12 on small histories: a topic is terminated, trimmed or unloaded while sends are unanswered."""

from __future__ import annotations

import pytest

from model.deviations import DEVIATIONS
from model.events import (
    AnyOutcome,
    Created,
    Done,
    Late,
    LoggedEntry,
    LogRead,
    Opened,
    Refused,
    Sent,
    Stored,
    Subscribed,
    Terminated,
    Trimmed,
    Unknown,
)
from model.example import Example
from model.explain import judge
from model.judgement import Allowed, Broken
from model.log import Position
from model.operations import AnyOperation, CreateTopic, OpenProducer, ReadLog, Send, Terminate, Trim, Unload
from model.service.unexpected import Closed, ErrorAnswer
from model.subscription_operations import ReadCursor, Subscribe
from model.vocabulary import Entry, Message
from tests.verdicts import Happened, allowed_by, broken_by

ROOM = 5
ALL = tuple(Entry((Message(number, f"b{number}"),)) for number in range(1, 9))
OPENS = OpenProducer("p", "t", "p")
TERMINATED = Refused("TopicTerminatedError", "Topic was already terminated")
FENCED = Refused("ServiceNotReady", "Topic is temporarily unavailable")
RACES = "termination-races-with-rollover"
REOPENED, FENCED_FOREVER = "rollover-reopens-terminated-topic", "sends-of-terminated-ledger-never-fail"


def at(number: int) -> Position:
    """The position of the entry with this number, from 1, in ledgers of five entries."""
    return Position(3 + (number - 1) // ROOM, (number - 1) % ROOM)


def log(stored: int) -> LogRead:
    """The log with so many of the entries."""
    return LogRead(tuple(LoggedEntry(at(number), "p", ALL[number - 1]) for number in range(1, stored + 1)))


BEGIN: tuple[Happened, ...] = (
    (CreateTopic("t", persistence="every-ack"), Created(deduplication=False, snapshot_room=6, ledger_room=ROOM)),
    (OPENS, Opened(-1)),
    (Send("p", ALL, wait=False), Sent(())),
)


def answers(confirmed: int) -> tuple[Late, ...]:
    """So many of the sends are confirmed, the others lost with the producer."""
    lost = len(ALL) - confirmed
    return (Late("p", (*(Stored(at(number)) for number in range(1, confirmed + 1)), *[Unknown("closed")] * lost)),)


def after(*happened: Happened, knows: bool = False) -> Example:
    """The state after these steps of a topic whose sends are unanswered."""
    return allowed_by(*BEGIN, *happened, known=DEVIATIONS if knows else ()).state


def terminated(confirmed: int, end: Position | None = None) -> Happened:
    return Terminate("t"), Terminated(end or at(confirmed)), answers(confirmed)


def broken(state: Example, operation: AnyOperation, outcome: AnyOutcome) -> Broken:
    judged = judge(state, operation, outcome)
    assert isinstance(judged, Broken), judged
    return judged


@pytest.mark.parametrize("stored", [3, 4])
def test_a_write_may_be_stored_before_the_end_and_not_confirmed(stored: int) -> None:
    state = after(terminated(3, at(stored)))
    read = judge(state, ReadLog("t"), log(stored))
    assert isinstance(read, Allowed)
    assert "SERVE-12" in read.exercised
    refused = judge(read.state, OPENS, TERMINATED)
    assert isinstance(refused, Allowed)
    assert "SERVE-12" in refused.exercised


def test_nothing_is_stored_after_the_end() -> None:
    found = broken(after(terminated(3)), ReadLog("t"), log(4))
    assert (found.rule, found.deviation) == ("SERVE-12", None)
    assert found.because == "topic t was terminated at 3:2, and has an entry at 3:3"


def test_what_is_confirmed_is_not_after_the_end() -> None:
    found = broken_by(*BEGIN, terminated(4, at(3)))
    assert found.because == "4 (b4) of p is confirmed at 3:3, after the end of topic t, 3:2"


def test_a_terminated_topic_admits_no_producer() -> None:
    found = broken(after(terminated(3)), OPENS, Opened(-1))
    assert (found.rule, found.deviation) == ("SERVE-12", None)


@pytest.mark.parametrize(
    ("operation", "outcome"), [(Unload("t"), Done()), (Trim("t"), Trimmed((3, 4))), (Terminate("t"), Terminated(at(7)))]
)
def test_what_was_confirmed_during_an_operation_can_be_read(operation: AnyOperation, outcome: AnyOutcome) -> None:
    state = after((operation, outcome, answers(7)))
    read = judge(state, ReadLog("t"), log(7))
    assert isinstance(read, Allowed)
    assert "SERVE-12" in read.exercised
    assert broken(state, ReadLog("t"), log(6)).rule == "SERVE-12"


def test_only_a_rollover_reopens_a_terminated_topic() -> None:
    full, has_room = terminated(5), terminated(4)
    assert broken(after(full), ReadLog("t"), log(7)).deviation == REOPENED
    assert broken(after(full), OPENS, Opened(-1)).deviation == REOPENED
    assert isinstance(judge(after(full, knows=True), ReadLog("t"), log(7)), Allowed)
    assert broken(after(has_room, knows=True), ReadLog("t"), log(5)).deviation is None
    reloaded = after((Unload("t"), Done(), ()), (*full[:2], ()), knows=True)
    nothing_left = after((ReadLog("t"), log(8), answers(8)), (Terminate("t"), Terminated(at(8)), ()), knows=True)
    assert broken(nothing_left, OPENS, Opened(-1)).deviation is None
    assert broken(reloaded, OPENS, Opened(-1)).deviation is None


def test_a_rollover_confirms_waiting_sends_after_the_end() -> None:
    assert broken_by(*BEGIN, terminated(7, at(5))).deviation == REOPENED
    state = after(terminated(7, at(5)), knows=True)
    assert isinstance(judge(state, ReadLog("t"), log(7)), Allowed)
    for confirmed, end in ((5, 4), (7, 4), (7, 3)):
        assert broken_by(*BEGIN, terminated(confirmed, at(end))).deviation is None


def test_a_rollover_reopens_a_terminated_topic_also_if_no_send_waits() -> None:
    filled = (Terminate("t"), Terminated(at(5)), (Late("p", tuple(Stored(at(number)) for number in range(1, 6))),))
    begin = (*BEGIN[:2], (Send("p", ALL[:5], wait=False), Sent(())), filled)
    judged = allowed_by(*begin, (OPENS, Opened(-1)), known=DEVIATIONS)
    assert judged.deviations == (REOPENED,)


def test_what_is_stored_after_the_end_may_come_later_if_the_topic_is_writable_again() -> None:
    state = after(terminated(5), knows=True)
    for stored in (6, 8):
        judged = judge(state, ReadLog("t"), log(stored))
        assert isinstance(judged, Allowed)
        state = judged.state


def test_only_unanswered_sends_fence_a_terminated_topic() -> None:
    found = broken(after(terminated(3)), OPENS, FENCED)
    assert (found.rule, found.deviation) == ("SERVE-12", FENCED_FOREVER)
    assert isinstance(judge(after(terminated(3), knows=True), OPENS, FENCED), Allowed)
    answered = after((ReadLog("t"), log(8), answers(8)), (Terminate("t"), Terminated(at(8)), ()), knows=True)
    assert broken(answered, OPENS, FENCED).deviation is None
    reloaded = after(terminated(3), (Unload("t"), Done(), ()), knows=True)
    assert broken(reloaded, OPENS, FENCED).deviation is None


def test_a_termination_that_races_with_a_rollover_may_close_consumers() -> None:
    subscribed, closed = (Subscribe("c", "t", "s"), Subscribed()), Closed("c", "the broker closed the consumer", "t")
    failed = ErrorAnswer("admin", "POST terminate of topic t", "500", "BadVersionException", "t", is_last=False)
    for length, is_race in ((5, True), (4, False)):
        sent = Send("p", ALL[:length]), Sent(tuple(Stored(at(number)) for number in range(1, length + 1)))
        history = (*BEGIN[:2], sent, subscribed)
        state = allowed_by(*history, known=DEVIATIONS).state
        for unexpected in ((closed,), (failed, closed)):
            judged = judge(state, Terminate("t"), Terminated(at(length)), unexpected=unexpected)
            assert isinstance(judged, Allowed) == is_race, judged


def test_sends_that_waited_for_the_next_ledger_may_close_the_consumers_after_the_termination() -> None:
    subscribed, closed = (
        (Subscribe("c", "t", "s"), Subscribed(), ()),
        Closed("c", "the broker closed the consumer", "t"),
    )
    read, reloaded = (ReadLog("t"), log(5), ()), (Unload("t"), Done(), ())
    subscribed_first = (subscribed, terminated(5))
    found = judge(after(*subscribed_first), ReadLog("t"), log(5), unexpected=(closed,))
    assert isinstance(found, Broken)
    assert (found.rule, found.deviation) == ("SERVE-01", RACES)
    for history, is_race in (
        (subscribed_first, True),
        ((*subscribed_first, read), True),
        ((subscribed, terminated(4)), False),
        (((ReadLog("t"), log(8), answers(8)), subscribed, (Terminate("t"), Terminated(Position(4, 4)), ())), False),
        ((terminated(5), reloaded, subscribed), False),
    ):
        state = after(*history, knows=True)
        known = judge(state, ReadCursor("t", "s"), Refused("404", "no"), unexpected=(closed,))
        assert isinstance(known, Allowed) == is_race, (history, known)
