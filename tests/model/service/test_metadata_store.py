"""A metadata store that is away for a moment: what it explains, and what it does not."""

from __future__ import annotations

import pytest

from conformance.history.document import Step
from model.events import Created, Done, LoggedEntry, LogRead, Opened, Sent, Skipped, Stored
from model.judgement import Broken
from model.log import Position
from model.operations import CreateTopic, Disturbance, DisturbMetadataStore, OpenProducer, ReadLog, ReadSnapshot, Send
from model.service.unexpected import Closed, ErrorAnswer, Unexpected
from model.vocabulary import Entry, Message
from tests.verdicts import Happened, allowed_by, broken_by, judged

ROOM = 5
BEGIN: tuple[Happened, ...] = (
    (CreateTopic("t", persistence="every-ack"), Created(deduplication=False, snapshot_room=5, ledger_room=ROOM)),
    (OpenProducer("p", "t", "p"), Opened(-1)),
)
EXPIRED = ErrorAnswer("admin", "GET stats of topic t", "500", "KeeperErrorCode = Session expired", "t", is_last=False)
LOST = ErrorAnswer("admin", "GET stats of topic t", "500", "KeeperErrorCode = ConnectionLoss", "t", is_last=False)
OTHER = ErrorAnswer("admin", "GET stats of topic t", "500", "NullPointerException", "t", is_last=False)


def sends(first: int, count: int, *, ledger: int = 7) -> Happened:
    """So many entries, from this one on, each stored at its number."""
    numbers = range(first, first + count)
    entries = tuple(Entry((Message(number, f"b{number}"),)) for number in numbers)
    return Send("p", entries), Sent(tuple(Stored(Position(ledger, number)) for number in numbers))


def store(how: Disturbance = "freeze") -> Happened:
    return DisturbMetadataStore(how), Done()


def log_of(count: int) -> Happened:
    stored = (LoggedEntry(Position(7, n), "p", Entry((Message(n, f"b{n}"),))) for n in range(count))
    return ReadLog("t"), LogRead(tuple(stored))


def test_a_full_ledger_is_kept_open_while_the_store_is_away_and_not_longer() -> None:
    more = sends(3, 4)
    assert broken_by(*BEGIN, sends(0, 3), more).rule == "ACK-06"
    allowed_by(*BEGIN, sends(0, 3), store(), more, log_of(7))
    in_next = (*BEGIN, sends(0, 3), store(), log_of(3), sends(0, 6, ledger=8))
    allowed_by(*in_next, step_ms=5_000)
    assert "8:5 was confirmed in a ledger that takes 5" in broken_by(*in_next, step_ms=30_000).because


def after(how: Disturbance, observed: Unexpected, *, known: str = "", waits_ms: float = 0) -> Broken | None:
    happened = (*BEGIN, store(how))
    before = judged(*happened, known=known)
    assert not isinstance(before, Broken)
    step = Step(
        operation=ReadSnapshot("t"),
        outcome=Skipped("no matter"),
        invoked_ms=waits_ms,
        completed_ms=waits_ms,
        unexpected=(observed,),
    )
    answer = judged(step, start=before.state)
    return answer if isinstance(answer, Broken) else None


def test_a_request_fails_in_an_expired_session_by_a_deviation() -> None:
    no_owner = ErrorAnswer("admin", "GET stats of topic t", "412", "Can't find owner for topic t", "t")
    assert after("expire", no_owner, known="expired-session-fails-requests") is None
    broken = after("expire", EXPIRED)
    assert broken is not None
    assert (broken.rule, broken.deviation) == ("SERVE-01", "expired-session-fails-requests")
    assert after("expire", EXPIRED, known="expired-session-fails-requests") is None


@pytest.mark.parametrize(
    ("how", "observed", "waits_ms"),
    [("expire", OTHER, 0), ("freeze", EXPIRED, 0), ("restart", EXPIRED, 0), ("expire", EXPIRED, 60_000)],
)
def test_an_expired_session_explains_no_other_error_and_none_later(
    how: Disturbance, observed: Unexpected, waits_ms: float
) -> None:
    broken = after(how, observed, known="expired-session-fails-requests", waits_ms=waits_ms)
    assert broken is not None
    assert (broken.rule, broken.deviation) == ("SERVE-01", None)


def test_a_write_may_fail_in_an_expired_session_and_waits_for_a_store_that_is_only_away() -> None:
    closed = Closed("p", "the broker closed the producer", "t")
    assert after("expire", closed) is None
    for how in ("freeze", "restart"):
        broken = after(how, closed)
        assert broken is not None
        assert broken.rule == "SERVE-02"


def test_a_request_fails_without_a_connection_to_a_store_that_was_killed_by_a_deviation() -> None:
    name = "lost-store-connection-fails-requests"
    broken = after("restart", LOST)
    assert broken is not None
    assert (broken.rule, broken.deviation) == ("SERVE-01", name)
    assert after("restart", LOST, known=name) is None


@pytest.mark.parametrize(
    ("how", "observed", "waits_ms"),
    [("restart", OTHER, 0), ("freeze", LOST, 0), ("expire", LOST, 0), ("restart", LOST, 60_000)],
)
def test_a_killed_store_explains_no_other_error_and_none_later(
    how: Disturbance, observed: Unexpected, waits_ms: float
) -> None:
    broken = after(how, observed, known="lost-store-connection-fails-requests", waits_ms=waits_ms)
    assert broken is not None
    assert (broken.rule, broken.deviation) == ("SERVE-01", None)
