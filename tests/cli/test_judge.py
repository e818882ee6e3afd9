"""``judge``: a check is believed as far as its journals show what it said."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from conformance.commands.judge import JudgedRun, judged_again
from conformance.commands.supervision.supervisor import events_file
from conformance.events import AnyEvent, RunAsked, encode
from conformance.harness_error import HarnessError
from conformance.history import document
from conformance.history.journal import Journal
from conformance.known import HISTORIES, KnownDeviation, shipped
from tests.report.samples import FOUND, QUIRK, STARTED, example

NAME = "batch-without-highest-id"
STORED = document.read(HISTORIES / f"{NAME}.json")
KNOWN = tuple(one for one in shipped() if one.name == NAME)


def checked(folder: Path, *events: AnyEvent, known: tuple[KnownDeviation, ...] = KNOWN) -> Path:
    """A check whose only example has the steps of a stored history, and that said this of itself."""
    folder.mkdir(exist_ok=True)
    asked = RunAsked(at_s=0.0, command="check", broker="4.0.8", rules=("DEDUP-03",), seed=7, budget_s=9.0, known=known)
    events_file(folder).write_bytes(b"".join(map(encode, (asked, STARTED, *events))))
    journal = Journal(folder / "journal-lane-1.jsonl")
    journal.begin(1, "Deduplication")
    for step in STORED.steps:
        journal.record(step)
    journal.close()
    return folder


def times(run: JudgedRun, rule: str) -> int:
    return next(one.exercised for one in run.rules if one.rule == rule)


def test_a_check_that_said_what_its_journals_show_agrees(tmp_path: Path) -> None:
    first = judged_again(checked(tmp_path, example()))
    claims = {one.rule.replace("-", "_"): one.exercised for one in first.rules}
    run = judged_again(checked(tmp_path / "again", example(**claims)))
    assert (run.exit_status, run.disagreements, run.deviations) == (0, (), {NAME: 1})
    assert run.journals == first.journals


def test_checks_that_were_never_made_are_found(tmp_path: Path) -> None:
    run = judged_again(checked(tmp_path, example(DEDUP_01=100)))
    assert run.exit_status == 2
    assert run.disagreements == (
        f"The check says that DEDUP-01 was exercised 100 times; its journals show {times(run, 'DEDUP-01')}.",
    )


def test_a_violation_that_was_left_out_is_found(tmp_path: Path) -> None:
    run = judged_again(checked(tmp_path, example(), known=()))
    assert run.exit_status == 1
    assert run.disagreements == ("The check reports no violation of DEDUP-03; its journals show one.",)


def test_a_violation_that_the_journals_do_not_show_is_found(tmp_path: Path) -> None:
    run = judged_again(checked(tmp_path, example(), FOUND))
    assert run.exit_status == 2
    assert run.disagreements == ("The check reports a violation of DEDUP-03; its journals show none.",)


def test_without_the_known_deviations_the_rule_is_broken_and_nothing_is_held_against_the_check(tmp_path: Path) -> None:
    run = judged_again(checked(tmp_path, example()), known=())
    assert run.exit_status == 1
    assert run.disagreements == ()
    assert [bool(one.violations) for one in run.rules if one.rule == QUIRK.rule] == [True]


def test_one_changed_byte_changes_the_digest(tmp_path: Path) -> None:
    before = judged_again(checked(tmp_path, example()))
    journal = tmp_path / "journal-lane-1.jsonl"
    journal.write_bytes(journal.read_bytes().replace(b'"b2"', b'"b3"'))
    assert judged_again(tmp_path).journals != before.journals


@pytest.mark.parametrize("damaged", [b"nonsense\n", b"\xff\n"])
def test_a_damaged_journal_is_named_in_a_sentence(tmp_path: Path, damaged: bytes) -> None:
    checked(tmp_path, example())
    (tmp_path / "journal-lane-1.jsonl").write_bytes(damaged)
    with pytest.raises(HarnessError, match=r"journal-lane-1\.jsonl is not a journal of this suite"):
        judged_again(tmp_path)


def test_a_check_without_a_journal_is_refused(tmp_path: Path) -> None:
    (checked(tmp_path, example()) / "journal-lane-1.jsonl").unlink()
    with pytest.raises(HarnessError, match="has no journal"):
        judged_again(tmp_path)


def test_a_journal_of_a_deviation_that_the_release_does_not_have_is_a_violation(tmp_path: Path) -> None:
    elsewhere = (replace(KNOWN[0], releases=("==2.5.0",), clients={}),)
    assert judged_again(checked(tmp_path, example(), known=elsewhere)).exit_status == 1
