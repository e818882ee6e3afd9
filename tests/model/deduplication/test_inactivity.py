"""Producers that are inactive: who may be forgotten when the broker purges them, and who must be known (DEDUP-20)."""

from __future__ import annotations

import pytest

from model.deviations import DEVIATIONS
from model.judgement import Allowed
from tests.notation import steps
from tests.verdicts import broken_by, judged

SENT = "t on; p opens -1; p sends 5@0; q opens -1; q sends 5@1"
GONE = f"{SENT}; p closes"


@pytest.mark.parametrize(
    "text",
    [
        f"{SENT}; t purges 400; p sends 5@2",
        f"{SENT}; t purges 400; snapshot @1 q=5",
        f"{GONE}; t purges 200; p opens -1",
        f"{GONE}; t purges 200; p opens 5; t purges 200; p sends 5@2",
        f"{GONE}; t purges 200; q closes; t purges 200; q opens -1",
        f"{GONE}; t purges 200; t unloads; p opens -1",
    ],
)
def test_a_producer_that_was_not_inactive_for_so_long_is_known(text: str) -> None:
    assert broken_by(*steps(text), known=DEVIATIONS).rule == "DEDUP-20"


@pytest.mark.parametrize(
    "text",
    [
        f"{SENT}; t purges 400; p sends 5=dup",
        f"{GONE}; t purges 200; p opens 5",
        f"{GONE}; t purges 200; t unloads; p opens 5",
    ],
)
def test_a_known_producer_exercises_the_rule(text: str) -> None:
    allowed = judged(*steps(text))
    assert isinstance(allowed, Allowed)
    assert "DEDUP-20" in allowed.exercised


@pytest.mark.parametrize(
    "text",
    [
        f"{GONE}; t purges 400; p opens -1; p sends 5@2; log p:5@0 q:5@1 p:5@2",
        f"{GONE}; t purges 200; t purges 200; p opens -1; p sends 5@2",
        f"{GONE}; t purges 400; p opens 5; p sends 5=dup",
        f"{GONE}; t purges 400; t unloads; p opens 5",
        f"{GONE}; t purges 400; t unloads; p opens -1",
        f"{GONE}; t purges 400; snapshot @1 p=5 q=5; p opens -1",
        f"{GONE}; t purges 400; p opens -1; p sends 3@2; t unloads; p opens 3",
        f"{GONE}; t purges 400; p opens -1; p sends 3@2; t unloads; p opens 5",
    ],
)
def test_a_producer_that_was_inactive_for_longer_may_be_forgotten_or_not(text: str) -> None:
    allowed = judged(*steps(text))
    assert isinstance(allowed, Allowed), allowed
    assert "DEDUP-20" not in allowed.exercised


@pytest.mark.parametrize("forgotten", ["p sends 6@3", "p closes; p opens -1"])
def test_only_a_producer_that_returned_while_deduplication_was_off_is_purged_for_that(forgotten: str) -> None:
    purged = f"p sends 6@2; t purges 400; {forgotten}"
    known = f"{GONE}; t disables; p opens -1; t enables; {purged}"
    name = "connected-producer-purged"
    assert isinstance(judged(*steps(known), known=name), Allowed)
    assert broken_by(*steps(known)).deviation == name
    for nearby in (
        f"{GONE}; p opens 5; {purged}",
        f"{GONE}; t disables; t enables; p opens -1; {purged}",
        f"{GONE}; t disables; p opens -1; t unloads; t enables; p opens -1; {purged}",
        f"{GONE}; t disables; p opens -1; t enables; {purged.replace('400', '200')}",
    ):
        assert broken_by(*steps(nearby), known=DEVIATIONS).rule == "DEDUP-20", nearby
