"""Annotations and the job summary on GitHub Actions."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from conformance.events import AnyEvent, HarnessErrorHappened, NotExercisable
from conformance.history import document
from conformance.report.data import ReportData, reported_findings
from conformance.report.github import ANNOTATIONS_AT_MOST, as_markdown, commands, publish
from conformance.verdicts import verdicts
from model.rules.catalogue import select
from tests.report.samples import FOUND, INTERRUPTED, MINIMISED, QUIRK, example, history, run

BOTH = example(DEDUP_01=2, DEDUP_03=5)


def report_data(folder: Path, *events: AnyEvent, rules: str = "DEDUP-01,DEDUP-03", known: bool = False) -> ReportData:
    deviations = (QUIRK,) if known else ()
    judged = verdicts(run(*events), select(rules), deviations, named={"DEDUP-03"})
    return ReportData(
        verdicts=judged,
        known=deviations,
        findings=reported_findings(judged, folder=folder, broker="4.0.8"),
        broker="4.0.8",
        seed=7,
        budget_s=240.0,
        defect=None,
        command="pulsar-conformance check",
    )


def test_a_part_of_a_recording_says_so_and_the_whole_is_what_replays(tmp_path: Path) -> None:
    """What only the model was asked about need not have the cause in it."""
    (tmp_path / "histories").mkdir()
    part = msgspec.structs.replace(history(), left_out=40)
    for written, name in ((history(), FOUND.history), (part, MINIMISED.history)):
        document.write(written, tmp_path / name)
    (finding,) = report_data(tmp_path, BOTH, FOUND, MINIMISED).findings["DEDUP-03"]
    assert finding.path == tmp_path / MINIMISED.history
    assert finding.command.split()[2] == str(tmp_path / FOUND.history)
    *stages, part_of, why = finding.shortened
    assert len(stages) == len(MINIMISED.stages)
    assert part_of.startswith(f"These {len(part.steps)} of {len(part.steps) + 40} recorded steps")
    assert f"replay {Path(FOUND.history).name}" in why
    assert finding.replayed == tmp_path / FOUND.history


def test_a_violation_is_an_error_with_the_command_that_replays_it(tmp_path: Path) -> None:
    (line,) = commands(report_data(tmp_path, BOTH, FOUND, MINIMISED))
    assert line.startswith("::error title=DEDUP-03 violated::")
    assert "sequence id 4 of producer p0 was stored again" in line
    assert "%0AAgain: pulsar-conformance replay" in line
    assert "\n" not in line


def test_an_undecidable_rule_is_a_notice_if_named_and_a_harness_error_is_an_error(
    tmp_path: Path,
) -> None:
    why = NotExercisable(at_s=9, rule="DEDUP-03", why="it is 100% idle: nothing, nobody")
    harness_error = HarnessErrorHappened(at_s=9, sentence="The disk is full.\nReally.")
    reported = commands(report_data(tmp_path, example(DEDUP_01=1), why, harness_error))
    assert reported[0] == "::error title=the run itself::The disk is full.%0AReally."
    assert reported[1].startswith("::notice title=DEDUP-03 not decidable::")
    assert reported[1].endswith("it is 100%25 idle: nothing, nobody")


def test_the_reason_of_a_run_that_was_stopped_is_an_error_and_in_the_summary(tmp_path: Path) -> None:
    data = report_data(tmp_path, BOTH, INTERRUPTED)
    assert commands(data)[0] == "::error title=the run itself::The run was interrupted after 12 s."
    assert "> **The run was interrupted after 12 s.**" in as_markdown(data)
    assert "Harness error" not in as_markdown(data)


def test_a_suspicion_is_a_warning_and_a_rule_not_exercised_a_notice(tmp_path: Path) -> None:
    never = msgspec.structs.replace(MINIMISED, tries=30, came_back=0)
    (line,) = commands(report_data(tmp_path, BOTH, FOUND, never))
    assert line.startswith("::warning title=DEDUP-03 suspected::")
    (line,) = commands(report_data(tmp_path, example(DEDUP_03=1)))
    assert line.startswith("::notice title=DEDUP-01 not exercised::")


def test_rules_that_held_and_known_deviations_are_not_annotated(tmp_path: Path) -> None:
    assert commands(report_data(tmp_path, BOTH)) == []
    assert commands(report_data(tmp_path, example(deviations=2, DEDUP_01=1, DEDUP_03=5), known=True)) == []


def test_the_number_of_annotations_is_limited(tmp_path: Path) -> None:
    reported = commands(report_data(tmp_path, BOTH, FOUND, MINIMISED, rules="DEDUP,ACK,KEY"))
    assert reported[0].startswith("::error ")
    assert sum(line.startswith("::notice ") for line in reported) == ANNOTATIONS_AT_MOST


def test_the_summary_lists_each_rule_once_and_open_ones_first(tmp_path: Path) -> None:
    reported = as_markdown(report_data(tmp_path, BOTH, FOUND, MINIMISED))
    assert reported.startswith("## Pulsar 4.0.8 with pulsar-client 3.13.0")
    assert reported.count("| DEDUP-03 | ❌ violated | 5 |") == 1
    assert reported.count("| DEDUP-01 | ✅ held | 2 |") == 1
    assert reported.index("| DEDUP-03 |") < reported.index("pulsar-conformance replay") < reported.index("<details>")


def test_text_of_others_cannot_end_a_cell_or_become_html(tmp_path: Path) -> None:
    why = NotExercisable(at_s=9, rule="DEDUP-03", why="a | b\n| <img src=x> `c`" + "x" * 10_000)
    (row,) = [
        line
        for line in as_markdown(report_data(tmp_path, example(DEDUP_01=1), why)).splitlines()
        if "DEDUP-03 |" in line
    ]
    assert "a \\| b \\| &lt;img src=x> 'c'" in row
    assert len(row) < 1000


def test_nothing_is_written_outside_github_actions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "summary.md"
    publish(report_data(tmp_path, BOTH, FOUND), {"GITHUB_STEP_SUMMARY": str(page)})
    assert capsys.readouterr().out == ""
    assert not page.exists()


def test_the_summary_is_appended_to_that_of_earlier_steps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "summary.md"
    page.write_text("# Before\n")
    publish(report_data(tmp_path, BOTH, FOUND), {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(page)})
    assert page.read_text().startswith("# Before\n## Pulsar 4.0.8")
    assert capsys.readouterr().out.startswith("::error ")
