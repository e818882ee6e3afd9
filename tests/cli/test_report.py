"""``report`` on the folder of a run that was killed with SIGKILL, or that finished."""

from __future__ import annotations

import json
import re
import shutil
import signal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from conformance.events import RunAsked, decode
from tests.cli.command_line import are_gone, engine_pids, run, start
from tests.report.samples import QUIRK
from tests.waits import eventually

REPORTS = ("report.html", "junit.xml", "verdicts.json")


def killed(scenario: str, folder: Path, *arguments: str, when: bytes) -> None:
    """A check that was killed with SIGKILL as soon as this was among its events."""
    events = folder / "report" / "events.jsonl"
    command = start(scenario, "check", "--seed", "7", "--report", "report", *arguments, folder=folder)
    pids = engine_pids(folder / "report")
    eventually(lambda: when in events.read_bytes())
    command.send_signal(signal.SIGKILL)
    command.communicate()
    eventually(lambda: are_gone(pids[:1]))
    assert not any((folder / "report" / name).exists() for name in REPORTS)


def verdicts(folder: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((folder / "verdicts.json").read_text())
    return {rule["id"]: rule for rule in read["rules"]} | {"harness_errors": read["harness_errors"]}


def undated(file: Path) -> str:
    """A report but for when it was written."""
    return re.sub(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?", "", file.read_text())


def test_a_killed_run_gets_its_report_and_status_2(tmp_path: Path) -> None:
    killed("works_until_stopped", tmp_path, "--rules", "DEDUP-01,DEDUP-02", when=b'DEDUP-02":3')
    ran = run("holds", "report", "report", folder=tmp_path)
    assert (ran.status, ran.err) == (2, "")
    assert "The run is not complete: it was killed, or is still running." in ran.out
    assert all((tmp_path / "report" / name).exists() for name in REPORTS)
    rebuilt = verdicts(tmp_path / "report")
    assert set(rebuilt) == {"DEDUP-01", "DEDUP-02", "harness_errors"}
    assert rebuilt["DEDUP-02"]["verdict"] == "held"
    assert "--rules DEDUP-01,DEDUP-02" in (tmp_path / "report" / "report.html").read_text()


def test_a_violation_of_a_killed_run_counts_after_its_folder_was_moved(tmp_path: Path) -> None:
    killed("violates_and_works_on", tmp_path, "--rules", "DEDUP", when=b"ViolationMinimised")
    (tmp_path / "report").rename(tmp_path / "moved")
    ran = run("holds", "report", "moved", folder=tmp_path, environment={"GITHUB_ACTIONS": "true"})
    assert "::error title=DEDUP-03 violated::" in ran.out
    assert ran.status == 1
    assert "pulsar-conformance replay moved/histories/1-minimal.json --broker 4.0.8" in ran.out
    assert verdicts(tmp_path / "moved")["DEDUP-03"]["verdict"] == "violated"


def test_before_the_broker_is_up_nothing_is_exercised(tmp_path: Path) -> None:
    killed("starts_for_ever", tmp_path, "--rules", "DEDUP-01", when=b"RunAsked")
    ran = run("holds", "report", "report", folder=tmp_path)
    assert ran.status == 2
    assert verdicts(tmp_path / "report")["DEDUP-01"]["verdict"] == "not-exercised"


def test_known_deviations_and_options_are_recovered_from_the_events_alone(tmp_path: Path) -> None:
    known = tmp_path / "known.json"
    known.write_bytes(msgspec.json.encode([QUIRK]))
    asked = ("--rules", "DEDUP", "--known", str(known), "--defect", "gap-refused", "--budget", "99s")
    ran = run("deviates", "check", "--seed", "7", "--report", "report", *asked, folder=tmp_path)
    files = {name: undated(tmp_path / "report" / name) for name in ("report.html", "junit.xml")}
    was = verdicts(tmp_path / "report")
    known.unlink()
    for name in REPORTS:
        (tmp_path / "report" / name).unlink()
    again = run("holds", "report", "report", folder=tmp_path)
    assert again.status == ran.status
    assert again.out.strip() == ran.out.partition("\n")[2].strip(), "all but the line with the seed"
    assert verdicts(tmp_path / "report") == was
    assert {name: undated(tmp_path / "report" / name) for name in files} == files


def test_a_truncated_last_line_is_ignored(tmp_path: Path) -> None:
    run("holds", "check", "--rules", "DEDUP-01", "--report", "report", folder=tmp_path)
    events = tmp_path / "report" / "events.jsonl"
    whole = events.read_bytes()
    assert isinstance(decode(whole.splitlines()[0]), RunAsked)
    events.write_bytes(whole[:-9])
    ran = run("holds", "report", "report", folder=tmp_path)
    assert (ran.status, ran.err) == (2, ""), "its last event is missing"
    assert "The run is not complete" in ran.out


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "cannot read the events of a run in {folder}/nothing/events.jsonl: No such file or directory"),
        (b"", "{folder}/nothing has no events of a check: those of a replay or a hunt make no such report"),
        (b"no json\n", "{folder}/nothing/events.jsonl does not have the events of a run: "),
        (b"\xff\x00\n", "{folder}/nothing/events.jsonl does not have the events of a run: "),
    ],
)
def test_a_folder_without_a_run_is_one_sentence(content: bytes | None, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "nothing").mkdir()
    if content is not None:
        (tmp_path / "nothing" / "events.jsonl").write_bytes(content)
    ran = run("holds", "report", "nothing", folder=tmp_path)
    assert ran.err.startswith("pulsar-conformance: " + sentence.format(folder=tmp_path))
    assert (ran.status, len(ran.err.splitlines())) == (2, 1)
    shutil.rmtree(tmp_path / "nothing")
    ran = run("holds", "report", "nothing", folder=tmp_path)
    assert (ran.status, len(ran.err.splitlines())) == (2, 1)
