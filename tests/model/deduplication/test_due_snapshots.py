"""Deduplication snapshots that are due, in small histories (DEDUP-11a)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from model.events import Cleared, Created, Done, SnapshotRead
from model.judgement import Allowed, Broken
from model.log import Position
from model.operations import ClearFailpoints, ReadSnapshot, SetFailpoint
from model.vocabulary import SnapshotSchedule
from tests.judging import Happened, judged
from tests.model.deduplication.constructors import UNLOADED, at, created, opened, sent
from tests.model.deduplication.entries import entry


def topic(*, period_s: float | None) -> Happened:
    operation, outcome, *_ = created()
    assert isinstance(outcome, Created)
    return operation, replace(outcome, snapshots=SnapshotSchedule(3, period_s)), ()


def awaited(number: int, last: int) -> Happened:
    producers = {"p0": number + 1} if number >= 0 else {}
    return ReadSnapshot("t0", due=True), SnapshotRead(Position(1, number), producers, Position(1, last), 12.0), ()


def stored(first: int, end: int) -> Happened:
    return sent(*((entry(number + 1), at(number)) for number in range(first, end)))


def is_exercised(*history: Happened) -> bool:
    verdict = judged(*history)
    assert isinstance(verdict, Allowed), verdict
    return "DEDUP-11a" in verdict.exercised


def is_broken(*history: Happened) -> bool:
    verdict = judged(*history)
    return isinstance(verdict, Broken) and verdict.rule == "DEDUP-11a"


BY_ENTRIES = (topic(period_s=None), opened(-1), awaited(-1, 0))
BY_TIMER = (topic(period_s=2.0), opened(-1))


def test_enough_entries_take_a_snapshot() -> None:
    assert is_exercised(*BY_ENTRIES, stored(0, 4), awaited(2, 3))
    assert is_broken(*BY_ENTRIES, stored(0, 3), awaited(-1, 2))


def test_fewer_entries_need_not_take_one() -> None:
    assert not is_exercised(*BY_ENTRIES, stored(0, 2), awaited(-1, 1))


def test_the_timer_takes_all_that_is_stored() -> None:
    assert is_exercised(*BY_TIMER, stored(0, 1), awaited(0, 0))
    assert is_broken(*BY_TIMER, stored(0, 5), awaited(3, 4))


@pytest.mark.parametrize(
    "between", [[UNLOADED, opened(3, session="s2")], [(SetFailpoint("t0", "snapshot-write-fails"), Done(), ())]]
)
def test_the_entries_are_counted_anew_after_an_unload_and_where_snapshots_may_fail(between: list[Happened]) -> None:
    assert not is_broken(*BY_ENTRIES, stored(0, 3), *between, awaited(-1, 2))


def test_the_timer_comes_after_snapshots_have_failed() -> None:
    failed = (SetFailpoint("t0", "snapshot-write-fails"), Done(), ())
    cleared = (ClearFailpoints(), Cleared(()), ())
    assert not is_broken(*BY_TIMER, failed, stored(0, 1), awaited(-1, 0))
    assert is_broken(*BY_TIMER, failed, stored(0, 1), cleared, stored(1, 2), awaited(-1, 1))
