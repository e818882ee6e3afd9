"""``defects --hunt`` with an engine that follows a script: the report of each defect, and the exit status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command_line import run

TABLE = """
Defect              Breaks    Violated  Ops  Secs  Steps  Replays
check-removed       DEDUP-03  DEDUP-03  120   4.0      8   4 of 5
  by Deduplication
gap-refused         DEDUP-08  DEDUP-03  120   4.0      8   4 of 5
  not its doing
switch-ignored      DEDUP-01  -         500   2.5      -        -
  not found
last-id-too-high    DEDUP-09  -           -     -      -        -
  harness error
"""

HUNT = ("defects", "--hunt", "--seed", "7", "--report", "report")


def test_a_hunt_reports_each_defect_and_fails_if_one_was_not_found(tmp_path: Path) -> None:
    names = ("check-removed", "gap-refused", "switch-ignored", "last-id-too-high")
    ran = run("has_a_defect", *HUNT, *names, "--json", "hunt.json", folder=tmp_path)
    assert ran.status == 1
    assert ran.out.startswith(TABLE)
    assert "DEDUP-03 was broken without the defect, too, in 6 of 6 replays" in " ".join(ran.out.split())
    assert ran.out.splitlines()[-1] == "1 of 4 defects found."
    hunt = json.loads((tmp_path / "hunt.json").read_text())
    assert [(one["id"], one["result"]) for one in hunt["defects"]] == list(
        zip(names, ("found", "not-its-doing", "not-found", "harness-error"), strict=True)
    )
    assert hunt["defects"][0]["replays_without_defect"] == {"tries": 6, "came_back": 0}
    assert hunt["seed"] == 7


def test_a_hunt_that_found_everything_ends_with_0_and_reports_its_progress(tmp_path: Path) -> None:
    ran = run("has_a_defect", *HUNT, "check-removed", "--json", folder=tmp_path)
    assert ran.status == 0
    assert json.loads(ran.out)["defects"][0]["result"] == "found"
    assert "1/1 check-removed (breaks DEDUP-03)" in ran.err
    assert "Deduplication found it after 120 operations: DEDUP-03" in ran.err
    assert "1 of 1 defect found." in ran.err, "the table is not on standard output, where the JSON is"


def test_a_hunt_with_a_harness_error_ends_with_2(tmp_path: Path) -> None:
    ran = run("has_a_defect", *HUNT, "last-id-too-high", folder=tmp_path)
    assert ran.status == 2
    assert "DEDUP-03 was broken, but then: The broker did not start within 60 s." in " ".join(ran.out.split())


def test_a_defect_whose_violation_never_came_back_is_only_suspected(tmp_path: Path) -> None:
    ran = run("has_a_defect", *HUNT, "ack-dropped", "--json", "hunt.json", folder=tmp_path)
    assert ran.status == 3
    assert "was broken with it, but that came back in none of 30 replays" in " ".join(ran.out.split())
    (hunted,) = json.loads((tmp_path / "hunt.json").read_text())["defects"]
    assert hunted["result"] == "suspected"


def test_the_engine_gets_the_defect_and_stops_at_the_first_violation(tmp_path: Path) -> None:
    run("has_a_defect", *HUNT, "check-removed", folder=tmp_path)
    arguments = (tmp_path / "report" / "check-removed" / "arguments").read_text()
    assert "--pulsar-defect check-removed" in arguments
    assert "--exitfirst" in arguments
    assert "--pulsar-seed 7" in arguments
    assert "--pulsar-setting" not in arguments


def test_the_engine_gets_the_settings_that_a_defect_needs(tmp_path: Path) -> None:
    run("has_a_defect", *HUNT, "classic-recently-joined-not-blocked", folder=tmp_path)
    arguments = (tmp_path / "report" / "classic-recently-joined-not-blocked" / "arguments").read_text()
    assert "--pulsar-setting subscriptionKeySharedUseClassicPersistentImplementation=true" in arguments


@pytest.mark.parametrize("arguments", [("--hunt", "no-such"), ("no-such",)])
def test_an_unknown_defect_is_one_sentence_and_status_2(arguments: tuple[str, ...], tmp_path: Path) -> None:
    ran = run("has_a_defect", "defects", *arguments, folder=tmp_path)
    assert ran.err.startswith("pulsar-conformance: Invalid value for '[NAMES]...': there is no defect 'no-such'; ")
    assert (ran.status, len(ran.err.splitlines())) == (2, 1)


def test_defects_are_listed_by_name(tmp_path: Path) -> None:
    ran = run("holds", "defects", "gap-refused", folder=tmp_path)
    assert ran.out.startswith("gap-refused  DEDUP-08  A sequence id is refused")
    assert "check-removed" not in ran.out


def test_the_machines_of_another_family_look_for_a_defect_that_names_it(tmp_path: Path) -> None:
    run("has_a_defect", *HUNT, "delayed-message-lost", folder=tmp_path)
    arguments = (tmp_path / "report" / "delayed-message-lost" / "arguments").read_text()
    assert "ACK-01" in arguments
    assert "SERVE-03" not in arguments
