"""SERVE-11 on small histories: requests for a namespace, and two administrators at once."""

from __future__ import annotations

import pytest

from model.administrator_operations import AtOnce, ClearBacklog
from model.deviations import DEVIATIONS
from model.events import (
    Abandoned,
    Acknowledged,
    AnyOutcome,
    BothAnswered,
    Created,
    CursorRead,
    CursorReset,
    Delivery,
    Done,
    MessagePeeked,
    Opened,
    Refused,
    Sent,
    StillConnected,
    Stored,
    Subscribed,
)
from model.example import Example
from model.explain import judge
from model.judgement import Allowed, Broken
from model.log import Position
from model.operations import AnyOperation, CreateTopic, OpenProducer, Send, Unload
from model.service.unexpected import Silence
from model.subscription_operations import (
    AckById,
    CreateSubscription,
    DeleteSubscription,
    PeekMessage,
    ReadCursor,
    ResetCursor,
    Skip,
    SkipAll,
    Subscribe,
)
from model.vocabulary import Entry, Message
from tests.verdicts import Happened, allowed_by, broken_by

ALL = tuple(Entry((Message(number, f"b{number}"),)) for number in range(1, 7))
NONE = Position(3, -1)
OPENS: Happened = (OpenProducer("p", "t", "p"), Opened(-1))
BEGIN: tuple[Happened, ...] = (
    (
        CreateTopic("t", "own-namespace-off", persistence="every-ack"),
        Created(deduplication=False, snapshot_room=6, ledger_room=20),
    ),
    OPENS,
    (CreateSubscription("t", "s"), Done()),
    (Send("p", ALL), Sent(tuple(Stored(Position(3, entry)) for entry in range(6)))),
)
UNLOADED: Happened = (Unload("t", scope="namespace"), Done())
GONE, EXISTS, FAILED = Refused("404", "no such subscription"), Refused("409", "it exists"), Refused("500", "why")
RESET: tuple[AnyOperation, AnyOutcome] = (ResetCursor("t", "s", "b5"), CursorReset(Position(3, 4)))


def shows(acknowledged: int) -> Happened:
    """The stats show that so many of the entries are acknowledged."""
    return ReadCursor("t", "s"), CursorRead(Position(3, acknowledged - 1), (), 6 - acknowledged, 0)


def both(first: Happened, second: Happened) -> Happened:
    return AtOnce(first[0], second[0]), BothAnswered(first[1], second[1])  # type: ignore[arg-type]


def after(*happened: Happened, knows: bool = False) -> Example:
    return allowed_by(*BEGIN, *happened, known=DEVIATIONS if knows else ()).state


def rule_broken(*happened: Happened, knows: bool = False) -> str:
    *before, last = happened
    judged = judge(after(*before, knows=knows), last[0], last[1])
    assert isinstance(judged, Broken), judged
    return judged.rule


CLEARS: tuple[Happened, ...] = (
    (SkipAll("t", "s", "namespace"), Done()),
    (SkipAll("t", "s", "bundle"), Done()),
    (ClearBacklog("t"), Done()),
)


@pytest.mark.parametrize("clears", CLEARS)
def test_a_request_for_a_namespace_clears_the_backlog(clears: Happened) -> None:
    judged = allowed_by(*BEGIN, UNLOADED, clears, shows(6))
    assert "SERVE-11" in judged.exercised
    assert rule_broken(UNLOADED, clears, shows(0)) == "SERVE-11"


UNSUBSCRIBES: Happened = (DeleteSubscription("t", "s", scope="namespace"), Done())


def test_a_request_for_a_namespace_removes_the_subscription() -> None:
    judged = allowed_by(*BEGIN, UNLOADED, UNSUBSCRIBES, (ReadCursor("t", "s"), GONE))
    assert "SERVE-11" in judged.exercised
    assert rule_broken(UNLOADED, UNSUBSCRIBES, shows(0)) == "SERVE-11"


def test_a_bundle_that_nobody_owns_may_refuse_to_unsubscribe() -> None:
    refused = Refused("412", "Failed to find ownership")
    after(UNLOADED, (DeleteSubscription("t", "s", scope="bundle"), refused), shows(0))
    assert rule_broken((DeleteSubscription("t", "s", scope="bundle"), refused)) == "SERVE-01"


def test_nobody_stays_connected_to_a_namespace_that_was_unloaded() -> None:
    assert rule_broken((Unload("t", scope="bundle"), StillConnected(("p",)))) == "SERVE-11"


@pytest.mark.parametrize("step", [*CLEARS, UNSUBSCRIBES])
def test_only_a_request_for_unloaded_topics_may_do_nothing(step: Happened) -> None:
    after(UNLOADED, step, shows(0), knows=True)
    assert rule_broken(step, shows(0), knows=True) == "SERVE-11"
    assert rule_broken(UNLOADED, OPENS, step, shows(0), knows=True) == "SERVE-11"


SKIP_2: Happened = (Skip("t", "s", 2), Done())


@pytest.mark.parametrize("acknowledged", [4, 6])
def test_each_of_two_requests_takes_effect_in_one_of_both_orders(acknowledged: int) -> None:
    judged = allowed_by(*BEGIN, both(SKIP_2, RESET), shows(acknowledged))
    assert "SERVE-11" in judged.exercised


@pytest.mark.parametrize("acknowledged", [0, 2, 5])
def test_none_of_two_requests_is_lost(acknowledged: int) -> None:
    assert rule_broken(both(SKIP_2, RESET), shows(acknowledged)) == "SERVE-11"
    assert rule_broken(both(SKIP_2, SKIP_2), shows(2)) == "SERVE-11"


def test_a_request_that_is_refused_has_no_effect() -> None:
    refused: Happened = (RESET[0], Refused("412", "busy"))
    after(both(SKIP_2, refused), shows(2))
    assert rule_broken(both(SKIP_2, refused), shows(4)) == "SERVE-11"


DELETES: Happened = (DeleteSubscription("t", "s"), Done())


def test_the_answers_tell_the_order() -> None:
    is_gone: Happened = (ReadCursor("t", "s"), GONE)
    after(both(DELETES, (CreateSubscription("t", "s"), EXISTS)), is_gone)
    after(both((CreateSubscription("t", "s"), Done()), DELETES), shows(0))
    after(both(DELETES, (Skip("t", "s", 2), GONE)), is_gone)
    after(both((PeekMessage("t", "s", 1), MessagePeeked(Position(3, 2))), SKIP_2), shows(2))
    after(both((PeekMessage("t", "s", 1), MessagePeeked(Position(3, 0))), SKIP_2), shows(2))
    assert rule_broken(both((PeekMessage("t", "s", 1), MessagePeeked(Position(3, 1))), SKIP_2)) == "SERVE-11"


def test_two_deletions_at_once_may_both_be_confirmed() -> None:
    consumer: Happened = (Subscribe("c", "t", "s", "Shared"), Subscribed())
    by_force: Happened = (DeleteSubscription("t", "s", by_force=True), Done())
    for before, deletions, allowed in (
        ((), both(DELETES, DELETES), True),
        ((consumer,), both(DELETES, by_force), True),
        ((consumer,), both(by_force, DELETES), True),
        ((consumer,), both(DELETES, DELETES), False),
        ((DELETES,), both(DELETES, DELETES), False),
    ):
        judged = judge(after(*before), deletions[0], deletions[1])
        assert isinstance(judged, Allowed) == allowed, (before, deletions, judged)


def test_a_reset_beside_a_skip_may_miscount_what_was_acknowledged_before_either() -> None:
    """Seen on 4.0.8: the skip took effect last, and the backlog was too low by the acks before both."""
    consumer: Happened = (Subscribe("c", "t", "s", "Shared"), Subscribed())
    messages = tuple(Delivery(Position(3, number), business_id=f"b{number + 1}") for number in (1, 2))
    acked: Happened = (AckById("c", ("b2", "b3")), Acknowledged(messages, receipt=True))
    skip: Happened = (Skip("t", "s", 1), Done())
    reset: Happened = (ResetCursor("t", "s", "b4"), CursorReset(Position(3, 3)))
    for requests in (both(skip, reset), both(reset, skip)):
        state = after(consumer, acked, requests, knows=True)
        for backlog, allowed in ((2, True), (0, True), (3, False)):
            judged = judge(state, ReadCursor("t", "s"), CursorRead(Position(3, 3), (), backlog, 0))
            assert isinstance(judged, Allowed) == allowed, (backlog, judged)


def test_an_internal_error_is_no_refusal() -> None:
    assert rule_broken(both((Skip("t", "s", 2), FAILED), RESET)) == "SERVE-11"


def test_only_a_skip_beside_a_reset_or_a_deletion_may_fail() -> None:
    fails: Happened = (Skip("t", "s", 2), FAILED)
    after(both(fails, RESET), shows(4), knows=True)
    after(both(DELETES, fails), (ReadCursor("t", "s"), GONE), knows=True)
    assert rule_broken(both(fails, RESET), shows(6), knows=True) == "SERVE-11"
    assert rule_broken(both(fails, SKIP_2), knows=True) == "SERVE-11"
    assert rule_broken(both(SKIP_2, (RESET[0], FAILED)), knows=True) == "SERVE-11"
    assert rule_broken(both((DELETES[0], Refused("412", "used")), fails), knows=True) == "SERVE-11"


def unanswered(first: AnyOperation, second: AnyOperation) -> Allowed[Example] | Broken:
    silence = Silence("admin", "AtOnce", "10 s")
    asked = AtOnce(first, second)  # type: ignore[arg-type]
    return judge(after(knows=True), asked, Abandoned("no answer"), unexpected=(silence,))


def test_only_the_second_of_two_deletions_may_be_unanswered() -> None:
    assert isinstance(unanswered(DELETES[0], DELETES[0]), Allowed)
    assert isinstance(unanswered(DELETES[0], SKIP_2[0]), Broken)


def test_a_peek_at_the_same_time_as_a_deletion_may_create_the_subscription_again() -> None:
    peeked: Happened = (PeekMessage("t", "s", 1), MessagePeeked(Position(3, 0)))
    at_once = broken_by(*BEGIN, both(peeked, DELETES), shows(0), step_ms=10)
    assert at_once.deviation == "peek-creates-subscription"
    one_by_one = broken_by(*BEGIN, peeked, DELETES, shows(0), step_ms=10)
    assert (one_by_one.rule, one_by_one.deviation) == ("ACK-19", None)


def test_a_deviation_before_two_requests_is_explained_after_them() -> None:
    """What happened silently before is found through both requests."""
    begin = (UNLOADED, (SkipAll("t", "s", "namespace"), Done()), both(SKIP_2, (Skip("t", "s", 1), Done())))
    after(*begin, shows(3), knows=True)
    assert broken_by(*BEGIN, *begin, shows(3)).deviation == "clear-backlog-skips-unloaded-topics"
