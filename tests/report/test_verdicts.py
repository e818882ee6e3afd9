"""The fold from events to verdicts, and the exit status."""

from __future__ import annotations

import io
import json
from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from rich.console import Console

from conformance.events import (
    AnyEvent,
    BaselineResult,
    ComparedWithBaseline,
    HarnessErrorHappened,
    LoadMeasured,
    NotExercisable,
    Phase,
    ViolationMinimised,
)
from conformance.history.document import ENOUGH_REPLAYS, Replays
from conformance.known.failures import KnownFailures
from conformance.load import Load
from conformance.report import github, junit, table, verdicts_json
from conformance.report.pages.page import page
from conformance.report.sentences.forms import encode
from conformance.verdicts import (
    ALL_EXCUSED,
    ENDED_EARLY,
    NEVER_REACHED,
    UNFINISHED,
    Deviated,
    Held,
    ModelOnly,
    NotDecidable,
    NotExercised,
    RuleVerdict,
    Suspected,
    Verdicts,
    Violated,
    name_of,
    seconds_of,
    times_exercised,
    verdicts,
)
from model.rules.catalogue import RULES, select
from tests.report.samples import FOUND, INTERRUPTED, MINIMISED, QUIRK, STARTED, example, finished, run
from tests.report.test_github import report_data

WHEN = datetime(2026, 1, 1, tzinfo=UTC)
HARNESS_ERROR = HarnessErrorHappened(at_s=9.5, sentence="The disk is full.")
BOTH = example(DEDUP_01=2, DEDUP_03=5)


NEVER_CAME_BACK = MINIMISED.__replace__(tries=ENOUGH_REPLAYS, came_back=0)


def judge(
    *events: AnyEvent, rules: str = "DEDUP-01,DEDUP-03", known: bool = False, named: Collection[str] = ()
) -> Verdicts:
    return verdicts(events, select(rules), (QUIRK,) if known else (), named=named)


@pytest.mark.parametrize(
    ("listed", "excused", "stale", "status"),
    [
        (KnownFailures(failing=frozenset({"DEDUP-03"})), ("DEDUP-03",), (), 0),
        (KnownFailures(flaky=frozenset({"DEDUP-03"})), ("DEDUP-03",), (), 0),
        (KnownFailures(flaky=frozenset({"DEDUP-01", "DEDUP-03"})), ("DEDUP-03",), (), 0),
        (KnownFailures(failing=frozenset({"DEDUP-01", "DEDUP-03"})), ("DEDUP-03",), ("DEDUP-01",), 1),
        (KnownFailures(failing=frozenset({"DEDUP-13"})), (), (), 1),
    ],
)
@pytest.mark.parametrize("replays", [MINIMISED, NEVER_CAME_BACK])
def test_a_rule_that_the_client_is_listed_to_break_fails_nothing_unless_the_list_is_stale(
    listed: KnownFailures,
    excused: tuple[str, ...],
    stale: tuple[str, ...],
    status: int,
    replays: ViolationMinimised,
    tmp_path: Path,
) -> None:
    plain = report_data(tmp_path, BOTH, FOUND, replays)
    data = replace(plain, verdicts=replace(plain.verdicts, failures=listed))
    judged = data.verdicts
    assert (judged.excused, judged.stale) == (excused, stale)
    is_suspected = status == 1 and not stale and replays is NEVER_CAME_BACK
    assert judged.exit_status == (3 if is_suspected else status)
    cases = {case.get("name"): [child.tag for child in case] for case in junit.as_xml(data).iter("testcase")}
    assert ("failure" in cases["DEDUP-01"]) == bool(stale)
    assert ("skipped" in cases["DEDUP-03"]) == bool(excused or replays is NEVER_CAME_BACK)
    assert any(line.startswith("::error") for line in github.commands(data)) == (judged.exit_status == 1)
    said = table.summary(data)
    assert ("fails nothing: DEDUP-03." in said, "these rules held: DEDUP-01." in said) == (bool(excused), bool(stale))


def of(judged: Verdicts, rule: str) -> RuleVerdict:
    return next(verdict for verdict in judged.rules if verdict.rule.id == rule)


def test_exercised_rules_without_a_violation_held() -> None:
    judged = judge(*run(BOTH, Phase(at_s=9, what="more"), example(DEDUP_03=1)))
    assert judged.rules == (Held(rule=RULES["DEDUP-01"], exercised=2), Held(rule=RULES["DEDUP-03"], exercised=6))
    assert (judged.exit_status, judged.harness_errors, judged.release) == (0, (), "4.0.8")
    assert (judged.operations, judged.seconds) == (500, 20.0)


def test_a_rule_that_no_example_reached_is_no_pass() -> None:
    judged = judge(*run(example(DEDUP_01=1, DEDUP_03=0)))
    assert of(judged, "DEDUP-03") == NotExercised(rule=RULES["DEDUP-03"], why=NEVER_REACHED)
    assert judged.exit_status == 2


CANNOT = NotExercisable(at_s=9, rule="DEDUP-03", why="it cannot be killed")


def test_a_rule_that_this_deployment_cannot_exercise_gives_a_reason_and_does_not_fail() -> None:
    judged = judge(*run(example(DEDUP_01=1), CANNOT))
    assert of(judged, "DEDUP-03") == NotDecidable(rule=RULES["DEDUP-03"], why="it cannot be killed")
    assert judged.exit_status == 0


def test_a_rule_requested_by_id_that_cannot_be_exercised_is_undecided() -> None:
    judged = judge(*run(example(DEDUP_01=1), CANNOT), named={"DEDUP-03"})
    assert of(judged, "DEDUP-03") == NotDecidable(rule=RULES["DEDUP-03"], why="it cannot be killed", named=True)
    assert judged.exit_status == 2
    assert judge(*run(example(DEDUP_01=1), CANNOT), named={"DEDUP-01"}).exit_status == 0


def test_a_rule_that_cannot_be_exercised_does_not_excuse_another_one() -> None:
    assert judge(*run(CANNOT)).exit_status == 2


def test_a_rule_that_was_exercised_after_all_held() -> None:
    judged = judge(*run(BOTH, NotExercisable(at_s=9, rule="DEDUP-03", why="one of the machines could not")))
    assert of(judged, "DEDUP-03") == Held(rule=RULES["DEDUP-03"], exercised=5)


def test_a_rule_that_only_the_model_decides_does_not_fail() -> None:
    judged = judge(*run(BOTH), rules="DEDUP-01,REPL-06")
    assert of(judged, "REPL-06") == ModelOnly(rule=RULES["REPL-06"])
    assert judged.exit_status == 0


def test_a_violation_is_reported_with_its_minimal_history() -> None:
    judged = judge(*run(BOTH, FOUND, MINIMISED))
    verdict = of(judged, "DEDUP-03")
    assert isinstance(verdict, Violated)
    assert (verdict.deviation, verdict.history) == (None, MINIMISED.history)
    assert verdict.worst is not None
    assert verdict.worst.replays == Replays(tries=5, came_back=4)
    assert judged.exit_status == 1


def test_a_violation_that_could_not_be_minimized_keeps_its_history() -> None:
    verdict = of(judge(*run(BOTH, FOUND)), "DEDUP-03")
    assert isinstance(verdict, Violated)
    assert verdict.history == FOUND.history


def test_the_shortest_history_decides_whether_a_violation_breaks_the_rule_of_upgrades_too() -> None:
    found, minimal = FOUND.__replace__(also=("SERVE-15",)), MINIMISED.__replace__(also=("SERVE-15",))
    upgrades = example(DEDUP_03=5, SERVE_15=2)
    broken = judge(*run(upgrades, found, minimal), rules="DEDUP-03,SERVE-15")
    both = [(verdict.rule.id, isinstance(verdict, Violated)) for verdict in broken.rules]
    assert both == [("DEDUP-03", True), ("SERVE-15", True)]
    assert isinstance(of(judge(*run(upgrades, found), rules="SERVE-15"), "SERVE-15"), Violated)
    unneeded = judge(*run(upgrades, found, MINIMISED), rules="DEDUP-03,SERVE-15")
    assert isinstance(of(unneeded, "SERVE-15"), Held)


def test_a_violation_of_a_rule_that_was_not_requested_is_reported() -> None:
    judged = judge(*run(BOTH, FOUND), rules="DEDUP-01")
    assert [verdict.rule.id for verdict in judged.rules] == ["DEDUP-01", "DEDUP-03"]
    assert judged.exit_status == 1


def test_a_tolerated_known_deviation_is_reported_separately() -> None:
    judged = judge(*run(BOTH, example(deviations=3), example(deviations=4)), known=True)
    verdict = of(judged, "DEDUP-03")
    assert isinstance(verdict, Deviated)
    assert (verdict.deviation, verdict.occurrences) == (QUIRK.name, {QUIRK.name: 7})
    assert (judged.exit_status, judged.unseen) == (0, ())


def deviating(name: str) -> AnyEvent:
    return FOUND.__replace__(violation=FOUND.violation.__replace__(deviation=name))


def test_a_known_deviation_with_its_own_history_does_not_fail() -> None:
    judged = judge(*run(BOTH, deviating(QUIRK.name)), known=True)
    assert judged.exit_status == 0


def test_a_named_deviation_that_is_not_known_fails() -> None:
    judged = judge(*run(BOTH, deviating(QUIRK.name)))
    verdict = of(judged, "DEDUP-03")
    assert isinstance(verdict, Violated)
    assert (verdict.deviation, judged.exit_status) == (QUIRK.name, 1)


def test_a_known_deviation_does_not_hide_another_violation() -> None:
    judged = judge(*run(BOTH, deviating(QUIRK.name), FOUND, example(deviations=3)), known=True)
    verdict = of(judged, "DEDUP-03")
    assert isinstance(verdict, Violated)
    assert (verdict.deviation, judged.exit_status) == (None, 1)


@pytest.mark.parametrize("events", [(example(deviations=1),), (deviating(QUIRK.name),)])
def test_a_deviation_is_known_only_for_its_releases(events: tuple[AnyEvent, ...]) -> None:
    newer = STARTED.__replace__(release="4.1.0")
    judged = judge(newer, BOTH, *events, finished(), known=True)
    assert judged.exit_status == 1


@pytest.mark.parametrize(("brokers", "status"), [("4.1.0,4.0.8", 0), ("4.1.0,4.1.1", 1)])
def test_in_a_rolling_upgrade_the_deviations_of_either_release_are_known(brokers: str, status: int) -> None:
    upgrade = STARTED.__replace__(release="4.1.0", broker=brokers)
    judged = judge(upgrade, BOTH, example(deviations=1), finished(), known=True)
    assert (judged.release, judged.exit_status) == (brokers, status)


def test_a_known_deviation_that_was_not_met_is_named() -> None:
    assert judge(*run(BOTH), known=True).unseen == (QUIRK,)


@pytest.mark.parametrize("release", ["2.11.0", "4.1.0"])
def test_a_deviation_of_other_releases_is_not_expected(release: str) -> None:
    assert judge(STARTED.__replace__(release=release), BOTH, finished(), known=True).unseen == ()


def test_a_deviation_of_a_rule_that_was_not_exercised_is_not_expected() -> None:
    assert judge(*run(example(DEDUP_01=2)), known=True).unseen == ()


def test_a_deviation_unknown_to_the_engine_is_a_harness_error() -> None:
    judged = judge(*run(BOTH, example(deviations=1)))
    assert judged.exit_status == 2
    assert [QUIRK.name in harness_error.sentence for harness_error in judged.harness_errors] == [True]


def test_a_run_that_does_not_report_its_end_is_a_harness_error() -> None:
    judged = judge(STARTED, BOTH)
    assert [harness_error.sentence for harness_error in judged.harness_errors] == [UNFINISHED]
    assert judged.exit_status == 2


def test_a_run_that_was_stopped_is_no_pass_and_no_harness_error() -> None:
    judged = judge(STARTED, BOTH, INTERRUPTED)
    assert (judged.exit_status, judged.harness_errors, judged.stopped) == (2, (), INTERRUPTED)
    assert judge(STARTED, BOTH, FOUND, INTERRUPTED).exit_status == 1


def test_a_run_without_events_is_a_harness_error() -> None:
    judged = judge()
    assert (judged.exit_status, judged.release, judged.operations) == (2, None, 0)
    assert of(judged, "DEDUP-01") == NotExercised(rule=RULES["DEDUP-01"], why=ENDED_EARLY)


def test_a_harness_error_is_never_a_pass() -> None:
    judged = judge(*run(BOTH, HARNESS_ERROR))
    assert (judged.exit_status, judged.harness_errors) == (2, (HARNESS_ERROR,))


def test_a_harness_error_is_reported_once() -> None:
    assert judge(STARTED, HARNESS_ERROR).harness_errors == (HARNESS_ERROR,)


@pytest.mark.parametrize("rest", [(HARNESS_ERROR,), (HARNESS_ERROR, finished()), ()])
def test_a_violation_counts_whatever_failed_afterwards(rest: tuple[AnyEvent, ...]) -> None:
    assert judge(STARTED, example(DEDUP_01=1), FOUND, *rest).exit_status == 1


def test_a_violation_of_a_missing_rule_is_a_harness_error() -> None:
    stranger = FOUND.__replace__(violation=FOUND.violation.__replace__(rule="DEDUP-99"))
    judged = judge(*run(BOTH, stranger))
    assert judged.exit_status == 2
    assert "DEDUP-99" in judged.harness_errors[0].sentence


def test_operations_are_counted_up_to_the_end_of_the_run() -> None:
    judged = judge(STARTED, example(operations=30), FOUND, example(operations=30))
    assert judged.operations == FOUND.operations + 30


def test_only_rules_that_ran_were_exercised() -> None:
    judged = judge(*run(example(DEDUP_01=2), FOUND), rules="DEDUP-01,DEDUP-02,DEDUP-03,REPL-06")
    assert [times_exercised(verdict) for verdict in judged.rules] == [2, 0, 0, 0]


def test_a_rule_of_which_every_check_was_excused_is_not_exercised() -> None:
    excused = example(DEDUP_01=1).__replace__(excused={"DEDUP-01": 2, "DEDUP-03": 4})
    judged = judge(*run(excused), rules="DEDUP-01,DEDUP-03")
    assert of(judged, "DEDUP-03") == NotExercised(rule=RULES["DEDUP-03"], why=ALL_EXCUSED, excused=4)
    assert of(judged, "DEDUP-01") == Held(rule=RULES["DEDUP-01"], exercised=1, excused=2)
    assert judged.mostly_excused == judged.rules
    assert judged.exit_status == 2


def test_a_violation_that_came_back_in_no_replay_is_suspected() -> None:
    judged = judge(*run(BOTH, FOUND, NEVER_CAME_BACK))
    verdict = of(judged, "DEDUP-03")
    assert isinstance(verdict, Suspected)
    assert (verdict.history, judged.exit_status) == (MINIMISED.history, 3)


@pytest.mark.parametrize(("tries", "came_back"), [(ENOUGH_REPLAYS - 1, 0), (ENOUGH_REPLAYS, 1), (2, 0)])
def test_a_violation_that_came_back_once_or_was_replayed_less_is_violated(tries: int, came_back: int) -> None:
    judged = judge(*run(BOTH, FOUND, MINIMISED.__replace__(tries=tries, came_back=came_back)))
    assert isinstance(of(judged, "DEDUP-03"), Violated)
    assert judged.exit_status == 1


def test_a_suspected_violation_does_not_hide_one_that_came_back() -> None:
    other = FOUND.__replace__(history="histories/2.json")
    judged = judge(*run(BOTH, FOUND, NEVER_CAME_BACK, other))
    verdict = of(judged, "DEDUP-03")
    assert isinstance(verdict, Violated)
    assert verdict.history == other.history


def test_a_suspected_violation_with_a_known_deviation_is_suspected() -> None:
    judged = judge(*run(BOTH, deviating(QUIRK.name), FOUND, NEVER_CAME_BACK), known=True)
    verdict = of(judged, "DEDUP-03")
    assert isinstance(verdict, Suspected)
    assert verdict.deviation is None


@pytest.mark.parametrize("rest", [(HARNESS_ERROR,), (example(DEDUP_01=0),)])
def test_a_suspicion_does_not_let_an_unfinished_run_pass(rest: tuple[AnyEvent, ...]) -> None:
    assert judge(*run(FOUND, NEVER_CAME_BACK, *rest)).exit_status == 2


def test_a_violation_has_the_number_of_examples_with_it() -> None:
    seldom = NEVER_CAME_BACK.__replace__(broke_in=2, checked_in=412)
    verdict = of(judge(*run(BOTH, FOUND, MINIMISED, seldom)), "DEDUP-03")
    assert isinstance(verdict, Suspected)
    assert verdict.worst is not None
    assert str(verdict.worst.rate) == "2 of 412 examples"


def test_the_last_count_of_replays_counts() -> None:
    few, many = MINIMISED.__replace__(tries=5, came_back=0), MINIMISED.__replace__(tries=20, came_back=1)
    verdict = of(judge(*run(BOTH, FOUND, few, many)), "DEDUP-03")
    assert isinstance(verdict, Violated)
    assert verdict.worst is not None
    assert verdict.worst.replays == Replays(tries=20, came_back=1)


def test_the_time_of_a_rule_is_that_of_the_examples_that_exercised_it() -> None:
    first, second = BOTH.__replace__(seconds=1.5), example(DEDUP_03=1, DEDUP_01=0).__replace__(seconds=2.0)
    judged = judge(*run(first, second), rules="DEDUP-01,DEDUP-03,DEDUP-04")
    assert [seconds_of(verdict) for verdict in judged.rules] == [1.5, 3.5, 0.0]


OVERDUE = FOUND.__replace__(violation=FOUND.violation.__replace__(is_overdue=True), took_s=10.0)


@pytest.mark.parametrize(
    ("replayed", "kind"),
    [
        (None, Suspected),
        (MINIMISED.__replace__(tries=4, came_back=0), Suspected),
        (MINIMISED.__replace__(tries=4, came_back=1), Violated),
    ],
)
def test_what_was_overdue_and_came_back_in_no_replay_is_only_suspected(
    replayed: ViolationMinimised | None, kind: type[RuleVerdict]
) -> None:
    judged = judge(*run(BOTH, OVERDUE, *([] if replayed is None else [replayed])))
    assert isinstance(of(judged, "DEDUP-03"), kind)
    assert judged.exit_status == (1 if kind is Violated else 3)


def test_a_violation_that_was_not_overdue_needs_enough_replays_to_be_only_suspected() -> None:
    assert isinstance(of(judge(*run(BOTH, FOUND)), "DEDUP-03"), Violated)
    few = MINIMISED.__replace__(tries=ENOUGH_REPLAYS - 1, came_back=0)
    assert isinstance(of(judge(*run(BOTH, FOUND, few)), "DEDUP-03"), Violated)


def measured(at_s: float, waited: float) -> LoadMeasured:
    load = Load(seconds=5.0, waited=waited, per_processor=3.0, stolen=0.0, late_ms=20.0)
    return LoadMeasured(at_s=at_s, load=load)


def test_what_was_overdue_has_the_load_of_the_machine_while_it_waited() -> None:
    before, meanwhile, after = measured(1, 0.1), [measured(at_s, 0.9) for at_s in (6, 11, 16)], measured(21, 0.3)
    judged = judge(*run(BOTH, before, before, *meanwhile, OVERDUE, after))
    verdict = of(judged, "DEDUP-03")
    assert isinstance(verdict, Suspected)
    assert verdict.worst is not None
    load = verdict.worst.load
    assert load is not None
    assert (load.seconds, load.waited) == (15.0, 0.9)
    assert judged.load is not None
    assert (judged.load.seconds, judged.load.waited) == (30.0, 0.5333)


def test_every_report_says_how_busy_the_machine_was_beside_what_was_overdue(tmp_path: Path) -> None:
    data = report_data(tmp_path, BOTH, measured(6, 0.9), OVERDUE)
    busy = "while it waited, a process waited for a processor in 90% of 5 s"
    assert data.findings["DEDUP-03"][0].came_back.startswith(f"it was not replayed; {busy}")
    terminal = io.StringIO()
    table.show(data, Console(file=terminal, width=400), verbose=True)
    assert "Load of the machine: a process waited for a processor in 90% of 5 s" in terminal.getvalue()
    html = page(data, folder=tmp_path, when=WHEN)
    markdown = github.as_markdown(data)
    for report in (terminal.getvalue(), html, markdown, "".join(github.commands(data))):
        assert busy in report.replace("%25", "%")
    encoded = json.loads(encode(verdicts_json.form(data, folder=tmp_path, when=WHEN)))
    (rule,) = [rule for rule in encoded["rules"] if rule["verdict"] == "suspected"]
    assert (rule["overdue"], rule["load"]["waited"], encoded["load"]["waited"]) == (True, 0.9, 0.9)


def compared(result: BaselineResult) -> ComparedWithBaseline:
    return ComparedWithBaseline(
        at_s=15.0,
        original=FOUND.history,
        baseline="4.0.7",
        result=result,
        candidate=Replays(tries=6, came_back=6),
        before=Replays(tries=6, came_back=0 if result == "new" else 6),
        p=0.001,
    )


@pytest.mark.parametrize(
    ("result", "verdict", "status"),
    [("new", "violated", 1), ("there-before", "known-deviation", 0), ("undecided", "suspected", 3)],
)
def test_a_violation_fails_a_run_with_a_baseline_only_if_it_is_new(
    result: BaselineResult, verdict: str, status: int
) -> None:
    rules = (RULES["DEDUP-03"],)
    judged = verdicts(run(example(DEDUP_03=3), FOUND, MINIMISED, compared(result)), rules)
    assert [name_of(one) for one in judged.rules] == [verdict]
    assert judged.exit_status == status


def test_another_violation_of_the_rule_fails_although_the_baseline_has_the_first() -> None:
    other = FOUND.__replace__(history="histories/2.json")
    judged = verdicts(run(FOUND, MINIMISED, other, compared("there-before")), (RULES["DEDUP-03"],))
    assert judged.exit_status == 1
