"""Expiry by time and readers: what surely expires, what may, what never does; and a reader's own position."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from conformance.history import document
from conformance.known import HISTORIES
from model.events import (
    Acknowledged,
    AnyOutcome,
    Created,
    CursorRead,
    Delivery,
    Done,
    Opened,
    Range,
    Refused,
    Sent,
    Stored,
    Subscribed,
    Terminated,
)
from model.example import Example
from model.example.state import Judgement
from model.expiry_operations import ExpireOlder, ExpiryRequest, OlderExpired, SetTtl, TtlSet
from model.explain import judge_step
from model.judgement import Allowed, Broken
from model.log import EARLIEST, Position
from model.operations import AnyOperation, CreateTopic, OpenProducer, Send, Terminate, Unload
from model.reader_operations import (
    AvailabilityRead,
    CutReader,
    HasMessageAvailable,
    MessagesRead,
    OpenReader,
    ReaderOpened,
    ReadNext,
    SeekReader,
)
from model.subscription_operations import AckById, CreateSubscription, ReadCursor, Subscribe
from model.vocabulary import Entry, Message
from tests.verdicts import Happened, Verdict, judged

TTL = "ttl-expires-messages-of-readers"
STOPS_EARLY = "expiry-stops-at-acknowledged"
NOT_SEARCHED = "expiry-search-ends-with-closed-ledger"
OF_ALL = "expiry-of-all-moves-readers"
STEP_MS = 100.0
HOUR_S = 3600


def entries(*numbers: int) -> tuple[Entry, ...]:
    return tuple(Entry((Message(number, f"b{number}"),)) for number in numbers)


def read(*numbers: int) -> tuple[AnyOperation, AnyOutcome]:
    """The reader reads these messages, and there are no more."""
    messages = tuple(Delivery(Position(1, number - 1), business_id=f"b{number}") for number in numbers)
    return ReadNext("r", len(numbers) + 1), MessagesRead(messages)


def shown(last: int) -> tuple[AnyOperation, AnyOutcome]:
    """The subscription has acknowledged so many of the four messages."""
    return ReadCursor("t0", "s0"), CursorRead(Position(1, last - 1), (), 4 - last, 0, written=1)


HISTORY: tuple[Happened, ...] = (
    (CreateTopic("t0", persistence="every-ack"), Created(deduplication=False, snapshot_room=6)),
    (OpenProducer("p", "t0", "p"), Opened(-1)),
    (CreateSubscription("t0", "s0"), Done()),
    (Send("p", entries(1, 2, 3), age_s=2 * HOUR_S), Sent(tuple(Stored(Position(1, number)) for number in range(3)))),
    (Send("p", entries(4)), Sent((Stored(Position(1, 3)),))),
    (OpenReader("r", "t0"), ReaderOpened(EARLIEST)),
    (ReadNext("r", 1), MessagesRead((Delivery(Position(1, 0), business_id="b1"),))),
)
EXPIRED: Happened = (ExpireOlder("t0", "s0", HOUR_S), OlderExpired())
WITH_TTL: Happened = (SetTtl("t0", HOUR_S), TtlSet())


def verdict(*more: Happened, known: str | tuple[str, ...] = ()) -> Verdict:
    return judged(*HISTORY, *more, known=known, step_ms=STEP_MS)


def rule_of(verdict: Verdict) -> tuple[str, str | None]:
    assert isinstance(verdict, Broken), verdict
    return verdict.rule, verdict.deviation


@pytest.mark.parametrize("expired", [EXPIRED, WITH_TTL, (ExpireOlder("t0", None, HOUR_S), OlderExpired())])
def test_what_is_surely_older_expires_and_nothing_else(expired: Happened) -> None:
    allowed = verdict(expired, shown(3))
    assert isinstance(allowed, Allowed), allowed
    assert "ACK-17" in allowed.exercised
    assert [rule_of(verdict(expired, shown(last)))[0] for last in (0, 2, 4)] == ["ACK-17"] * 3


@pytest.mark.parametrize("seconds", [3 * HOUR_S, 2 * HOUR_S])
def test_between_surely_older_and_surely_younger_both_are_possible(seconds: int) -> None:
    """The messages are two hours old, less than a second more."""
    kept = verdict((ExpireOlder("t0", "s0", seconds), OlderExpired()), shown(0))
    assert isinstance(kept, Allowed) == (seconds == 3 * HOUR_S)
    for last in (0, 3):
        refused = verdict((ExpireOlder("t0", "s0", seconds), Refused("409", "only a part is done")), shown(last))
        assert isinstance(refused, Allowed) == (last == 0 or seconds == 2 * HOUR_S)
    for last in (0, 1, 3):
        at_once = judged(
            *HISTORY[:4], (ExpireOlder("t0", "s0", 2 * HOUR_S), OlderExpired()), shown_of_three(last), step_ms=STEP_MS
        )
        assert isinstance(at_once, Allowed), at_once


def shown_of_three(last: int) -> tuple[AnyOperation, AnyOutcome]:
    return ReadCursor("t0", "s0"), CursorRead(Position(1, last - 1), (), 3 - last, 0, written=1)


def test_an_expiry_that_ends_early_expires_what_its_search_finds_each_time_that_the_broker_looks() -> None:
    """Everything after b3 is acknowledged. The first search ends at b1, a second one at b2."""
    last = Delivery(Position(1, 3), business_id="b4")
    used: tuple[Happened, ...] = (
        (Subscribe("c", "t0", "s0"), Subscribed()),
        (AckById("c", ("b4",)), Acknowledged((last,), receipt=True)),
    )
    expired: Happened = (ExpireOlder("t0", "s0", HOUR_S), OlderExpired(not_expired={"s0": 2}))
    assert rule_of(verdict(*used, expired)) == ("ACK-17", STOPS_EARLY)
    for left in (0, 1, 2, 3):
        ranges = (Range(Position(1, 2), Position(1, 3)),) if left else ()
        read = CursorRead(Position(1, 2 - left if left else 3), ranges, left, 0, written=2)
        after = verdict(*used, expired, (ReadCursor("t0", "s0"), read), known=STOPS_EARLY)
        assert isinstance(after, Allowed) == (left < 3), (left, after)


def test_a_subscription_in_use_may_wait_until_its_first_message_is_half_as_old_again() -> None:
    used: Happened = (Subscribe("c", "t0", "s0"), Subscribed())
    request = ExpireOlder("t0", "s0", 3 * HOUR_S // 2)
    for last in (0, 3):
        assert isinstance(verdict(used, (request, OlderExpired()), shown(last)), Allowed)
    assert rule_of(verdict((request, OlderExpired()), shown(0)))[0] == "ACK-17"
    assert rule_of(verdict(used, EXPIRED, shown(0)))[0] == "ACK-17"


@pytest.mark.parametrize(
    ("request_", "left"),
    [
        (ExpireOlder("t0", "s0", HOUR_S), OlderExpired({"s0": 3})),
        (SetTtl("t0", HOUR_S), TtlSet(not_expired={"s0": 3})),
    ],
)
def test_what_does_not_expire_in_time_breaks_the_rule(request_: ExpiryRequest, left: AnyOutcome) -> None:
    broken = verdict((request_, left))
    assert rule_of(broken) == ("ACK-17", None)
    assert isinstance(broken, Broken)
    assert broken.is_overdue


def test_before_the_period_is_over_nothing_has_to_expire_by_a_ttl() -> None:
    not_yet: Happened = (SetTtl("t0", HOUR_S), TtlSet(is_over=False, not_expired={"s0": 3}))
    for last in (0, 3):
        assert isinstance(verdict(not_yet, shown(last)), Allowed)


def test_a_ttl_expires_what_is_sent_later_and_not_once_it_is_removed() -> None:
    sent: Happened = (Send("p", entries(5), age_s=2 * HOUR_S), Sent((Stored(Position(1, 4)),)))
    all_gone: Happened = (ReadCursor("t0", "s0"), CursorRead(Position(1, 4), (), 0, 0, written=2))
    assert isinstance(verdict(WITH_TTL, sent, all_gone), Allowed)
    removed: Happened = (SetTtl("t0", None), TtlSet())
    assert rule_of(verdict(WITH_TTL, removed, sent, all_gone))[0] == "ACK-17"


def test_the_ttl_of_a_topic_applies_before_that_of_its_namespace() -> None:
    longer: Happened = (SetTtl("t0", 3 * HOUR_S), TtlSet())
    of_namespace: Happened = (SetTtl("t0", HOUR_S, "namespace"), TtlSet())
    assert isinstance(verdict(longer, of_namespace, shown(0)), Allowed)
    assert isinstance(verdict(longer, of_namespace, (SetTtl("t0", None), TtlSet()), shown(3)), Allowed)


@pytest.mark.parametrize(
    "more",
    [
        (read(2, 3, 4),),
        ((CutReader("r"), Done()), read(2, 3, 4)),
        ((Unload("t0"), Done()), read(2, 3, 4)),
        ((SeekReader("r", None), ReaderOpened(EARLIEST)), read(1, 2, 3, 4)),
        ((SeekReader("r", "b2"), ReaderOpened(Position(1, 1))), read(3, 4)),
        ((SeekReader("r", "b3", is_inclusive=True), ReaderOpened(Position(1, 1))), read(3, 4)),
        (EXPIRED, read(2, 3, 4)),
        ((HasMessageAvailable("r"), AvailabilityRead(is_available=True, last=Position(1, 3))),),
        (read(2, 3, 4), (HasMessageAvailable("r"), AvailabilityRead(is_available=False, last=Position(1, 3)))),
    ],
)
def test_a_reader_reads_on_at_its_own_position(more: tuple[Happened, ...]) -> None:
    allowed = verdict(*more)
    assert isinstance(allowed, Allowed), allowed
    assert "ACK-20" in allowed.exercised


@pytest.mark.parametrize(
    "more",
    [
        (read(2, 4),),
        (read(2, 3),),
        (read(1, 2, 3, 4),),
        (read(2, 3, 3, 4),),
        (read(2, 3, 4, 5),),
        ((Unload("t0"), Done()), read(1, 2, 3, 4)),
        (EXPIRED, read(4)),
        ((HasMessageAvailable("r"), AvailabilityRead(is_available=False, last=Position(1, 3))),),
        (read(2, 3, 4), (HasMessageAvailable("r"), AvailabilityRead(is_available=True, last=Position(1, 4)))),
    ],
)
def test_a_reader_that_does_not_breaks_the_rule(more: tuple[Happened, ...]) -> None:
    assert rule_of(verdict(*more)) == ("ACK-20", None)


def test_a_ttl_explains_only_what_connected_readers_lack_of_the_older_messages() -> None:
    of_all: Happened = (ExpireOlder("t0", None, HOUR_S), OlderExpired())
    for expired, name in ((WITH_TTL, TTL), (of_all, OF_ALL)):
        assert rule_of(verdict(expired, read(4))) == ("ACK-20", name)
        assert isinstance(verdict(expired, read(4), known=name), Allowed)
        assert rule_of(verdict(expired, read(), known=name)) == ("ACK-20", None)
        cut: Happened = (CutReader("r"), Done())
        assert rule_of(verdict(cut, expired, read(4), known=name)) == ("ACK-20", None)
        assert rule_of(verdict(expired, cut, read(4), known=name)) == ("ACK-20", None)
    assert rule_of(verdict(EXPIRED, read(4), known=OF_ALL)) == ("ACK-20", None)
    assert rule_of(verdict((SetTtl("t0", 3 * HOUR_S), TtlSet()), read(4), known=TTL)) == ("ACK-20", None)


def test_only_a_topic_that_ends_in_an_empty_ledger_hides_its_messages_from_readers() -> None:
    name = "last-message-id-of-empty-ledger"
    steps = document.read(HISTORIES / f"{name}.json").steps
    at, terminated = next((at, one) for at, one in enumerate(steps) if isinstance(one.operation, Terminate))
    ended = replace(terminated, outcome=Terminated(Position(5106, 1)))
    for outcome, explained in ((terminated, True), (ended, False)):
        state: Judgement = Allowed(Example(known=frozenset({name})))
        for step in (*steps[:at], outcome, *steps[at + 1 :]):
            state = judge_step(state.state, step) if isinstance(state, Allowed) else state
        assert isinstance(state, Allowed) == explained, state


def test_only_what_is_after_a_closed_ledger_is_not_searched() -> None:
    topic: Happened = CreateTopic("t0", persistence="every-ack"), Created(False, 6, ledger_room=5)
    places = (*(Position(1, number) for number in range(5)), Position(2, 0), Position(2, 1))
    for sent, number, explained in ((7, 1, True), (7, 2, True), (7, 3, False), (5, 1, False)):
        stored: Happened = (
            Send("p", entries(*range(1, sent + 1)), age_s=2 * HOUR_S),
            Sent(tuple(map(Stored, places[:sent]))),
        )
        left: Happened = ExpireOlder("t0", "s0", HOUR_S), OlderExpired({"s0": number})
        found = judged(topic, *HISTORY[1:3], stored, left, known=(NOT_SEARCHED,), step_ms=STEP_MS)
        assert isinstance(found, Allowed) == explained, found
