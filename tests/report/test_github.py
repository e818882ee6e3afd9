"""Annotations and the job summary on GitHub Actions."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from conformance.events import AnyEvent, HarnessErrorHappened, NotExercisable
from conformance.report.account import Account, stories
from conformance.report.github import ANNOTATIONS_AT_MOST, as_markdown, commands, tell
from conformance.verdicts import verdicts
from model.rules.catalogue import select
from tests.report.samples import FOUND, MINIMISED, QUIRK, example, run

BOTH = example(DEDUP_01=2, DEDUP_03=5)


def account(folder: Path, *events: AnyEvent, rules: str = "DEDUP-01,DEDUP-03", known: bool = False) -> Account:
    deviations = (QUIRK,) if known else ()
    judged = verdicts(run(*events), select(rules), deviations, named={"DEDUP-03"})
    return Account(
        verdicts=judged,
        known=deviations,
        stories=stories(judged, folder=folder, broker="4.0.8"),
        broker="4.0.8",
        seed=7,
        budget_s=240.0,
        defect=None,
        command="pulsar-conformance check",
    )


def test_a_violation_is_an_error_with_the_command_that_shows_it_again(tmp_path: Path) -> None:
    (line,) = commands(account(tmp_path, BOTH, FOUND, MINIMISED))
    assert line.startswith("::error title=DEDUP-03 violated::")
    assert "sequence id 4 of producer p0 was stored again" in line
    assert "%0AAgain: pulsar-conformance replay" in line
    assert "\n" not in line


def test_a_rule_that_cannot_be_decided_here_is_a_notice_if_it_was_named_and_harness_error_is_an_error(
    tmp_path: Path,
) -> None:
    why = NotExercisable(at_s=9, rule="DEDUP-03", why="it is 100% idle: nothing, nobody")
    harness_error = HarnessErrorHappened(at_s=9, sentence="The disk is full.\nReally.")
    told = commands(account(tmp_path, example(DEDUP_01=1), why, harness_error))
    assert told[0] == "::error title=the run itself::The disk is full.%0AReally."
    assert told[1].startswith("::notice title=DEDUP-03 not decidable::")
    assert told[1].endswith("it is 100%25 idle: nothing, nobody")


def test_a_suspicion_is_a_warning_and_what_no_example_came_to_a_notice(tmp_path: Path) -> None:
    never = msgspec.structs.replace(MINIMISED, tries=30, came_back=0)
    (line,) = commands(account(tmp_path, BOTH, FOUND, never))
    assert line.startswith("::warning title=DEDUP-03 suspected::")
    (line,) = commands(account(tmp_path, example(DEDUP_03=1)))
    assert line.startswith("::notice title=DEDUP-01 not exercised::")


def test_what_held_and_what_is_known_is_not_annotated(tmp_path: Path) -> None:
    assert commands(account(tmp_path, BOTH)) == []
    assert commands(account(tmp_path, example(deviations=2, DEDUP_01=1, DEDUP_03=5), known=True)) == []


def test_there_are_never_more_annotations_than_are_shown(tmp_path: Path) -> None:
    told = commands(account(tmp_path, BOTH, FOUND, MINIMISED, rules="DEDUP,ACK,KEY"))
    assert told[0].startswith("::error ")
    assert sum(line.startswith("::notice ") for line in told) == ANNOTATIONS_AT_MOST


def test_the_summary_tells_each_rule_once_and_the_open_ones_first(tmp_path: Path) -> None:
    told = as_markdown(account(tmp_path, BOTH, FOUND, MINIMISED))
    assert told.startswith("## Pulsar 4.0.8 with pulsar-client 3.13.0")
    assert told.count("| DEDUP-03 | ❌ violated | 5 |") == 1
    assert told.count("| DEDUP-01 | ✅ held | 2 |") == 1
    assert told.index("| DEDUP-03 |") < told.index("pulsar-conformance replay") < told.index("<details>")


def test_what_others_wrote_cannot_end_a_cell_or_become_html(tmp_path: Path) -> None:
    why = NotExercisable(at_s=9, rule="DEDUP-03", why="a | b\n| <img src=x> `c`" + "x" * 10_000)
    (row,) = [
        line for line in as_markdown(account(tmp_path, example(DEDUP_01=1), why)).splitlines() if "DEDUP-03 |" in line
    ]
    assert "a \\| b \\| &lt;img src=x> 'c'" in row
    assert len(row) < 1000


def test_nothing_is_told_elsewhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "summary.md"
    tell(account(tmp_path, BOTH, FOUND), {"GITHUB_STEP_SUMMARY": str(page)})
    assert capsys.readouterr().out == ""
    assert not page.exists()


def test_the_summary_is_added_to_what_earlier_steps_wrote(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "summary.md"
    page.write_text("# Before\n")
    tell(account(tmp_path, BOTH, FOUND), {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(page)})
    assert page.read_text().startswith("# Before\n## Pulsar 4.0.8")
    assert capsys.readouterr().out.startswith("::error ")
