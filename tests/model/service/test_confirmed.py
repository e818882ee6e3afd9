"""SERVE-06, -07 and -14 on small histories: takeovers, frozen owners, lost bookies, power failures."""

from __future__ import annotations

from dataclasses import replace

import pytest

from model.deviations import DEVIATIONS
from model.events import Abandoned, Done, TakenOver
from model.explain import judge
from model.judgement import Allowed, Broken
from model.operations import AnyOperation, Kill, ReadLog, TakeOver, ThawOwners, Unload
from model.service.unexpected import STALE_OWNER, Overdue, Silence
from tests.notation import steps
from tests.verdicts import allowed_by, broken_by, judged

BEFORE = "t off; p opens -1; p sends 1@3:0; p sends 2@3:1"
READ = "log p:1@3:0 p:2@3:1"
"""The log has what was stored before, and nothing else."""


def exercised(text: str) -> tuple[str, ...]:
    """Which of these rules the last step of a history exercises, which breaks none."""
    *before, last = steps(text)
    after = judged(last, start=allowed_by(*before).state)
    assert isinstance(after, Allowed), after
    return tuple(rule for rule in after.exercised if rule in ("SERVE-06", "SERVE-07", "SERVE-14"))


def broken(text: str) -> str:
    """Which rule the last step of a history breaks, and how."""
    found = broken_by(*steps(text))
    return f"{found.rule}: {found.because}"


@pytest.mark.parametrize("how", ["kill", "shutdown", "unload"])
def test_what_was_confirmed_is_there_after_a_takeover(how: str) -> None:
    assert exercised(f"{BEFORE}; t moves {how}; {READ}") == ("SERVE-06",)


def test_without_a_takeover_nothing_is_exercised() -> None:
    assert exercised(f"{BEFORE}; {READ}") == ()
    before, (read,) = steps(BEFORE), steps(READ)
    same = (TakeOver("t", "unload"), TakenOver(("t",), is_elsewhere=False))
    assert "SERVE-06" not in allowed_by(*before, same, read).exercised


@pytest.mark.parametrize(
    "log",
    ["p:1@3:0", "p:1@3:0 p:9@3:1", "p:1@3:0 p:2@3:1 p:2@4:0", "p:1@3:0 p:2@4:0"],
    ids=["lost", "another entry", "stored twice", "elsewhere"],
)
def test_a_takeover_that_loses_or_repeats_something_breaks_the_rule(log: str) -> None:
    assert broken(f"{BEFORE}; t moves; log {log}").startswith("SERVE-06")


def test_what_a_client_sent_twice_may_be_stored_twice() -> None:
    assert exercised(f"{BEFORE}; t moves; p opens -1; p sends 2@4:0; {READ} p:2@4:0") == ("SERVE-06",)


def test_what_pulsar_client_sent_again_may_be_stored_again() -> None:
    assert exercised(f"{BEFORE}; t moves; p opens -1 official; p sends 2@4:0; {READ} p:2@4:0") == ("SERVE-06",)


IN_FLIGHT = f"{BEFORE}; p sends 3; t freezes ~ p ?; thaws p 3@3:2"


def test_a_former_owner_may_confirm_late_what_it_had_stored() -> None:
    assert exercised(f"{IN_FLIGHT}; {READ} p:3@3:2") == ("SERVE-06",)


def test_a_former_owner_must_not_confirm_what_is_not_in_the_log() -> None:
    because = "3 (p3) of p, confirmed at 3:2 of topic t, is lost after a takeover"
    assert broken(f"{IN_FLIGHT}; {READ}") == f"SERVE-06: {because}"


LATE = f"{BEFORE}; t freezes; p sends-frozen 4"


@pytest.mark.parametrize("answer", ["@3:2", "=dup"])
def test_a_former_owner_must_not_confirm_what_it_was_sent_later(answer: str) -> None:
    assert broken(f"{LATE}; thaws p 4{answer}").startswith("SERVE-06")


@pytest.mark.parametrize("answer", ["=PersistenceError", "=?"])
def test_a_former_owner_may_refuse_what_it_was_sent_later_and_must_not_store_it(answer: str) -> None:
    thawed = f"{LATE}; thaws p 4{answer}"
    assert exercised(thawed) == ("SERVE-06",)
    assert exercised(f"{thawed}; {READ}") == ("SERVE-06",)
    because = "a former owner stored 4 (p4) of p in topic t, which it had lost"
    assert broken(f"{thawed}; {READ} p:4@3:2") == f"SERVE-06: {because}"


def without_bookie(quorum: str) -> str:
    return f"t off {quorum}; p opens -1; p sends 1@3:0; bookies 2"


def test_a_topic_with_enough_bookies_left_goes_on_and_loses_nothing() -> None:
    history = f"{without_bookie('2/2/2')}; p sends 2@3:1"
    assert exercised(history) == ("SERVE-07",)
    assert exercised(f"{history}; {READ}") == ("SERVE-07",)


def test_a_topic_with_enough_bookies_left_that_does_not_go_on_breaks_the_rule() -> None:
    assert broken(f"{without_bookie('2/2/2')}; p sends 2=PersistenceError").startswith("SERVE-07")


def test_a_topic_without_enough_bookies_may_refuse_and_loses_nothing() -> None:
    history = f"{without_bookie('3/2/2')}; p sends 2=PersistenceError"
    assert exercised(history) == ()
    assert exercised(f"{history}; log p:1@3:0") == ("SERVE-07",)
    because = "1 (p1) of p, confirmed at 3:0 of topic t, is lost after the loss of a bookie"
    assert broken(f"{history}; log") == f"SERVE-07: {because}"


def test_a_log_that_cannot_be_read_to_its_end_after_the_loss_of_a_bookie_breaks_the_rule() -> None:
    silent = (Silence("binary", "ReadLog", "nothing more came", "t"),)
    for history in (without_bookie("2/2/2"), f"{without_bookie('2/2/2')}; bookies 3"):
        read = judge(allowed_by(*steps(history)).state, ReadLog("t"), Abandoned("no answer"), unexpected=silent)
        assert isinstance(read, Broken)
        assert read.rule == "SERVE-07"
    nothing_stored, nothing_lost = "t off 2/2/2; bookies 2", "t off 2/2/2; p opens -1; p sends 1@3:0"
    others = ((nothing_stored, ReadLog("t")), (nothing_lost, ReadLog("t")), (without_bookie("2/2/2"), Unload("t")))
    for history, operation in others:
        other = judge(allowed_by(*steps(history)).state, operation, Abandoned("no answer"), unexpected=silent)
        assert isinstance(other, Broken)
        assert other.rule == "SERVE-01"


POWER_FAILED = f"{BEFORE}; power fails"


def test_what_was_confirmed_is_there_after_a_power_failure() -> None:
    assert exercised(f"{POWER_FAILED}; {READ}") == ("SERVE-14",)
    assert exercised("t off 2/2/2; p opens -1; p sends 1@3:0; bookies 2 power-failure; log p:1@3:0") == ("SERVE-14",)


@pytest.mark.parametrize("log", ["p:1@3:0", "p:1@3:0 p:9@3:1", "p:2@3:1"], ids=["lost", "other bytes", "first lost"])
def test_a_power_failure_that_loses_what_was_confirmed_breaks_the_rule(log: str) -> None:
    assert broken(f"{POWER_FAILED}; log {log}").startswith("SERVE-14")


def test_a_kill_without_a_power_failure_is_not_judged_as_one() -> None:
    killed = allowed_by(*steps(BEFORE), (Kill(power_fails=True), Done()), *steps(READ))
    assert "SERVE-14" not in killed.exercised


def test_a_log_that_cannot_be_read_to_its_end_after_a_power_failure_breaks_the_rule() -> None:
    silent = (Silence("binary", "ReadLog", "nothing more came", "t"),)
    read = judge(allowed_by(*steps(POWER_FAILED)).state, ReadLog("t"), Abandoned("no answer"), unexpected=silent)
    assert isinstance(read, Broken)
    assert read.rule == "SERVE-14"
    assert "after a power failure" in read.because


def test_writes_that_failed_without_enough_bookies_may_still_appear_when_these_are_back() -> None:
    history = f"{without_bookie('3/3/2')}; p sends 2=?; bookies 3; p opens -1; p sends 3@4:0"
    for log in (f"{READ} p:3@4:0", "log p:1@3:0 p:3@4:0"):
        allowed_by(*steps(f"{history}; {log}"))


OWNER_FROZEN = allowed_by(*steps(f"{BEFORE}; t freezes"), known=DEVIATIONS).state
LOST_SESSION = "30 s after it was thawed, a broker that lost its session"


@pytest.mark.parametrize(
    "why",
    [
        "is not registered again",
        "is not registered for 3 s in one session",
        f"is registered again, but takes pulsar://h:1 {STALE_OWNER}",
    ],
)
def test_a_thawed_broker_whose_sessions_are_lost_is_a_deviation(why: str) -> None:
    late = (Overdue("SERVE-02", f"{LOST_SESSION} {why}"),)
    allowed = judge(OWNER_FROZEN, ThawOwners(), Abandoned("late"), unexpected=late)
    assert isinstance(allowed, Allowed)
    assert allowed.deviations == ("session-recreated-in-a-loop",)
    unknown = replace(OWNER_FROZEN, known=frozenset())
    broken = judge(unknown, ThawOwners(), Abandoned("late"), unexpected=late)
    assert isinstance(broken, Broken)
    assert (broken.rule, broken.deviation) == ("SERVE-02", "session-recreated-in-a-loop")


@pytest.mark.parametrize(
    ("operation", "late"),
    [
        (ThawOwners(), Overdue("SERVE-02", f"{LOST_SESSION} is registered again, but does not answer")),
        (ThawOwners(), Overdue("SERVE-02", "pulsar-client did not reconnect")),
        (TakeOver("t"), Overdue("SERVE-02", f"{LOST_SESSION} is not registered again within 30 s")),
    ],
)
def test_a_thawed_broker_must_answer_once_it_is_registered(operation: AnyOperation, late: Overdue) -> None:
    broken = judge(OWNER_FROZEN, operation, Abandoned("late"), unexpected=(late,))
    assert isinstance(broken, Broken)
    assert (broken.rule, broken.deviation) == ("SERVE-02", None)
