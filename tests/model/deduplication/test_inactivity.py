"""Producers that are inactive: who may be forgotten when the broker purges them, and who must be known (DEDUP-20)."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from model.cursors.ledger import Interval
from model.deviations import DEVIATIONS
from model.deviations.loads import RECOVERY_MS
from model.example.state import Judgement
from model.explain import judge
from model.judgement import Allowed, Broken
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


def forgotten_after(wait_ms: float, topic: str = "topic-on", *, known: Collection[str] = DEVIATIONS) -> Judgement:
    """What is judged if a producer opens so long after a topic is loaded, and is forgotten while it is connected."""
    loaded = steps(f"{SENT.replace('t on', f't {topic}')}; t unloads; q opens 5")
    verdict = judged(*loaded, known=known)
    for operation, outcome, *_ in steps("p opens 5; t purges 400; p sends 5@2"):
        assert isinstance(verdict, Allowed), verdict
        verdict = judge(verdict.state, operation, outcome, at=Interval(wait_ms, wait_ms))
    return verdict


def test_a_second_recovery_counts_only_for_producers_that_open_during_it() -> None:
    name = "second-recovery-counts-as-leave"
    allowed = forgotten_after(RECOVERY_MS, known=[name])
    assert isinstance(allowed, Allowed)
    assert allowed.deviations == (name,)
    for broken in (forgotten_after(RECOVERY_MS + 1), forgotten_after(RECOVERY_MS, "on")):
        assert isinstance(broken, Broken)
        assert (broken.rule, broken.deviation) == ("DEDUP-20", None)
