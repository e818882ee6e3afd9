"""SERVE-15: every rule holds after a broker of another release took a topic over, and breaks with it."""

from __future__ import annotations

import pytest

from model.events import TakenOver
from model.explain import judge
from model.judgement import Allowed
from model.operations import TakeOver
from model.upgrades import OF_UPGRADES
from tests.notation import steps
from tests.verdicts import Happened, allowed_by

BEFORE = "t off; p opens -1; p sends 1@3:0"
(READ,) = steps("log p:1@3:0")


def taken_over(*releases: str) -> Happened:
    return TakeOver("t", "unload", "newer"), TakenOver(("t",), releases=releases or None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("releases", "times"),
    [(("4.0.8", "4.2.4"), 1), (("4.2.4", "4.0.8"), 1), (("4.0.8", "4.0.8"), 0), ((), 0)],
    ids=["upgrade", "rollback", "same release", "one release"],
)
def test_it_is_exercised_by_what_is_checked_after_a_change_of_the_release(
    releases: tuple[str, ...], times: int
) -> None:
    after = allowed_by(*steps(BEFORE), taken_over(*releases)).state
    read = judge(after, *READ)
    assert isinstance(read, Allowed)
    assert read.exercised.count(OF_UPGRADES) == times


def test_a_later_takeover_within_one_release_does_not_end_it() -> None:
    changed, same = taken_over("4.0.8", "4.2.4"), taken_over("4.2.4", "4.2.4")
    assert OF_UPGRADES in allowed_by(*steps(BEFORE), changed, same, READ).exercised
