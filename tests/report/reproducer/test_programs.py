"""Programs that reproduce a find: which finds they can express, and how they read."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace
from syrupy.assertion import SnapshotAssertion

from conformance.cli import cli
from conformance.commands.report import issue
from conformance.commands.supervision.engine import Engine
from conformance.harness_error import HarnessError
from conformance.history import document
from conformance.known import HISTORIES
from model.deviations import DEVIATIONS
from tests.report.reproducer.finds import IN_BOTH, IN_JAVA_ALONE, IN_PYTHON_ALONE, programs_of

WITH_HISTORY = [name for name, one in DEVIATIONS.items() if one.has_history]


@pytest.mark.parametrize("name", WITH_HISTORY)
def test_a_find_has_programs_that_compile_or_a_sentence_says_what_they_lack(name: str) -> None:
    if name not in (*IN_BOTH, *IN_PYTHON_ALONE, *IN_JAVA_ALONE):
        with pytest.raises(HarnessError, match=r"this history needs .*, which a script of pulsar-client cannot do"):
            programs_of(name)
        return
    written = programs_of(name)
    assert set(written) == {
        *(() if name in IN_JAVA_ALONE else ("Python",)),
        *(() if name in IN_PYTHON_ALONE else ("Java",)),
    }
    if "Python" in written:
        tree = ast.parse(written["Python"].text)
        defined = {one.name for one in tree.body if isinstance(one, ast.FunctionDef)}
        used = {one.id for one in ast.walk(tree) if isinstance(one, ast.Name)}
        assert defined <= used, "a function that nothing calls"
    for program in written.values():
        assert "@" not in program.text.replace("@SafeVarargs", "").replace("@media", ""), "a part of the template"


def test_the_steps_are_readable_in_both_languages(snapshot: SnapshotAssertion) -> None:
    for program in programs_of("ttl-expires-messages-of-readers").values():
        assert program.text.partition("import")[0] + _steps(program.text) == snapshot(name=program.language)


def _steps(text: str) -> str:
    """The function with the steps."""
    lines = text.splitlines(keepends=True)
    begin = next(number for number, line in enumerate(lines) if "steps()" in line)
    end = next(number for number, line in enumerate(lines[begin + 1 :], begin + 1) if not line.strip())
    return "".join(lines[begin:end])


def test_what_came_back_in_some_replays_only_is_tried_several_times() -> None:
    tries = {
        name: programs_of(name)["Python"].text
        for name in ("peek-creates-subscription", "skip-past-terminated-end-starts-over")
    }
    assert "\nTRIES = 1\n" in tries["peek-creates-subscription"]
    assert "\nTRIES = 4\n" in tries["skip-past-terminated-end-starts-over"]


def test_the_issue_names_the_programs_that_are_written_beside_it(tmp_path: Path) -> None:
    text = issue("peek-creates-subscription", tmp_path / "new" / "folder")
    for file in ("peek_creates_subscription.py", "PeekCreatesSubscription.java"):
        assert (tmp_path / "new" / "folder" / file).exists()
        assert f"`{file}`" in text


def test_a_violation_without_a_name_has_programs_by_the_name_of_its_file(tmp_path: Path) -> None:
    stored = document.read(HISTORIES / "peek-creates-subscription.json")
    assert stored.violation is not None
    document.write(replace(stored, violation=replace(stored.violation, deviation=None)), tmp_path / "SERVE-04-1.json")
    issue(str(tmp_path / "SERVE-04-1.json"), tmp_path)
    assert {one.name for one in tmp_path.iterdir()} == {"SERVE-04-1.json", "SERVE_04_1.py", "Serve041.java"}


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--issue", "snapshot-position-ahead"), "this history needs a failpoint in the broker"),
        (("--issue", "first-round-response-counts-twice"), "this history needs 3 clusters"),
        (("--issue", "chunk-acks-last-only"), "this history needs an ack that pulsar-client holds"),
    ],
)
def test_what_a_script_cannot_do_is_said_in_a_sentence(tmp_path: Path, arguments: tuple[str, ...], why: str) -> None:
    ran = CliRunner().invoke(cli, ["report", *arguments, "--reproducer", str(tmp_path)], obj=Engine())
    assert isinstance(ran.exception, HarnessError)
    assert why in str(ran.exception)
    assert not list(tmp_path.iterdir())


def test_a_reproducer_without_an_issue_or_in_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for arguments in (
        (str(tmp_path), "--reproducer", str(tmp_path)),
        ("--issue", "x", "--reproducer", str(tmp_path / "file")),
    ):
        assert CliRunner().invoke(cli, ["report", *arguments], obj=Engine()).exit_code == 2
    with pytest.raises(HarnessError, match="cannot be written to"):
        issue("peek-creates-subscription", tmp_path / "file" / "below")
