"""SERVE-06 and SERVE-07 on small histories: takeovers, frozen owners, lost bookies."""

from __future__ import annotations

import pytest

from model.deviations.service import SESSION_RECREATED_IN_A_LOOP
from model.events import (
    Abandoned,
    AnyOutcome,
    BookiesLeft,
    Created,
    Done,
    Duplicate,
    FormerAnswer,
    Late,
    LoggedEntry,
    LogRead,
    Opened,
    Refused,
    Sent,
    Stored,
    TakenOver,
    Thawed,
    Unknown,
)
from model.example import Example, judge
from model.judgement import Allowed, Broken
from model.log import Position
from model.operations import (
    AnyOperation,
    CreateTopic,
    FreezeOwner,
    LoseBookie,
    OpenProducer,
    ReadLog,
    RestoreBookies,
    Send,
    SendToFrozen,
    TakeOver,
    ThawOwners,
)
from model.service.unexpected import Overdue
from model.vocabulary import Entry, Message, Quorum

Step = tuple[AnyOperation, AnyOutcome] | tuple[AnyOperation, AnyOutcome, tuple[Late, ...]]

LOST = TakenOver(("t",))
REFUSED = Refused("PersistenceError")


def entry(number: int) -> Entry:
    return Entry((Message(number, f"b{number}"),))


def at(ledger: int, number: int) -> Stored:
    return Stored(Position(ledger, number))


def created(quorum: Quorum | None = None) -> Step:
    operation = CreateTopic("t", persistence="every-ack", quorum=quorum)
    return operation, Created(deduplication=False, snapshot_room=9, ledger_room=5)


def opened(session: str = "s") -> Step:
    return OpenProducer(session, "t", "p"), Opened(-1)


def sent(number: int, *answers: Stored | Refused | Unknown) -> Step:
    return Send("s", (entry(number),)), Sent(answers)


def logged(*entries: tuple[int, int, int]) -> Step:
    read = tuple(LoggedEntry(Position(ledger, index), "p", entry(number)) for ledger, index, number in entries)
    return ReadLog("t"), LogRead(read)


def verdict(*steps: Step) -> tuple[str, ...] | Broken:
    """The rules of SERVE that the last step exercised, or what breaks a rule."""
    state, exercised = Example(), tuple[str, ...]()
    for operation, outcome, *late in steps:
        judged = judge(state, operation, outcome, late[0] if late else ())
        if isinstance(judged, Broken):
            return judged
        state, exercised = judged.state, judged.exercised
    return tuple(rule for rule in exercised if rule in ("SERVE-06", "SERVE-07"))


BEFORE = (created(), opened(), sent(1, at(3, 0)), sent(2, at(3, 1)))


@pytest.mark.parametrize("how", ["kill", "shutdown", "unload"])
def test_what_was_confirmed_is_there_after_a_takeover(how: str) -> None:
    taken = (TakeOver("t", how), LOST)  # type: ignore[arg-type]
    assert verdict(*BEFORE, taken, logged((3, 0, 1), (3, 1, 2))) == ("SERVE-06",)


def test_without_a_takeover_nothing_is_exercised() -> None:
    assert verdict(*BEFORE, logged((3, 0, 1), (3, 1, 2))) == ()
    same = (TakeOver("t", "unload"), TakenOver(("t",), is_elsewhere=False))
    assert verdict(*BEFORE, same, logged((3, 0, 1), (3, 1, 2))) == ()


@pytest.mark.parametrize(
    "log",
    [
        logged((3, 0, 1)),
        logged((3, 0, 1), (3, 1, 9)),
        logged((3, 0, 1), (3, 1, 2), (4, 0, 2)),
        logged((3, 0, 1), (4, 0, 2)),
    ],
    ids=["lost", "another entry", "stored twice", "elsewhere"],
)
def test_a_takeover_that_loses_or_repeats_something_breaks_the_rule(log: Step) -> None:
    broken = verdict(*BEFORE, (TakeOver("t"), LOST), log)
    assert isinstance(broken, Broken)
    assert broken.rule == "SERVE-06"


def test_what_a_client_sent_twice_may_be_stored_twice() -> None:
    again = (opened(), sent(2, at(4, 0)))
    log = logged((3, 0, 1), (3, 1, 2), (4, 0, 2))
    assert verdict(*BEFORE, (TakeOver("t"), LOST), *again, log) == ("SERVE-06",)


IN_FLIGHT = (Send("s", (entry(3),), wait=False), Sent(()))
FROZEN = (FreezeOwner("t"), LOST, (Late("s", (Unknown("its broker is frozen"),)),))


def thawed(number: int, answer: Stored | Duplicate | Refused | Unknown) -> Step:
    return ThawOwners(), Thawed((FormerAnswer("s", entry(number), answer),))


def test_a_former_owner_may_confirm_late_what_it_had_stored() -> None:
    steps = (*BEFORE, IN_FLIGHT, FROZEN, thawed(3, at(3, 2)))
    assert verdict(*steps, logged((3, 0, 1), (3, 1, 2), (3, 2, 3))) == ("SERVE-06",)


def test_a_former_owner_must_not_confirm_what_is_not_in_the_log() -> None:
    broken = verdict(*BEFORE, IN_FLIGHT, FROZEN, thawed(3, at(3, 2)), logged((3, 0, 1), (3, 1, 2)))
    assert isinstance(broken, Broken)
    assert broken.because == "3 (b3) of p, confirmed at 3:2 of topic t, is lost after a takeover"


LATE = (SendToFrozen("s", (entry(4),)), Done())


@pytest.mark.parametrize("answer", [at(3, 2), Duplicate()])
def test_a_former_owner_must_not_confirm_what_it_was_sent_later(answer: Stored | Duplicate) -> None:
    broken = verdict(*BEFORE, FROZEN[:2], LATE, thawed(4, answer))
    assert isinstance(broken, Broken)
    assert broken.rule == "SERVE-06"


@pytest.mark.parametrize("answer", [REFUSED, Unknown("the connection ended")])
def test_a_former_owner_may_refuse_what_it_was_sent_later_and_must_not_store_it(answer: Refused | Unknown) -> None:
    steps = (*BEFORE, FROZEN[:2], LATE, thawed(4, answer))
    assert verdict(*steps) == ("SERVE-06",)
    assert verdict(*steps, logged((3, 0, 1), (3, 1, 2))) == ("SERVE-06",)
    broken = verdict(*steps, logged((3, 0, 1), (3, 1, 2), (3, 2, 4)))
    assert isinstance(broken, Broken)
    assert broken.because == "a former owner stored 4 (b4) of p in topic t, which it had lost"


def without_bookie(quorum: Quorum, left: int = 2) -> tuple[Step, ...]:
    return (created(quorum), opened(), sent(1, at(3, 0)), (LoseBookie(0), BookiesLeft(left)))


def test_a_topic_with_enough_bookies_left_goes_on_and_loses_nothing() -> None:
    steps = (*without_bookie("2/2/2"), sent(2, at(3, 1)))
    assert verdict(*steps) == ("SERVE-07",)
    assert verdict(*steps, logged((3, 0, 1), (3, 1, 2))) == ("SERVE-07",)


def test_a_topic_with_enough_bookies_left_that_does_not_go_on_breaks_the_rule() -> None:
    broken = verdict(*without_bookie("2/2/2"), sent(2, REFUSED))
    assert isinstance(broken, Broken)
    assert broken.rule == "SERVE-07"


def test_a_topic_without_enough_bookies_may_refuse_and_loses_nothing() -> None:
    steps = (*without_bookie("3/2/2"), sent(2, REFUSED))
    assert verdict(*steps) == ()
    assert verdict(*steps, logged((3, 0, 1))) == ("SERVE-07",)
    broken = verdict(*steps, logged())
    assert isinstance(broken, Broken)
    assert (broken.rule, broken.because) == (
        "SERVE-07",
        "1 (b1) of p, confirmed at 3:0 of topic t, is lost after the loss of a bookie",
    )


def test_writes_that_failed_without_enough_bookies_may_still_appear_when_these_are_back() -> None:
    back = (RestoreBookies(), BookiesLeft(3))
    steps = (*without_bookie("3/3/2"), sent(2, Unknown("the connection ended")), back, opened(), sent(3, at(4, 0)))
    assert isinstance(judged := verdict(*steps, logged((3, 0, 1), (3, 1, 2), (4, 0, 3))), tuple), judged
    assert isinstance(judged := verdict(*steps, logged((3, 0, 1), (4, 0, 3))), tuple), judged


def test_a_broker_that_does_not_come_back_from_a_lost_session_has_a_deviation_only_when_it_is_thawed() -> None:
    late = (Overdue("SERVE-02", "a broker that lost its session is not registered again"),)
    broken = judge(Example(), ThawOwners(), Abandoned("late"), unexpected=late)
    assert isinstance(broken, Broken)
    assert (broken.rule, broken.deviation) == ("SERVE-02", SESSION_RECREATED_IN_A_LOOP)
    known = Example(known=frozenset({SESSION_RECREATED_IN_A_LOOP}))
    allowed = judge(known, ThawOwners(), Abandoned("late"), unexpected=late)
    assert isinstance(allowed, Allowed)
    assert allowed.deviations == (SESSION_RECREATED_IN_A_LOOP,)
    elsewhere = judge(known, TakeOver("t"), Abandoned("late"), unexpected=late)
    assert isinstance(elsewhere, Broken)
    assert elsewhere.deviation is None
