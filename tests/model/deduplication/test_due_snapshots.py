"""Deduplication snapshots that are due, in small histories (DEDUP-11a)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from model.deviations.deduplication import TIMER_FAILS_WITHOUT_DEDUPLICATION
from model.events import Created
from model.judgement import Broken
from model.vocabulary import SnapshotSchedule
from tests.notation import steps
from tests.verdicts import Happened, deviates, exercised, judged

EMPTY = "snapshot-due @-1 of @0"


def history(period_s: float | None, *texts: str) -> list[Happened]:
    """A topic whose snapshots are due every three entries, or after this period, and what happened to it."""
    (operation, outcome, *_), *rest = steps("; ".join(("t on; p opens -1", *texts)))
    assert isinstance(outcome, Created)
    return [(operation, replace(outcome, snapshots=SnapshotSchedule(3, period_s))), *rest]


def is_exercised(*texts: str, period_s: float | None = None) -> bool:
    return "DEDUP-11a" in exercised(*history(period_s, *texts))


def is_broken(*texts: str, period_s: float | None = None) -> bool:
    verdict = judged(*history(period_s, *texts))
    return isinstance(verdict, Broken) and verdict.rule == "DEDUP-11a"


def test_enough_entries_take_a_snapshot() -> None:
    assert is_exercised(EMPTY, "p sends 1@0 2@1 3@2 4@3; snapshot-due @2 p=3 of @3")
    assert is_broken(EMPTY, "p sends 1@0 2@1 3@2; snapshot-due @-1 of @2")


def test_fewer_entries_need_not_take_one() -> None:
    assert not is_exercised(EMPTY, "p sends 1@0 2@1; snapshot-due @-1 of @1")


def test_the_timer_takes_all_that_is_stored() -> None:
    assert is_exercised("p sends 1@0; snapshot-due @0 p=1 of @0", period_s=2.0)
    assert is_broken("p sends 1@0 2@1 3@2 4@3 5@4; snapshot-due @3 p=4 of @4", period_s=2.0)


@pytest.mark.parametrize("between", ["t unloads; p opens 3", "t fails-snapshots"])
def test_the_entries_are_counted_anew_after_an_unload_and_where_snapshots_may_fail(between: str) -> None:
    assert not is_broken(EMPTY, "p sends 1@0 2@1 3@2", between, "snapshot-due @-1 of @2")


def test_the_timer_comes_after_snapshots_have_failed() -> None:
    failed = "t fails-snapshots; p sends 1@0"
    assert not is_broken(failed, "snapshot-due @-1 of @0", period_s=2.0)
    assert is_broken(failed, "t cleared; p sends 2@1; snapshot-due @-1 of @1", period_s=2.0)


def test_a_timer_that_fails_excuses_no_snapshot_that_is_due_by_entries() -> None:
    by_timer = history(2.0, "p sends 1@0; snapshot-due @-1 of @0")
    assert deviates(TIMER_FAILS_WITHOUT_DEDUPLICATION, *by_timer)
    by_entries = history(2.0, EMPTY, "p sends 1@0 2@1 3@2; snapshot-due @-1 of @2")
    verdict = judged(*by_entries, known=TIMER_FAILS_WITHOUT_DEDUPLICATION)
    assert isinstance(verdict, Broken)
    assert (verdict.rule, verdict.deviation) == ("DEDUP-11a", None)
