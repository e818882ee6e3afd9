"""The result of a hunt for a defect, from the events of its run."""

from __future__ import annotations

import msgspec
import pytest

from conformance.events import AnyEvent, HarnessErrorHappened
from conformance.faults import catalogue
from conformance.hunt_result import (
    DefectFound,
    DefectMissed,
    DefectSuspected,
    Hunted,
    HuntFailed,
    NotItsDoing,
    exit_status,
    fold,
)
from conformance.report.docs.hunts import problem_of
from tests.report.samples import FOUND, MINIMISED, REPLAYED_SOUNDLY, STARTED, example, finished, run

DEFECT = catalogue.find("check-removed")
TROUBLE = HarnessErrorHappened(at_s=12.0, sentence="The broker is gone.")
BLAMED_WRONGLY = msgspec.structs.replace(REPLAYED_SOUNDLY, came_back=1)


def hunted(*events: AnyEvent) -> Hunted:
    return fold(DEFECT, events)


def test_a_violation_that_needs_the_defect_finds_it() -> None:
    found = hunted(*run(FOUND, MINIMISED, REPLAYED_SOUNDLY))
    assert isinstance(found, DefectFound)
    assert (found.catch.machine, found.catch.violation.rule) == (FOUND.machine, "DEDUP-03")
    assert (found.catch.operations, found.catch.steps) == (FOUND.operations, MINIMISED.steps)
    assert found.catch.seconds == FOUND.at_s - STARTED.at_s, "from when the broker was up"
    assert problem_of(found) is None


def test_a_violation_without_the_defect_does_not_find_it() -> None:
    assert isinstance(hunted(*run(FOUND, MINIMISED, BLAMED_WRONGLY)), NotItsDoing)


def test_a_violation_of_another_rule_must_come_back_with_the_defect() -> None:
    other = msgspec.structs.replace(FOUND, violation=msgspec.structs.replace(FOUND.violation, rule="DEDUP-12"))
    never = msgspec.structs.replace(MINIMISED, came_back=0)
    assert isinstance(hunted(*run(FOUND, never, REPLAYED_SOUNDLY)), DefectFound)
    assert isinstance(hunted(*run(other, MINIMISED, REPLAYED_SOUNDLY)), DefectFound)
    suspected = hunted(*run(other, never, REPLAYED_SOUNDLY))
    assert isinstance(suspected, DefectSuspected)
    assert "came back in none of" in str(problem_of(suspected))


def test_of_several_violations_the_minimized_one_counts() -> None:
    earlier = msgspec.structs.replace(FOUND, history="histories/0.json", operations=7)
    found = hunted(*run(earlier, FOUND, MINIMISED, REPLAYED_SOUNDLY))
    assert isinstance(found, DefectFound)
    assert found.catch.operations == FOUND.operations


def test_a_run_without_a_violation_missed_the_defect() -> None:
    missed = hunted(*run(example(8.0, deviations=3)))
    assert missed == DefectMissed(defect=DEFECT, operations=finished().operations, seconds=8.0 - STARTED.at_s)
    assert "should break DEDUP-03" in str(problem_of(missed))


@pytest.mark.parametrize(
    "events",
    [
        (),
        (TROUBLE,),
        (STARTED,),
        (STARTED, TROUBLE, finished()),
        (STARTED, FOUND, TROUBLE),
        (STARTED, FOUND, MINIMISED, finished()),
        (STARTED, FOUND, REPLAYED_SOUNDLY, finished()),
    ],
)
def test_a_run_that_did_not_finish_gives_no_result(events: tuple[AnyEvent, ...]) -> None:
    failed = hunted(*events)
    assert isinstance(failed, HuntFailed)
    assert failed.why


FOUND_IT = hunted(*run(FOUND, MINIMISED, REPLAYED_SOUNDLY))
NOT_ITS_DOING = hunted(*run(FOUND, MINIMISED, BLAMED_WRONGLY))
MISSED_IT = hunted(*run())
FAILED = hunted(TROUBLE)


@pytest.mark.parametrize(
    ("all_hunted", "status"),
    [
        ((FOUND_IT, FOUND_IT), 0),
        ((FOUND_IT, MISSED_IT), 1),
        ((FOUND_IT, NOT_ITS_DOING), 1),
        ((FOUND_IT, FAILED), 2),
        ((FAILED, MISSED_IT), 1),
    ],
)
def test_a_defect_that_was_not_found_decides_the_exit_status(all_hunted: tuple[Hunted, ...], status: int) -> None:
    assert exit_status(all_hunted) == status
