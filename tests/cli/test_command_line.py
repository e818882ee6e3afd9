"""The output of the command line for lists, for help, and for names that do not exist."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from syrupy.assertion import SnapshotAssertion

from conformance.cli import cli
from conformance.engine.catalogue import DESCRIPTIONS
from conformance.faults.catalogue import defects
from conformance.history import document
from conformance.history.parquet import HistoryWriter
from model.explorations import VARIANTS
from model.rules.catalogue import CATALOGUE, DOCUMENTS, heading
from tests.cli.command_line import run
from tests.history.samples import event
from tests.report.samples import QUIRK, VIOLATION, history

HEADINGS = (*map(heading, DOCUMENTS), "Several documents")


BAD_INPUT = (
    "check --rules DEDUP-99",
    "check --rules dedup-01",
    "verify history --rules XYZ",
    "check --rules DEDUP-01,,ACK",
    "check --budget 100000000000000000000000h",
    "soak --faults kil,unload",
    "soak --defect cheque-removed",
    "explore --variant No-Check",
    "check --budget soon",
    "check --budget 0s",
    "check --setting maxMessageSize",
    "check --client newest",
    "check --machines keys,nope",
    "check --machines key",
    "check --machines deduplication,clusters-idle --rules DEDUP",
    "soak --minutes nan",
    "soak --hours inf",
    "verify history --release newest",
    "defects --budget 5s",
    "check --known missing.json",
    "check --json nowhere/out.json",
    "check --report taken",
    "check --report taken/below",
    "check --history taken/below",
    "check --history taken",
    "check --report 'of another run'",
    "replay missing.json --broker 4.0.8",
    "replay history.json",
    "verify history --settled 9s",
    "tap --broker localhost:6650",
    "tap --history h",
    "tap --broker localhost:6650 --history h --listen 6651",
    "tap --broker localhost:6650 --history h --listen 0.0.0.0:6651",
    "tap --broker http://localhost:8080 --history h",
    "tap --broker localhost:6650 --admin pulsar://localhost:6650 --history h",
    "tap --broker localhost:6650 --history taken",
    "chek",
    "check --defect no-such",
    "explore --variant no-such",
)


@pytest.mark.parametrize("typed", BAD_INPUT)
def test_bad_input_is_one_sentence_and_status_2(typed: str, tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    (tmp_path / "taken").touch()
    (tmp_path / "of another run").mkdir()
    (tmp_path / "of another run" / "events.jsonl").write_text("{}\n")
    ran = run("holds", *shlex.split(typed), folder=tmp_path)
    (sentence,) = ran.err.splitlines()
    assert sentence == snapshot
    assert ran.status == 2


@pytest.mark.parametrize("text", ["", "{}", '{"machine": 1}', "\x00"])
def test_a_file_that_is_no_history_is_one_sentence(text: str, tmp_path: Path) -> None:
    (tmp_path / "history.json").write_text(text)
    ran = run("replays", "replay", "history.json", "--broker", "4.0.8", folder=tmp_path)
    assert ran.err.startswith("pulsar-conformance: history.json is not a history of this suite: ")
    assert (ran.status, len(ran.err.splitlines())) == (2, 1)


def test_a_history_in_an_older_format_is_one_sentence(tmp_path: Path) -> None:
    document.write(msgspec.structs.replace(history(), format=document.FORMAT - 1), tmp_path / "old.json")
    ran = run("replays", "replay", "old.json", "--broker", "4.0.8", folder=tmp_path)
    assert ran.err == "pulsar-conformance: old.json has format 4; this suite reads only format 5\n"
    assert (ran.status, ran.out) == (2, "")


def test_an_inconsistent_history_is_one_sentence_before_anything_starts(tmp_path: Path) -> None:
    document.write(msgspec.structs.replace(history(), steps=()), tmp_path / "empty.json")
    ran = run("replays", "replay", "empty.json", "--broker", "4.0.8", folder=tmp_path)
    assert ran.err == "pulsar-conformance: empty.json has no steps: there is nothing to replay\n"
    assert (ran.status, ran.out) == (2, "")
    assert not (tmp_path / "reports").exists()


def test_a_bug_of_the_suite_is_one_sentence_and_its_traceback_is_kept(tmp_path: Path) -> None:
    (tmp_path / "report" / "junit.xml").mkdir(parents=True)
    ran = run("holds", "check", "--report", "report", folder=tmp_path)
    last = ran.err.splitlines()[-1]
    kept = tmp_path / "report" / "traceback.txt"
    assert last.startswith("pulsar-conformance: the suite itself failed (IsADirectoryError: ")
    assert last.endswith(f"the traceback of this bug is in {kept}")
    assert "Traceback" in kept.read_text()
    assert "Traceback" not in ran.err
    assert ran.status == 2


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("mach", ["machines"]),
        ("check --mach", ["--machines"]),
        ("check --machines keys,clusters-k", ["keys,clusters-kills"]),
        ("check --rules DEDUP,KEY-0", [f"DEDUP,KEY-0{number}" for number in range(1, 10)]),
        ("replay h.json --defect non", ["none"]),
        ("explore --variant no-ch", ["no-check"]),
        ("soak --faults kill,unl", ["kill,unload"]),
        ("check --broker dis", ["dist:"]),
    ],
)
def test_the_shell_completes_names(typed: str, completed: list[str], tmp_path: Path) -> None:
    words = f"pulsar-conformance {typed}"
    asked = {
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
        "_PULSAR_CONFORMANCE_COMPLETE": "bash_complete",
        "PULSAR_CONFORMANCE_CACHE": str(tmp_path),
    }
    ran = run("holds", folder=tmp_path, environment=asked)
    assert [line.removeprefix("plain,") for line in ran.out.splitlines()] == completed


def test_rules_are_listed_for_people(tmp_path: Path) -> None:
    ran = run("holds", "rules", folder=tmp_path)
    assert ran.status == 0
    listed = [line for line in ran.out.splitlines() if not line.startswith((*HEADINGS, "From:", "See:"))]
    assert [line.split()[0] for line in listed] == [rule.id for rule in CATALOGUE]  # no line is wrapped in a pipe


def test_rules_are_listed_for_programs(tmp_path: Path) -> None:
    listed = json.loads(run("holds", "rules", "--json", folder=tmp_path).out)
    assert [rule["id"] for rule in listed] == [rule.id for rule in CATALOGUE]
    assert listed[0]["decided_by"] == ["wire"]


def test_machines_are_listed(tmp_path: Path) -> None:
    for_people = run("holds", "machines", folder=tmp_path).out
    lines = [line for line in for_people.splitlines() if line not in HEADINGS]
    assert {line.split()[0] for line in lines} == {machine.name for machine in DESCRIPTIONS}
    listed = json.loads(run("holds", "machines", "--json", folder=tmp_path).out)
    assert [machine["id"] for machine in listed] == [machine.name for machine in DESCRIPTIONS]
    (races,) = [machine for machine in listed if machine["id"] == "keys-races"]
    del races["summary"]
    assert races == {
        "id": "keys-races",
        "document": "004",
        "decides": ["KEY-01", "KEY-10"],
        "needs": ["defects"],
        "share": 3.0,
    }


def test_defects_are_listed(tmp_path: Path) -> None:
    listed = json.loads(run("holds", "defects", "--json", folder=tmp_path).out)
    assert [defect["id"] for defect in listed] == [defect.name for defect in defects()]
    assert run("holds", "defects", folder=tmp_path).status == 0


def test_variants_of_the_model_are_listed_and_explored(tmp_path: Path) -> None:
    listed = run("holds", "explore", "--list", folder=tmp_path)
    assert listed.status == 0
    names = {line.split()[0] for line in listed.out.splitlines() if not line.startswith(" ")}
    assert names == {variant.name for variant in VARIANTS}
    found = run("holds", "explore", "--variant", "no-check", folder=tmp_path)
    assert found.status == 0
    assert "Broken: no message is stored twice" in found.out


def test_a_history_is_compacted_bucket_by_bucket(tmp_path: Path) -> None:
    with HistoryWriter(tmp_path / "soak", "w", buckets=1, segment_events=2) as writer:
        for number in range(6):
            writer.record(event(sequence_id=number))
    for line in ("1 file made of 3 files", "1 file, compacted before"):
        ran = run("sound", "compact", "soak", folder=tmp_path)
        assert (ran.status, ran.err) == (0, f"bucket-0000: {line}\n")
    assert ran.out == "soak: 0 buckets compacted"


@pytest.mark.parametrize(("spoiled", "sentence"), [(False, "there is no history in"), (True, "is not a whole file")])
def test_a_history_that_cannot_be_compacted_is_one_sentence(spoiled: bool, sentence: str, tmp_path: Path) -> None:
    if spoiled:
        (tmp_path / "bucket-0000").mkdir()
        (tmp_path / "bucket-0000" / "w.parquet").write_bytes(b"PAR1")
    ran = run("sound", "compact", ".", folder=tmp_path)
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.startswith("pulsar-conformance: ")
    assert sentence in ran.err
    assert len(ran.err.splitlines()) == 1


@pytest.mark.parametrize("command", ["", "check", "replay", "soak", "tap", "defects", "verify", "clean"])
def test_the_help_is(command: str, tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    ran = run("holds", *command.split(), "--help", folder=tmp_path, environment={"LINES": "40"})
    assert (ran.status, ran.err) == (0, "")
    assert ran.out == snapshot


@pytest.mark.parametrize("command", sorted(cli.commands))
def test_every_command_has_a_help(command: str) -> None:
    ran = CliRunner().invoke(cli, [command, "--help"])
    assert (ran.exit_code, ran.exception) == (0, None)
    assert ran.output.startswith("Usage: ")


def test_without_a_command_the_help_is_printed(tmp_path: Path) -> None:
    ran = run("holds", folder=tmp_path)
    assert ran.status == 2
    assert "check" in ran.err
    assert "replay" in ran.err


def test_replay_prints_what_happened_this_time_and_how_often_the_violation_came_back(tmp_path: Path) -> None:
    document.write(history(), tmp_path / "history.json")
    ran = run("replays", "replay", "history.json", "--broker", "4.0.8", "--times", "3", folder=tmp_path)
    lines = ran.out.splitlines()
    assert lines[0] == "What happened in replay 1 of 3:"
    assert lines[1].startswith("1. the suite creates topic t0")
    assert "a snapshot holds 100 producers." in " ".join(lines[1:3])  # that of the recorded history holds 10
    assert lines[-1].startswith("A rule was broken in 2 of 3 replays.")
    assert ran.status == 1


def known_history(folder: Path) -> None:
    """A history that shows the quirk, and the list that knows it."""
    shown = history(violation=VIOLATION.__replace__(deviation=QUIRK.name))
    document.write(shown, folder / "history.json")
    (folder / "known.json").write_bytes(msgspec.json.encode([QUIRK]))


def test_a_replay_tolerates_a_known_deviation_and_counts_it(tmp_path: Path) -> None:
    known_history(tmp_path)
    asked = ("replay", "history.json", "--broker", "4.0.8", "--known", "known.json", "--times", "3")
    ran = run("replays_known", *asked, folder=tmp_path)
    assert f"The known deviation {QUIRK.name} was met in 2 of 3 replays." in ran.out
    assert "seems to be gone" not in ran.out
    assert ran.status == 0


def test_a_replay_without_the_expected_deviation_says_so(tmp_path: Path) -> None:
    known_history(tmp_path)
    asked = ("replay", "history.json", "--broker", "4.0.8", "--known", "known.json", "--times", "2")
    ran = run("holds", *asked, folder=tmp_path)
    gone = f"The known deviation {QUIRK.name}, which this history shows, was met in no replay: it seems to be fixed."
    assert gone in " ".join(ran.out.split())
    assert ran.status == 0


def test_a_replay_does_not_tolerate_an_unknown_deviation(tmp_path: Path) -> None:
    known_history(tmp_path)
    ran = run("replays_known", "replay", "history.json", "--broker", "4.0.8", "--known", "none", folder=tmp_path)
    sentence = f"Not known of this release: the deviation {QUIRK.name} was met in 3 of 5 replays."
    assert sentence in " ".join(ran.out.split())
    assert ran.status == 1


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ((), "--pulsar-defect gap-refused"),
        (("--defect", "check-removed"), "--pulsar-defect check-removed"),
        (("--defect", "none"), ""),
    ],
)
def test_a_replay_switches_on_the_defect_of_its_history_or_the_named_one(
    asked: tuple[str, ...], expected: str, tmp_path: Path
) -> None:
    document.write(msgspec.structs.replace(history(), defect="gap-refused"), tmp_path / "history.json")
    replay = ("replay", "history.json", "--broker", "4.0.8", "--report", "report")
    ran = run("replays", *replay, *asked, folder=tmp_path)
    arguments = (tmp_path / "report" / "arguments").read_text()
    assert (expected in arguments) if expected else ("--pulsar-defect" not in arguments)
    assert ran.out.startswith(f"With the defect {expected.split()[1]} switched on: " if expected else "What happened")
