"""Waiting: which calls are retried, which are not, and for how long."""

from __future__ import annotations

import time

import pytest

from conformance import wait
from conformance.clients.admin.http import AdminError
from conformance.clients.outcomes import ServerRefused
from conformance.lockstep.answers import may_be_repeated
from conformance.wait import Deadline, Patience, retry, wait_until


class Answers:
    """A broker that answers with these errors, one after the other, and then succeeds."""

    def __init__(self, *statuses: int) -> None:
        self.left = list(statuses)

    def __call__(self) -> str:
        if self.left:
            raise AdminError("GET topic", self.left.pop(0), "not now")
        return "answer"


def test_a_request_that_fails_while_its_topic_is_loading_is_retried() -> None:
    assert retry(Answers(503, 500), 10) == "answer"


@pytest.mark.parametrize(("statuses", "timeout_s", "left"), [((503, 404, 503), 10, 1), ((503, 503), 0, 1)])
def test_a_request_is_not_retried_after_a_permanent_error_or_the_deadline(
    statuses: tuple[int, ...], timeout_s: float, left: int
) -> None:
    answers = Answers(*statuses)
    with pytest.raises(AdminError):
        retry(answers, timeout_s)
    assert len(answers.left) == left


def test_the_caller_may_choose_which_errors_are_transient() -> None:
    busy = iter([ServerRefused("ConsumerBusy", "another one is connected"), None])

    def subscribe() -> str:
        if (refused := next(busy)) is not None:
            raise refused
        return "subscribed"

    assert retry(subscribe, 10, may_pass=lambda error: isinstance(error, ServerRefused)) == "subscribed"


@pytest.mark.parametrize(
    ("code", "may_pass"), [("ServiceNotReady", True), ("PersistenceError", True), ("ConsumerBusy", False)]
)
def test_an_error_is_transient_only_while_the_topic_is_loading(code: str, *, may_pass: bool) -> None:
    assert ServerRefused(code, "").may_pass is may_pass


@pytest.mark.parametrize(
    ("code", "is_repeated"), [("UnknownError", True), ("ServiceNotReady", True), ("TopicNotFound", False)]
)
def test_a_request_that_changes_nothing_is_repeated_after_an_internal_error(code: str, *, is_repeated: bool) -> None:
    assert may_be_repeated(ServerRefused(code, "")) is is_repeated


def test_wait_until_calls_the_condition_until_it_is_true() -> None:
    looks = iter([0, 0, 7])
    assert wait_until(lambda: next(looks), 10, pause_s=0) == 7


def test_after_the_deadline_the_condition_is_called_once_and_its_value_is_returned() -> None:
    looks = iter([0])
    assert wait_until(lambda: next(looks), Deadline.after(0)) == 0


def test_a_condition_that_becomes_true_during_the_last_pause_counts() -> None:
    looks = iter([False, True])
    assert wait_until(lambda: next(looks), 0.01, pause_s=0.05)


def test_patience_ends_after_a_while_without_progress_and_at_last_in_any_case(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    patience = Patience(5)

    def passed_at(now_s: float, *, progress: bool) -> bool:
        clock[0] = now_s
        passed = patience.passed
        if progress:
            patience.progressed()
        return passed

    assert [passed_at(now_s, progress=now_s < 110) for now_s in (104, 108, 112, 118)] == [False, False, False, True]
    assert [passed_at(now_s, progress=True) for now_s in range(118, 153)][-3:] == [True, True, True]


class Clock:
    """A clock that only sleeping moves, in place of the module ``time``."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.pauses_s: list[float] = []

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, pause_s: float) -> None:
        self.pauses_s.append(pause_s)
        self.now_s += pause_s


@pytest.mark.parametrize("after_s", [0.01, 0.3, 5.0])
def test_what_comes_late_is_asked_for_less_often_and_noticed_at_most_a_tenth_later(
    monkeypatch: pytest.MonkeyPatch, after_s: float
) -> None:
    clock = Clock()
    monkeypatch.setattr(wait, "time", clock)
    assert wait_until(lambda: clock.now_s >= after_s, 60)
    assert after_s <= clock.now_s <= 1.1 * after_s + wait.PAUSE_S
    assert clock.pauses_s[0] == wait.PAUSE_S
    assert max(clock.pauses_s) <= wait.AT_MOST_S
    assert len(clock.pauses_s) < 2 + 80 * after_s**0.5, "a steady pause would take 200 attempts a second"


def test_a_caller_may_pause_longer_and_a_request_is_repeated_less_and_less_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock()
    monkeypatch.setattr(wait, "time", clock)
    assert wait_until(lambda: clock.now_s >= 2.0, 60, pause_s=0.5)
    assert clock.pauses_s == [0.5] * 4
    clock.pauses_s.clear()
    assert retry(Answers(*[503] * 60), 60) == "answer"
    assert clock.pauses_s[0] == wait.PAUSE_S < clock.pauses_s[-1] <= wait.AT_MOST_S
