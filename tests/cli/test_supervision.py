"""The supervisor: its time, Ctrl-C, and what is left behind."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from tests.cli.running import are_gone, ended, engine_pids, interrupt, run, start
from tests.polling import eventually

BUDGET_S = 10.0


@pytest.mark.parametrize(
    ("scenario", "trouble"),
    [
        ("hangs", "was not finished at the end of its budget of 10 s, and did not stop either and was killed"),
        ("works_until_stopped", ""),
    ],
)
def test_the_budget_is_kept_to_within_a_tenth(scenario: str, trouble: str, tmp_path: Path) -> None:
    ran = run(scenario, "check", "--budget", "10s", "--report", "report", folder=tmp_path)
    seconds = time.time() - (tmp_path / "report" / "pids").stat().st_mtime
    assert 0.9 * BUDGET_S <= seconds <= 1.1 * BUDGET_S
    assert trouble in " ".join(ran.out.split())
    assert ran.status == (2 if trouble else 0)
    assert are_gone(engine_pids(tmp_path / "report"))


def test_ctrl_c_prints_what_was_had_so_far(tmp_path: Path) -> None:
    began = time.monotonic()
    command = start("works_until_stopped", "check", "--report", "report", folder=tmp_path)
    pids = engine_pids(tmp_path / "report")
    eventually(lambda: b"DEDUP-18" in (tmp_path / "report" / "events.jsonl").read_bytes())
    interrupt(command)
    ran = ended(command, began=began)
    assert ran.status == 130
    assert "DEDUP-18  held             3" in ran.out
    assert "Trouble: The run was interrupted after" in ran.out
    assert are_gone(pids)


def test_a_second_ctrl_c_does_not_wait_for_the_engine(tmp_path: Path) -> None:
    began = time.monotonic()
    command = start("hangs", "check", "--report", "report", folder=tmp_path)
    pids = engine_pids(tmp_path / "report")
    eventually(lambda: b"RunStarted" in (tmp_path / "report" / "events.jsonl").read_bytes())
    interrupt(command)
    eventually(lambda: b"once more" in (tmp_path / "report" / "events.jsonl").read_bytes())
    interrupt(command)
    ran = ended(command, began=began, deadline_s=5)
    assert ran.status == 130
    assert are_gone(pids)


def test_when_the_supervisor_is_killed_the_engine_ends_by_itself(tmp_path: Path) -> None:
    command = start("works_until_stopped", "check", "--report", "report", folder=tmp_path)
    engine, _ = engine_pids(tmp_path / "report")
    eventually(lambda: b"DEDUP-18" in (tmp_path / "report" / "events.jsonl").read_bytes())
    command.send_signal(signal.SIGKILL)
    command.communicate()
    eventually(lambda: are_gone([engine]))
