"""A process that ended although the suite did not end it: the verdict, and every report."""

from __future__ import annotations

import io
import json
import signal
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest
from rich.console import Console

from conformance.ended import ProcessEnd, how_it_ended
from conformance.events import AnyEvent, ProcessEnded, RunFinished, ViolationFound
from conformance.history.document import Violation
from conformance.known import KnownDeviation
from conformance.report import github, junit, table, verdicts_json
from conformance.report.pages.page import page
from conformance.report.sentences.forms import encode
from conformance.verdicts import OF_CRASHES, Deviated, Suspected, Verdicts, Violated, verdicts
from model.rules.catalogue import select
from tests.report.samples import MINIMISED, example, run
from tests.report.test_github import report_data

WHEN = datetime(2026, 1, 1, tzinfo=UTC)
SENTENCE = "The bookie (process 77) was ended by SIGKILL, and the suite did not end it."
LAST_LINE = "the last line that the bookie wrote"
CRASH = ProcessEnded(
    at_s=12.0,
    process="bookie",
    is_of_release=True,
    pid=77,
    status=-signal.SIGKILL,
    sentence=SENTENCE,
    log_tail=f"the line before\n{LAST_LINE}",
)
OF_SUITE = msgspec.structs.replace(CRASH, process="lane", is_of_release=False)
BOTH = example(DEDUP_01=2, DEDUP_03=5)


def judge(*events: AnyEvent, known: tuple[KnownDeviation, ...] = ()) -> Verdicts:
    return verdicts(run(BOTH, *events), select("DEDUP-01,DEDUP-03"), known)


def test_a_crash_of_the_release_violates_a_rule_and_is_certain_without_a_replay() -> None:
    judged = judge(CRASH)
    (crashed,) = (verdict for verdict in judged.rules if verdict.rule.id == OF_CRASHES)
    assert isinstance(crashed, Violated)
    assert (crashed.crashes, crashed.history, crashed.deviation) == ((CRASH,), None, None)
    assert (judged.exit_status, judged.harness_errors, judged.ended) == (1, (), (CRASH,))


def test_a_crash_is_certain_beside_a_violation_of_its_rule_that_never_came_back() -> None:
    found = ViolationFound(
        at_s=9.0,
        machine="Deduplication",
        violation=Violation(rule=OF_CRASHES, because="the broker's process ended by itself", step=1),
        history=MINIMISED.original,
        operations=120,
    )
    never = msgspec.structs.replace(MINIMISED, tries=30, came_back=0)
    kind = {verdict.rule.id: type(verdict) for verdict in judge(found, never).rules}
    assert kind[OF_CRASHES] is Suspected
    kind = {verdict.rule.id: type(verdict) for verdict in judge(found, never, CRASH).rules}
    assert kind[OF_CRASHES] is Violated
    assert Deviated not in kind.values()


def test_a_process_of_the_suite_that_ended_is_a_harness_error() -> None:
    judged = judge(OF_SUITE)
    assert OF_CRASHES not in {verdict.rule.id for verdict in judged.rules}
    assert [error.sentence for error in judged.harness_errors] == [SENTENCE]
    assert (judged.exit_status, judged.ended) == (2, (OF_SUITE,))


@pytest.mark.parametrize("ended", [CRASH, OF_SUITE])
def test_every_report_has_the_process_the_signal_and_the_end_of_its_log(ended: ProcessEnded, tmp_path: Path) -> None:
    data = report_data(tmp_path, BOTH, ended)
    terminal = io.StringIO()
    table.show(data, Console(file=terminal, width=200))
    html = page(data, folder=tmp_path, when=WHEN)
    xml = ElementTree.tostring(junit.as_xml(data), encoding="unicode")
    for report in (terminal.getvalue(), html, xml):
        assert SENTENCE in report
        assert LAST_LINE in report
    assert any(line.startswith("::error ") and SENTENCE in line for line in github.commands(data))
    assert SENTENCE in github.as_markdown(data)
    (entry,) = json.loads(encode(verdicts_json.form(data, folder=tmp_path, when=WHEN)))["ended"]
    assert (entry["process"], entry["status"], entry["pid"]) == (ended.process, -9, 77)
    assert (entry["of"], entry["log"][-1]) == ("release" if ended.is_of_release else "suite", LAST_LINE)


def test_a_crash_after_the_last_event_of_a_run_counts() -> None:
    judged = verdicts([*run(BOTH), CRASH], select("DEDUP-01"))
    assert isinstance(run()[-1], RunFinished)
    assert judged.exit_status == 1


def end(status: int, log_tail: str = "") -> ProcessEnd:
    return ProcessEnd(process="broker", is_of_release=True, pid=7, status=status, log_tail=log_tail)


def test_the_likely_cause_of_a_sigkill_follows_from_what_the_kernel_counts() -> None:
    killed = end(-signal.SIGKILL)
    assert "memory killer is the likely cause: it struck 2 times" in killed.sentence(2)
    assert "another process or a user sent the signal" in killed.sentence(0)
    assert "memory killer sends this signal" in killed.sentence(None)
    assert "memory killer" not in end(-signal.SIGSEGV).sentence(2)


def test_a_java_that_ran_out_of_memory_is_said_to_have() -> None:
    assert (
        end(3, "Terminating due to java.lang.OutOfMemoryError: Java heap space")
        .sentence(0)
        .endswith("ended with exit status 3, and the suite did not end it. Its Java ran out of memory.")
    )


def test_every_status_has_a_verb() -> None:
    verbs = [how_it_ended(status) for status in (None, 0, 3, -signal.SIGABRT, -99)]
    assert verbs == [
        "ended",
        "ended with exit status 0",
        "ended with exit status 3",
        "was ended by SIGABRT",
        "was ended by signal 99",
    ]
