"""How often a find comes back: each replay is judged for the find alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec import structs

from conformance.cli import cli
from conformance.commands.comparison.replays import Find, Replayed, skipped_in
from conformance.commands.supervision.engine import Engine
from conformance.harness_error import HarnessError
from conformance.history import document
from conformance.known import HISTORIES
from conformance.rates import Counts
from model.events import Skipped

OVERLAPPING = HISTORIES / "overlapping-batch-dropped.json"
REFCOUNT = HISTORIES / "draining-refcount-doubled.json"


def reproduced(folder: Path, *arguments: str) -> tuple[int, str]:
    """The exit status of ``reproduce``, and its last line."""
    asked = ["reproduce", *arguments, "--times", "4", "--report", str(folder / "report")]
    ran = CliRunner().invoke(cli, asked, obj=Engine(), standalone_mode=False)
    return ran.return_value, ran.stdout.splitlines()[-1]


def test_a_recording_has_the_find_that_it_was_stored_for_and_no_other() -> None:
    for path, other in ((OVERLAPPING, REFCOUNT), (REFCOUNT, OVERLAPPING)):
        find = Find.read(path)
        assert find.is_in(find.history)
        assert not find.is_in(document.read(other))


def test_a_find_without_a_name_is_a_violation_of_its_rule_that_nothing_explains() -> None:
    find = Find.read(OVERLAPPING)
    unnamed = replace(find, deviation=None)
    broken = find.history.violation
    assert broken is not None
    assert not unnamed.is_in(find.history)
    assert unnamed.is_in(structs.replace(find.history, violation=structs.replace(broken, deviation=None)))
    assert not unnamed.is_in(structs.replace(find.history, violation=None))


def test_a_history_without_a_violation_has_no_find(tmp_path: Path) -> None:
    document.write(structs.replace(document.read(OVERLAPPING), violation=None), tmp_path / "held.json")
    with pytest.raises(HarnessError, match="broke no rule"):
        Find.read(tmp_path / "held.json")


def test_replays_add_up_and_a_step_is_lacking_only_if_no_replay_performed_it() -> None:
    missing, other = (frozenset({(3, why)}) for why in ("this release has no such request", "no bookie is lost"))
    first = Replayed(seen=Counts(0, 6), lacks="step 4", skipped=missing)
    assert (first + first).lacks == "step 4 cannot be performed: this release has no such request"
    both = first + Replayed(seen=Counts(1, 6), skipped=other)
    assert both.seen == Counts(1, 12)
    assert both.lacks is None


def test_a_skipped_step_is_lacking_if_the_recording_performed_it() -> None:
    history = document.read(OVERLAPPING)
    *before, last = history.steps
    lacking = structs.replace(history, steps=(*before, structs.replace(last, outcome=Skipped("it cannot"))))
    assert skipped_in(history, lacking) == {(len(before), "it cannot")}
    assert not skipped_in(lacking, lacking)


def test_a_deviation_is_reproduced_on_a_release_that_has_it(tmp_path: Path) -> None:
    status, said = reproduced(tmp_path, "overlapping-batch-dropped", "--broker", "4.0.8")
    assert status == 0
    assert said.startswith("overlapping-batch-dropped (DEDUP-02) came back in 4 of 4 replays on 4.0.8")


def test_a_deviation_that_a_release_does_not_have_any_more_does_not_come_back(tmp_path: Path) -> None:
    status, said = reproduced(tmp_path, "draining-refcount-doubled", "--broker", "4.0.8")
    assert status == 1
    assert said.startswith("draining-refcount-doubled (KEY-11) came back in 0 of 4 replays on 4.0.8")
