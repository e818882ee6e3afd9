"""What is asked once more, and what is not."""

from __future__ import annotations

import pytest

from conformance.clients.admin.http import AdminError
from conformance.lockstep.retrying import retried


class Answers:
    """A broker that refuses with these, one after another, and then answers."""

    def __init__(self, *statuses: int) -> None:
        self.left = list(statuses)

    def __call__(self) -> str:
        if self.left:
            raise AdminError("GET topic", self.left.pop(0), "not now")
        return "answer"


def test_what_fails_while_a_topic_is_loaded_is_asked_again() -> None:
    assert retried(Answers(503, 500), timeout_s=10) == "answer"


@pytest.mark.parametrize(("statuses", "timeout_s", "left"), [((503, 404, 503), 10, 1), ((503, 503), 0, 1)])
def test_what_is_refused_or_takes_too_long_is_not(statuses: tuple[int, ...], timeout_s: float, left: int) -> None:
    answers = Answers(*statuses)
    with pytest.raises(AdminError):
        retried(answers, timeout_s=timeout_s)
    assert len(answers.left) == left
