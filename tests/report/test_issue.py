"""Issues to file upstream: of known deviations, and of violations without a name."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace

from conformance.cli import cli
from conformance.commands.report import issue
from conformance.commands.supervision.engine import Engine
from conformance.history import document
from conformance.known import HISTORIES, address
from conformance.report.sentences.words import explain
from model.deviations import DEVIATIONS
from model.rules.catalogue import RULES

HISTORY = HISTORIES / "batch-without-highest-id.json"


def asked(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["report", *arguments], obj=Engine())


@pytest.mark.parametrize("name", DEVIATIONS)
def test_the_issue_of_a_deviation_has_its_rule_its_cause_each_step_and_what_is_related(name: str) -> None:
    deviation = DEVIATIONS[name]
    text = issue(name)
    assert text.startswith(f"# [Bug] {deviation.statement.partition('. ')[0].removesuffix('.')}\n")
    expected = [RULES[number].statement for number in (deviation.rule, *deviation.also)]
    steps = map(str, explain(document.read(HISTORIES / f"{name}.json"))) if deviation.has_history else ()
    for part in (*expected, deviation.cause, *deviation.seen, *map(address, deviation.upstream), *steps):
        assert part in text


def test_a_violation_without_a_name_is_filed_by_its_rule_and_its_rate(tmp_path: Path) -> None:
    stored = document.read(HISTORY)
    assert stored.violation is not None
    assert stored.replays is not None
    unnamed = replace(stored, violation=replace(stored.violation, deviation=None))
    document.write(unnamed, tmp_path / "found.json")
    ran = asked("--issue", str(tmp_path / "found.json"))
    assert ran.exit_code == 0
    assert f"# [Bug] {stored.violation.rule} is broken: {stored.violation.because}"[:60] in ran.output
    assert f"{stored.replays.came_back} of {stored.replays.tries} replays on {stored.release}" in ran.output
    assert "the cause is not known" in ran.output


def test_the_history_of_a_named_violation_is_filed_with_the_cause_of_its_deviation() -> None:
    assert issue(str(HISTORY)) == issue("batch-without-highest-id")


def test_what_is_neither_a_deviation_nor_a_violation_is_refused_in_a_sentence(tmp_path: Path) -> None:
    document.write(replace(document.read(HISTORY), violation=None), tmp_path / "holds.json")
    for find, why in ((str(tmp_path / "holds.json"), "has no violation"), ("nope", "neither a known deviation")):
        ran = asked("--issue", find)
        assert why in str(ran.exception)


def test_a_folder_and_an_issue_at_once_or_neither_is_refused(tmp_path: Path) -> None:
    for arguments in ((), (str(tmp_path), "--issue", "batch-without-highest-id")):
        assert asked(*arguments).exit_code == 2
