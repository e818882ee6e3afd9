"""Waiting: what is called again, what is not, and for how long."""

from __future__ import annotations

import pytest

from conformance.clients.admin.http import AdminError
from conformance.clients.outcomes import ServerRefused
from conformance.wait import Deadline, retry, wait_until


class Answers:
    """A broker that refuses with these, one after another, and then answers."""

    def __init__(self, *statuses: int) -> None:
        self.left = list(statuses)

    def __call__(self) -> str:
        if self.left:
            raise AdminError("GET topic", self.left.pop(0), "not now")
        return "answer"


def test_a_request_that_fails_while_a_topic_is_loaded_is_repeated() -> None:
    assert retry(Answers(503, 500), 10) == "answer"


@pytest.mark.parametrize(("statuses", "timeout_s", "left"), [((503, 404, 503), 10, 1), ((503, 503), 0, 1)])
def test_a_request_is_not_repeated_after_another_refusal_or_after_the_deadline(
    statuses: tuple[int, ...], timeout_s: float, left: int
) -> None:
    answers = Answers(*statuses)
    with pytest.raises(AdminError):
        retry(answers, timeout_s)
    assert len(answers.left) == left


def test_the_caller_may_say_which_refusals_pass() -> None:
    busy = iter([ServerRefused("ConsumerBusy", "another one is connected"), None])

    def subscribe() -> str:
        if (refused := next(busy)) is not None:
            raise refused
        return "subscribed"

    assert retry(subscribe, 10, may_pass=lambda error: isinstance(error, ServerRefused)) == "subscribed"


@pytest.mark.parametrize(
    ("code", "may_pass"), [("ServiceNotReady", True), ("PersistenceError", True), ("ConsumerBusy", False)]
)
def test_a_refusal_passes_only_where_the_topic_is_being_loaded(code: str, *, may_pass: bool) -> None:
    assert ServerRefused(code, "").may_pass is may_pass


def test_a_condition_is_called_until_it_is_true() -> None:
    looks = iter([0, 0, 7])
    assert wait_until(lambda: next(looks), 10, pause_s=0) == 7


def test_a_condition_is_called_once_even_after_the_deadline_and_its_last_value_is_returned() -> None:
    looks = iter([0])
    assert wait_until(lambda: next(looks), Deadline.after(0)) == 0


def test_a_condition_that_becomes_true_during_the_last_pause_counts() -> None:
    looks = iter([False, True])
    assert wait_until(lambda: next(looks), 0.01, pause_s=0.05)
