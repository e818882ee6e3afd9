"""The supervisor: its time, Ctrl-C, and what is left behind."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from model.rules.catalogue import select
from tests.cli.command_line import are_gone, ended, engine_pids, interrupt, run, start
from tests.cli.scripted_engine import FOREVER_S
from tests.waits import eventually

DEDUPLICATION = select("DEDUP")


def seconds_since_start(report: Path) -> float:
    """How long ago the engine was up."""
    return time.time() - (report / "pids").stat().st_mtime


def test_the_budget_is_kept_if_the_engine_hangs(tmp_path: Path) -> None:
    began = time.monotonic()
    ran = run("hangs", "check", "--budget", "20s", "--report", "report", folder=tmp_path)
    assert 20 <= time.monotonic() - began < FOREVER_S / 2, "not before, and not when the engine sees fit"
    assert "was not finished at the end of its budget of 20 s, and did not stop either" in " ".join(ran.out.split())
    assert ran.status == 2
    assert are_gone(engine_pids(tmp_path / "report"))


@pytest.mark.parametrize(("scenario", "budget"), [("replays_on", "6s"), ("replays_after_the_budget", "10s")])
def test_a_violation_that_has_not_come_back_is_replayed_beyond_the_budget(
    scenario: str, budget: str, tmp_path: Path
) -> None:
    ran = run(scenario, "check", "--rules", "DEDUP", "--budget", budget, "--report", "report", folder=tmp_path)
    assert "it came back in 0 of 30 replays" in " ".join(ran.out.split())
    assert "harness error" not in ran.out.casefold()


def test_replaying_a_violation_has_a_limit(tmp_path: Path) -> None:
    ran = run("replays_on_for_ever", "check", "--budget", "6s", "--report", "report", folder=tmp_path)
    assert 12 <= seconds_since_start(tmp_path / "report") < 60
    sentence = "was not finished at the end of its budget of 6 s and 6 s on top of it, and did not stop either"
    assert sentence in " ".join(ran.out.split())
    assert are_gone(engine_pids(tmp_path / "report"))


@pytest.mark.parametrize("scenario", ["works_until_stopped", "swallows_the_first_signal"])
def test_an_engine_that_stops_at_the_end_of_its_time_has_finished(scenario: str, tmp_path: Path) -> None:
    ran = run(scenario, "check", "--rules", "DEDUP", "--budget", "6s", "--report", "report", folder=tmp_path)
    assert f"{len(DEDUPLICATION)} rules: {len(DEDUPLICATION)} held." in ran.out
    assert ran.status == 0
    assert are_gone(engine_pids(tmp_path / "report"))


def test_ctrl_c_prints_the_results_so_far(tmp_path: Path) -> None:
    began = time.monotonic()
    command = start("works_until_stopped", "check", "--report", "report", folder=tmp_path)
    pids = engine_pids(tmp_path / "report")
    eventually(lambda: (tmp_path / "report" / "events.jsonl").read_bytes().count(b"ExampleFinished") == 2)
    interrupt(command)
    ran = ended(command, began=began)
    assert ran.status == 130
    assert re.search(r"DEDUP-18 +held +3 ", ran.out)
    assert re.search(r"^The run was interrupted after \d+ s\.$", ran.out, re.M)
    assert "harness error" not in f"{ran.out}{ran.err}".casefold()
    assert json.loads((tmp_path / "report" / "verdicts.json").read_text())["harness_errors"] == []
    assert are_gone(pids)


def test_a_budget_that_ends_before_the_broker_is_ready_is_too_short(tmp_path: Path) -> None:
    ran = run("starts_for_ever", "check", "--budget", "1s", "--report", "report", folder=tmp_path)
    sentence = "The budget of 1 s ended before the broker was ready, so nothing was checked. Give the run a longer"
    assert sentence in " ".join(ran.out.split())
    assert "harness error" not in f"{ran.out}{ran.err}".casefold()
    assert ran.status == 2


def test_a_second_ctrl_c_does_not_wait_for_the_engine(tmp_path: Path) -> None:
    began = time.monotonic()
    command = start("hangs", "check", "--report", "report", folder=tmp_path)
    pids = engine_pids(tmp_path / "report")
    eventually(lambda: b"RunStarted" in (tmp_path / "report" / "events.jsonl").read_bytes())
    interrupt(command)
    eventually(lambda: b"once more to stop" in (tmp_path / "report" / "events.jsonl").read_bytes())
    interrupt(command)
    ran = ended(command, began=began, deadline_s=15)
    assert ran.status == 130
    assert are_gone(pids)


def test_the_engine_ends_by_itself_if_the_supervisor_is_killed(tmp_path: Path) -> None:
    command = start("works_until_stopped", "check", "--report", "report", folder=tmp_path)
    engine, _ = engine_pids(tmp_path / "report")
    eventually(lambda: (tmp_path / "report" / "events.jsonl").read_bytes().count(b"ExampleFinished") == 2)
    command.send_signal(signal.SIGKILL)
    command.communicate()
    eventually(lambda: are_gone([engine]))


def test_the_supervisor_starts_without_the_machines_and_without_what_asks_maven_central() -> None:
    """Importing these took half of the CPU time in which a command starts."""
    modules = "import sys, conformance.commands.check; print(*{name.partition('.')[0] for name in sys.modules})"
    ran = subprocess.run([sys.executable, "-c", modules], capture_output=True, text=True, check=True)
    assert {"conformance", "msgspec"} <= {*ran.stdout.split()}
    assert not {"hypothesis", "stateful", "jgo", "requests", "pulsar"} & {*ran.stdout.split()}


def test_ctrl_c_during_a_comparison_with_the_baseline_ends_it_and_the_reports_are_written(tmp_path: Path) -> None:
    asked = ("check", "--broker", "4.0.8", "--baseline", "3.3.6", "--report", "report", "--seed", "7")
    command = start("violates_and_replays_for_ever", *asked, folder=tmp_path)
    replaying = tmp_path / "report" / "baseline-1" / "candidate-6" / "events.jsonl"
    eventually(lambda: replaying.exists() and b"RunStarted" in replaying.read_bytes())
    command.send_signal(signal.SIGINT)
    command.communicate(timeout=60)
    assert command.returncode == 130
    written = json.loads((tmp_path / "report" / "verdicts.json").read_bytes())
    (compared,) = [rule["baseline"] for rule in written["rules"] if rule["verdict"] == "suspected"]
    assert (compared["result"], compared["because"]) == ("undecided", "the comparison was interrupted")
    assert not (tmp_path / "report" / "baseline-1" / "baseline-6").exists()
    assert (tmp_path / "report" / "report.html").exists()
