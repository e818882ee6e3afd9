"""``check`` on an engine that follows a script: status, table, reports."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import msgspec
import pytest

from conformance.commands.supervision.supervisor import events_file
from conformance.events import LoadMeasured, RunAsked, RunFinished, RunStarted, decode
from conformance.report.data import title
from conformance.report.sentences.words import explain
from model.rules.catalogue import RULES, select
from tests.cli.command_line import Ran, are_gone, engine_pids, run
from tests.report.samples import QUIRK, VIOLATION, history

DEDUPLICATION = select("DEDUP")


def check(scenario: str, folder: Path, *arguments: str) -> Ran:
    known = () if "--known" in arguments else ("--known", "none")  # what the suite ships changes with each release
    rules = () if "--rules" in arguments else ("--rules", "DEDUP")
    return run(scenario, "check", "--seed", "7", "--report", "report", *known, *rules, *arguments, folder=folder)


def verdicts(folder: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((folder / "report" / "verdicts.json").read_text())
    return read


def validate(encoded: dict[str, Any]) -> None:
    schema = json.loads((Path(__file__).parents[2] / "docs" / "reference" / "verdicts.schema.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(encoded)


def known_file(folder: Path) -> str:
    path = folder / "known.json"
    path.write_bytes(msgspec.json.encode([QUIRK]))
    return str(path)


@pytest.mark.parametrize(
    ("scenario", "status"),
    [
        ("holds", 0),
        ("leaves_out", 0),
        ("violates", 1),
        ("suspects", 3),
        ("deviates", 2),
        ("crashes", 2),
        ("leaves", 2),
        ("has_harness_error", 2),
        ("babbles", 2),
        ("fails_silently", 2),
        ("finds_no_machine", 2),
    ],
)
def test_the_exit_status_shows_the_result_and_nothing_is_left(scenario: str, status: int, tmp_path: Path) -> None:
    assert check(scenario, tmp_path).status == status
    assert {rule["id"] for rule in verdicts(tmp_path)["rules"]} == {rule.id for rule in DEDUPLICATION}
    assert are_gone(engine_pids(tmp_path / "report"))


def test_a_run_without_violations_prints_one_line_per_rule_and_the_summary_last(tmp_path: Path) -> None:
    ran = check("holds", tmp_path, "--rules", "DEDUP-01,DEDUP-03")
    assert (
        ran.out
        == f"""\
Seed 7, broker 4.0.8, 2 rules, budget 600 s

Pulsar 4.0.8 with pulsar-client 3.13.0: 500 operations in 20 s, seed 7
Rule      Verdict  Exercised  Excused
DEDUP-01  held             3        -  {title(RULES["DEDUP-01"])}
DEDUP-03  held             3        -  {title(RULES["DEDUP-03"])}

Report: {tmp_path}/report/report.html
2 rules: 2 held."""
    )


def test_a_run_with_a_violation_prints_its_history(tmp_path: Path) -> None:
    ran = check("violates", tmp_path, "--rules", "DEDUP-03")
    _, _, rest = ran.out.partition("\n\n")
    assert (
        rest
        == f"""\
Pulsar 4.0.8 with pulsar-client 3.13.0: 500 operations in 20 s, seed 7
Rule      Verdict   Exercised  Excused
DEDUP-03  violated          3        -  {VIOLATION.because}

DEDUP-03: {title(RULES["DEDUP-03"])}
  Found by Deduplication: {VIOLATION.because}.
{chr(10).join(f"    {step}" for step in explain(history()))}
  Step 8 breaks the rule. Evidence:
    3:1 p0 4 (b4)
    3:2 p0 4 (b4)
  Without a broker, in 0.4 s: 7 steps of the recording left, 77 parts tried.
  On the broker, in 31.2 s: 8 steps left, 12 parts tried in 40 runs.
  To replay it (it came back in 4 of 5 replays, 95 % interval 38 to 96 %):
    pulsar-conformance replay report/histories/1-minimal.json --broker 4.0.8

Report: {tmp_path}/report/report.html
1 rule: 1 violated."""
    )


def test_a_green_run_fits_one_screen_with_any_known_deviations(tmp_path: Path) -> None:
    short = check("deviates", tmp_path, "--known", known_file(tmp_path)).out.splitlines()
    assert len(short) <= len(DEDUPLICATION) + 8
    assert short[-3:-1] == [
        f"1 known deviation met, which fail nothing: {QUIRK.name}.",
        f"Report: {tmp_path}/report/report.html",
    ]
    assert short[-1] == f"{len(DEDUPLICATION)} rules: {len(DEDUPLICATION) - 1} held, 1 known deviation."
    assert QUIRK.summary not in "\n".join(short)
    (tmp_path / "report").rename(tmp_path / "before")
    long = check("deviates", tmp_path, "--known", known_file(tmp_path), "--verbose").out
    assert QUIRK.summary in long


def test_progress_is_printed_to_standard_error_in_plain_lines(tmp_path: Path) -> None:
    ran = check("holds", tmp_path, "--rules", "DEDUP-01,DEDUP-03")
    assert ran.err.splitlines() == [
        "[   0 s] Starting the broker",
        "[   5 s] Pulsar 4.0.8 is up; 1 machine: Deduplication",
        "[   6 s] DEDUP-01 exercised (1 of 2 rules exercised)",
        "[   7 s] DEDUP-03 exercised (2 of 2 rules exercised)",
        "[  20 s] the machines have ended",
    ]


def test_the_json_has_the_form_of_its_schema(tmp_path: Path) -> None:
    check("violates", tmp_path, "--rules", "DEDUP-01,DEDUP-03,REPL-06", "--json", "out.json")
    written = json.loads((tmp_path / "out.json").read_text())
    validate(written)
    nothing_more: dict[str, Any] = {"deviation": None, "met": {}, "rate": None, "replays": None, "seconds": 0.0}
    nothing_more |= {"excused": 0, "interval": None, "left_out": 0, "shortening": [], "replay": None}
    nothing_more |= {"overdue": False, "load": None, "baseline": None}
    assert datetime.fromisoformat(written.pop("date")) > datetime.now(UTC) - timedelta(minutes=5)
    assert written.pop("command").endswith("--json out.json")
    assert written.pop("load")["seconds"] >= 0
    assert written == {
        "by": "check",
        "schema": 3,
        "excused": [],
        "stale": [],
        "suite": version("pulsar-conformance"),
        "broker": "4.0.8",
        "release": "4.0.8",
        "clients": {"wire client": "0.1.0", "pulsar-client": "3.13.0"},
        "seed": 7,
        "exit_status": 1,
        "rules": [
            {"id": "DEDUP-01", "verdict": "held", "exercised": 3, "history": None, "because": None} | nothing_more,
            {
                "id": "DEDUP-03",
                "verdict": "violated",
                "exercised": 3,
                "excused": 0,
                "seconds": 0.0,
                "deviation": None,
                "history": "report/histories/1-minimal.json",
                "replay": "report/histories/1-minimal.json",
                "because": VIOLATION.because,
                "met": {},
                "replays": {"tries": 5, "came_back": 4},
                "interval": [0.3755, 0.9638],
                "rate": {"broke_in": 1, "checked_in": 2},
                "left_out": 0,
                "overdue": False,
                "load": None,
                "baseline": None,
                "shortening": [
                    {"name": "recording", "seconds": 0.4, "candidates": 77, "runs": 0, "steps": 7},
                    {"name": "broker", "seconds": 31.2, "candidates": 12, "runs": 40, "steps": 8},
                ],
            },
            {"id": "REPL-06", "verdict": "model-only", "exercised": 0, "history": None, "because": None} | nothing_more,
        ],
        "operations": 500,
        "seconds": 20.0,
        "harness_errors": [],
        "unseen": [],
        "stopped": None,
        "ended": [],
        "substitutes": {},
    }


def test_a_history_path_is_relative_to_the_json(tmp_path: Path) -> None:
    check("violates", tmp_path)
    (broken,) = [rule for rule in verdicts(tmp_path)["rules"] if rule["history"]]
    assert broken["history"] == "histories/1-minimal.json"


@pytest.mark.parametrize(
    "scenario", ["holds", "leaves_out", "violates", "suspects", "deviates", "crashes", "loses_a_process"]
)
def test_every_json_matches_its_schema(scenario: str, tmp_path: Path) -> None:
    check(scenario, tmp_path, "--known", known_file(tmp_path))
    validate(verdicts(tmp_path))


@pytest.mark.parametrize(
    ("listed", "status", "said"),
    [
        (("DEDUP-03",), 0, "Broken as listed, which fails nothing: DEDUP-03."),
        (("DEDUP-03", "DEDUP-01"), 1, "The list of known failures is stale, because these rules held: DEDUP-01."),
    ],
)
def test_rules_that_the_client_is_listed_to_break_fail_nothing(
    listed: tuple[str, ...], status: int, said: str, tmp_path: Path
) -> None:
    (tmp_path / "failing").write_text("\n".join(["# of this client", *listed]))
    ran = check("violates", tmp_path, "--known-failing", str(tmp_path / "failing"))
    assert (ran.status, ran.out.splitlines()[-1].endswith(said)) == (status, True), ran.out
    assert verdicts(tmp_path)["exit_status"] == status
    assert verdicts(tmp_path)["excused"] == ["DEDUP-03"]


def test_the_schema_refuses_an_unknown_verdict(tmp_path: Path) -> None:
    check("holds", tmp_path)
    changed = verdicts(tmp_path)
    changed["rules"][0]["verdict"] = "probably"
    with pytest.raises(jsonschema.ValidationError):
        validate(changed)


def test_a_suspected_violation_is_reported_with_its_rate_and_its_history(tmp_path: Path) -> None:
    ran = check("suspects", tmp_path)
    (suspected,) = [rule for rule in verdicts(tmp_path)["rules"] if rule["verdict"] == "suspected"]
    assert (ran.status, suspected["id"], suspected["rate"]) == (3, "DEDUP-03", {"broke_in": 1, "checked_in": 2})
    assert suspected["replays"] == {"tries": 30, "came_back": 0}
    assert (tmp_path / "report" / suspected["history"]).is_file()
    assert f"{len(DEDUPLICATION)} rules: {len(DEDUPLICATION) - 1} held, 1 suspected." in ran.out
    (skipped,) = junit(tmp_path).iter("skipped")
    assert (skipped.get("message") or "").startswith("suspected: sequence id 4")


def test_a_rule_that_this_broker_cannot_show_fails_only_if_it_was_named(tmp_path: Path) -> None:
    assert check("leaves_out", tmp_path).status == 0
    (undecidable,) = [rule for rule in verdicts(tmp_path)["rules"] if rule["id"] == "DEDUP-04"]
    assert (undecidable["verdict"], undecidable["because"]) == ("not-decidable", "no write can fail in this broker")
    (again := tmp_path / "again").mkdir()
    assert check("leaves_out", again, "--rules", "DEDUP,DEDUP-04").status == 2
    assert verdicts(again)["rules"]


def test_a_known_deviation_is_reported_separately_and_does_not_fail(tmp_path: Path) -> None:
    ran = check("deviates", tmp_path, "--known", known_file(tmp_path))
    (deviating,) = [rule for rule in verdicts(tmp_path)["rules"] if rule["verdict"] == "known-deviation"]
    assert (ran.status, deviating["id"], deviating["deviation"]) == (0, "DEDUP-03", QUIRK.name)
    assert f"{len(DEDUPLICATION)} rules: {len(DEDUPLICATION) - 1} held, 1 known deviation." in ran.out


def test_a_known_deviation_that_was_not_met_is_reported(tmp_path: Path) -> None:
    ran = check("holds", tmp_path, "--known", known_file(tmp_path))
    assert ran.status == 0
    assert f"Known, but not met in this run: {QUIRK.name}." in ran.out.splitlines()
    assert verdicts(tmp_path)["unseen"] == [QUIRK.name]


def test_a_crash_of_the_engine_is_reported_with_its_output(tmp_path: Path) -> None:
    ran = check("crashes", tmp_path)
    assert re.search(
        r"Harness error: The engine \(process \d+\) was ended by SIGSEGV before it was finished\.", ran.out
    )
    assert "  | the last thing it printed" in ran.out
    assert "last thing" in (tmp_path / "report" / "engine.log").read_text()


def test_a_process_of_the_release_that_somebody_killed_is_in_the_reports_of_a_run_that_noticed_nothing(
    tmp_path: Path,
) -> None:
    ran = check("loses_a_process", tmp_path)
    assert ran.status == 1
    assert re.search(r"SERVE-02 +violated", ran.out)
    assert "The bookie (process" in ran.out
    assert "| its last line" in ran.out
    (ended,) = verdicts(tmp_path)["ended"]
    assert (ended["process"], ended["status"], ended["log"]) == ("bookie", -9, ["its last line"])


def test_an_engine_without_a_machine_is_reported(tmp_path: Path) -> None:
    ran = check("finds_no_machine", tmp_path)
    assert "Harness error: The engine found no machine to run: none has that name" in ran.out


def test_the_events_are_kept_and_can_be_read_again(tmp_path: Path) -> None:
    check("babbles", tmp_path)
    kept = [decode(line) for line in events_file(tmp_path / "report").read_bytes().splitlines()]
    assert [type(event) for event in kept if not isinstance(event, LoadMeasured)][:2] == [RunAsked, RunStarted]
    assert any(isinstance(event, RunFinished) for event in kept)


def junit(folder: Path) -> ElementTree.Element:
    return ElementTree.parse(folder / "report" / "junit.xml").getroot()[0]


def test_junit_has_a_failure_for_a_violation(tmp_path: Path) -> None:
    check("violates", tmp_path)
    suite = junit(tmp_path)
    (failure,) = suite.iter("failure")
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == (str(len(DEDUPLICATION)), "1", "0")
    assert "8. producer p0 (session s2, pulsar-client) sends 4 (b4): stored at 3:2." in (failure.text or "")


def test_junit_has_an_error_for_a_rule_that_cannot_be_decided_only_if_it_was_named(tmp_path: Path) -> None:
    for named in (), ("--rules", "DEDUP,DEDUP-04"):
        folder = tmp_path / str(len(named))
        folder.mkdir()
        check("leaves_out", folder, *named)
        (skipped,) = junit(folder).iter("skipped")
        assert skipped.get("message") == "not decidable here: no write can fail in this broker"
        errors = [error.get("message") for error in junit(folder).iter("error")]
        assert errors == (["The run did not decide DEDUP-04."] if named else [])


def test_junit_skips_known_deviations(tmp_path: Path) -> None:
    check("deviates", tmp_path, "--known", known_file(tmp_path))
    (skipped,) = junit(tmp_path).iter("skipped")
    assert (skipped.get("message") or "").startswith(f"known deviation: {QUIRK.summary}")


def test_junit_has_an_error_for_a_harness_error(tmp_path: Path) -> None:
    check("has_harness_error", tmp_path)
    (error,) = junit(tmp_path).iter("error")
    assert error.get("message") == "The broker did not start within 60 s."
    assert "<no heap>" in (error.text or "")


def test_a_seed_is_drawn_and_printed_first_if_none_is_given(tmp_path: Path) -> None:
    ran = run("holds", "check", folder=tmp_path)
    seed = ran.out.splitlines()[0].removeprefix("Seed ").partition(",")[0]
    assert (tmp_path / "reports" / f"4.0.8-{seed}" / "verdicts.json").exists()
