"""``matrix``: a file of each run, a table of all, and a campaign that goes on where it was interrupted."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from rich.console import Console

from conformance.cli import cli
from conformance.commands.check import CheckOptions
from conformance.commands.comparison import matrix
from conformance.commands.comparison.compare import Side
from conformance.commands.comparison.matrix import write_pages
from conformance.commands.supervision.engine import Engine
from conformance.harness_error import HarnessError
from conformance.report.matrix import MatrixRun
from tests.cli.command_line import Ran, engine_pids, run, start
from tests.waits import eventually

ASKED = ("--rules", "DEDUP", "--budget", "60s", "--results", "results")


def made(scenario: str, *brokers: str, folder: Path) -> Ran:
    return run(scenario, "matrix", *brokers, *ASKED, folder=folder)


def of(folder: Path, release: str) -> MatrixRun:
    return msgspec.json.decode((folder / "results" / f"{release}-60s-1.json").read_bytes(), type=MatrixRun)


def test_each_run_has_a_file_and_the_table_has_all_runs_by_release(tmp_path: Path) -> None:
    ran = made("violates", "4.0.8", "3.3.6", folder=tmp_path)
    assert ran.status == 0, ran.err
    written = of(tmp_path, "4.0.8")
    assert (written.name, written.check.seed, written.check.exit_status) == ("4.0.8", 1, 1)
    assert len(written.journals) == 64
    table = (tmp_path / "results" / "matrix.md").read_text()
    assert table in ran.out
    assert table.index("| 3.3.6 |") < table.index("| 4.0.8 |")
    assert "Violated: DEDUP-03." in table
    assert (tmp_path / "results" / "matrix.html").read_text().count("✕") >= 2


def test_a_run_that_has_a_file_is_not_made_again(tmp_path: Path) -> None:
    made("holds", "4.0.8", folder=tmp_path)
    before = (tmp_path / "results" / "4.0.8-60s-1.json").read_bytes()
    ran = made("holds", "4.0.8", "3.3.6", folder=tmp_path)
    assert ran.status == 0, ran.err
    assert (tmp_path / "results" / "4.0.8-60s-1.json").read_bytes() == before
    assert sorted(one.name for one in (tmp_path / "results" / "reports").glob("*/")) == ["3.3.6-60s-1", "4.0.8-60s-1"]


def test_an_interrupted_run_leaves_no_file_and_is_made_again(tmp_path: Path) -> None:
    command = start("hangs", "matrix", "4.0.8", *ASKED, folder=tmp_path)
    engine_pids(tmp_path / "results" / "reports" / "4.0.8-60s-1")
    eventually(lambda: (tmp_path / "results" / "reports" / "4.0.8-60s-1" / "events.jsonl").stat().st_size > 0)
    command.send_signal(signal.SIGINT)
    command.communicate()
    assert command.returncode == 130
    assert not list((tmp_path / "results").glob("*.json"))
    assert made("holds", "4.0.8", folder=tmp_path).status == 0
    assert of(tmp_path, "4.0.8").check.exit_status == 0


def test_a_run_that_cannot_be_made_is_named_and_the_others_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check_side(side: Side, asked: CheckOptions, engine: Engine, folder: Path, *, err: Console) -> int:
        raise HarnessError(f"{side.broker} cannot be had")

    made("holds", "4.0.8", folder=tmp_path)
    monkeypatch.setattr(matrix, "check_side", check_side)
    monkeypatch.chdir(tmp_path)
    ran = CliRunner().invoke(cli, ["matrix", "3.3.6", "4.0.8", *ASKED], obj=Engine(), standalone_mode=False)
    assert ran.return_value == matrix.INCOMPLETE
    assert "3.3.6: 3.3.6 cannot be had" in ran.output
    assert "| 4.0.8 |" in ran.output


@pytest.mark.parametrize("damaged", [b"{}", b"nonsense", b"\xff"])
def test_a_file_that_is_no_result_is_named(tmp_path: Path, damaged: bytes) -> None:
    (tmp_path / "mine.json").write_bytes(damaged)
    with pytest.raises(HarnessError, match=r"mine\.json is not a result of a matrix"):
        write_pages(tmp_path)


def test_a_contributed_file_executes_nothing_in_the_page(tmp_path: Path) -> None:
    made("holds", "4.0.8", folder=tmp_path)
    file = tmp_path / "results" / "4.0.8-60s-1.json"
    plain = json.loads(file.read_bytes())
    plain["name"] = "<script>alert(1)</script>"
    plain["deviations"] = {"<img src=x>": 1}
    file.write_text(json.dumps(plain))
    write_pages(tmp_path / "results")
    page = (tmp_path / "results" / "matrix.html").read_text()
    assert "<script" not in page
    assert "<img" not in page
