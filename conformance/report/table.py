"""The verdicts on a terminal: one line for each rule, new violations, known deviations in one line, the summary last.

If all rules held, it fits one screen. ``verbose`` adds the history of every known deviation, and those that were not
met. In a file or a pipe no line is cut or wrapped (:mod:`conformance.report.console`).
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import assert_never

from rich.console import Console
from rich.text import Text

from conformance.events import HarnessErrorHappened, ProcessEnded
from conformance.report.console import say, show_table
from conformance.report.data import LABELS, ReportData, ReportedFinding, diagnosis, label, title
from conformance.report.sentences.lists import count, thousands, times
from conformance.report.sentences.words import cut
from conformance.verdicts import (
    Contradicted,
    Deviated,
    Held,
    ModelOnly,
    NotDecidable,
    NotExercised,
    RuleVerdict,
    Suspected,
    Violated,
    times_excused,
    times_exercised,
)

STEPS_AT_MOST = 30
"""How many steps of a history the terminal shows; the other reports show more."""

STEPS_IN_SHORT = 12
"""The same without ``verbose``."""

EVIDENCE_AT_MOST = 12
"""How many lines of a violation's evidence are shown on the terminal."""

EVIDENCE_IN_SHORT = 4
"""The same without ``verbose``."""

LOG_AT_MOST = 15
"""How many lines of a log's end are shown with a harness error."""


def show(data: ReportData, console: Console, *, report: Path | None = None, verbose: bool = False) -> None:
    """Print the verdicts; ``report``: the HTML page of the run."""
    verdicts = data.verdicts
    console.print()
    say(console, headline(data), style="bold")
    show_table(
        console,
        [_row(verdict, data) for verdict in verdicts.rules],
        justify=("left", "left", "right", "right", "left"),
        headings=("Rule", "Verdict", "Exercised", "Excused", ""),
    )
    for verdict in verdicts.rules:
        if isinstance(verdict, Violated | Suspected) or (verbose and isinstance(verdict, Deviated)):
            _show_contradicted(verdict, data, console, verbose=verbose)
    console.print()
    if (known := _known(data)) is not None:
        say(console, known, style="magenta")
    _show_not_met(data, console, verbose=verbose)
    if (excused := mostly_excused(data)) is not None:
        say(console, excused, style="yellow")
    for harness_error in verdicts.harness_errors:
        _show_harness_error(harness_error, console)
    if verdicts.stopped is not None:
        say(console, verdicts.stopped.sentence, style="yellow")
    if data.substitutes:
        say(console, f"Assembled with {count(len(data.substitutes), 'substitute', 'substitutes')}: see the report.")
    if verbose and verdicts.load is not None:
        say(console, f"Load of the machine: {verdicts.load}.", style="dim")
    if report is not None:
        console.print(Text(f"Report: {report}"), soft_wrap=True)
    say(console, summary(data), style="bold")


def headline(data: ReportData) -> str:
    """The release, the clients, the number of operations and the seed."""
    verdicts = data.verdicts
    release = f"Pulsar {verdicts.release}" if verdicts.release else f"Broker {data.broker} (not checked)"
    clients = " and ".join(f"{name.partition(':')[0]} {version}" for name, version in data.released.items())
    client = f" with {clients}" if clients else ""
    defect = f", defect {data.defect} switched on" if data.defect else ""
    operations = f"{thousands(verdicts.operations)} operations"
    return f"{release}{client}{defect}: {operations} in {verdicts.seconds:.0f} s, seed {data.seed}"


def summary(data: ReportData) -> str:
    """How many rules got which verdict, and what came of a list of known failures, in one line."""
    counted = Counter(label(verdict) for verdict in data.verdicts.rules)
    verdicts = ", ".join(f"{counted[name]} {name}" for name in LABELS if counted[name])
    ended = ", with a harness error" if data.verdicts.harness_errors else ""
    if data.verdicts.stopped is not None:
        ended += ", interrupted" if data.verdicts.stopped.why == "interrupted" else ", not run"
    excused, stale = data.verdicts.excused, data.verdicts.stale
    listed = f" Broken as listed, which fails nothing: {', '.join(excused)}." if excused else ""
    listed += f" The list of known failures is stale, because these rules held: {', '.join(stale)}." if stale else ""
    return f"{count(counted.total(), 'rule', 'rules')}: {verdicts}{ended}.{listed}"


def _row(verdict: RuleVerdict, data: ReportData) -> tuple[Text, ...]:
    remark = Text(_remark(verdict, data), style="dim" if isinstance(verdict, Held | ModelOnly) else "")
    counts = (Text(str(number or "-")) for number in (times_exercised(verdict), times_excused(verdict)))
    return Text(verdict.rule.id), Text(label(verdict), style=_style(verdict)), *counts, remark


def mostly_excused(data: ReportData) -> str | None:
    """The rules of which more than half of the checks were excused, in one line."""
    rules = [
        f"{verdict.rule.id} ({times_excused(verdict)} of {times_excused(verdict) + times_exercised(verdict)})"
        for verdict in data.verdicts.mostly_excused
    ]
    return f"More than half of the checks were excused: {', '.join(rules)}." if rules else None


def _known(data: ReportData) -> str | None:
    """The known deviations that broke rules, in one line."""
    met = dict.fromkeys(
        name
        for verdict in data.verdicts.rules
        if isinstance(verdict, Contradicted)
        for name in [
            *verdict.occurrences,
            *(finding.violation.deviation for finding in verdict.findings if finding.known),
        ]
    )
    if not met:
        return None
    return (
        f"{count(len(met), 'known deviation', 'known deviations')} met, which fail nothing: {', '.join(map(str, met))}."
    )


def _show_not_met(data: ReportData, console: Console, *, verbose: bool) -> None:
    not_met = data.not_met()
    if not verbose and not_met:
        names = ", ".join(one.deviation.name for one in not_met)
        say(console, f"Known, but not met in this run: {names}.", style="dim")
        return
    for one in not_met:
        say(console, str(one))
        if one.command is not None:
            console.print(Text(f"    {one.command}"), soft_wrap=True)


def _style(verdict: RuleVerdict) -> str:
    match verdict:
        case Held():
            return "green"
        case Violated():
            return "bold red"
        case Suspected():
            return "bold yellow"
        case Deviated():
            return "magenta"
        case NotExercised():
            return "yellow"
        case NotDecidable() | ModelOnly():
            return "dim"
        case _:
            assert_never(verdict)


def _remark(verdict: RuleVerdict, data: ReportData) -> str:
    match verdict:
        case Held() | ModelOnly():
            return title(verdict.rule)
        case NotExercised(why=why) | NotDecidable(why=why):
            return why
        case Violated() | Suspected():
            return diagnosis(verdict, data)
        case Deviated():
            return _deviations(verdict)
        case _:
            assert_never(verdict)


def _deviations(verdict: Deviated) -> str:
    """The names of the deviations, with how often each was met."""
    met = [f"{name} ({times(number)})" for name, number in verdict.occurrences.items()]
    found = {finding.violation.deviation: None for finding in verdict.findings}
    return ", ".join([*met, *(str(name) for name in found if name not in verdict.occurrences)])


def _show_contradicted(
    verdict: Violated | Suspected | Deviated, data: ReportData, console: Console, *, verbose: bool
) -> None:
    findings = data.findings[verdict.rule.id]
    shown = findings if verbose else findings[:1]
    console.print()
    style = (
        "magenta" if isinstance(verdict, Deviated) else "bold yellow" if isinstance(verdict, Suspected) else "bold red"
    )
    say(console, f"{verdict.rule.id}: {title(verdict.rule)}", style=style)
    for crash in verdict.crashes:
        _show_crash(crash, console)
    for reported in shown:
        _show_finding(reported, console, verbose=verbose)
    if len(verdict.findings) > len(shown):
        left = len(verdict.findings) - len(shown)
        say(console, f"… and {count(left, 'history', 'histories')} more, with the report.", indent=2)
    if not findings and not verdict.crashes:
        say(console, f"{diagnosis(verdict, data)}.", indent=2)


def _show_crash(crash: ProcessEnded, console: Console) -> None:
    say(console, f"After {crash.at_s:.0f} s: {crash.sentence}", indent=2)
    _show_log(crash.log_tail, console)


def _show_finding(reported: ReportedFinding, console: Console, *, verbose: bool) -> None:
    violation = reported.finding.violation
    say(console, f"Found by {reported.finding.machine}: {violation.because}.", indent=2)
    for step in cut(reported.steps, at_most=STEPS_AT_MOST if verbose else STEPS_IN_SHORT):
        say(console, str(step), indent=4)
    evidence = violation.evidence[: EVIDENCE_AT_MOST if verbose else EVIDENCE_IN_SHORT]
    if reported.history is not None and reported.history.violation is not None:
        say(
            console,
            f"Step {reported.history.violation.step} breaks the rule.{' Evidence:' if evidence else ''}",
            indent=2,
        )
    for line in evidence:
        say(console, line, indent=4)
    if reported.problem is not None:
        say(console, f"Its history cannot be shown: {reported.problem}.", indent=2)
    for sentence in reported.shortened:
        say(console, sentence, indent=2)
    say(console, f"To replay it ({reported.came_back}):", indent=2)
    console.print(Text(f"    {reported.command}"), soft_wrap=True)


def _show_harness_error(harness_error: HarnessErrorHappened, console: Console) -> None:
    say(console, f"Harness error: {harness_error.sentence}", style="yellow")
    _show_log(harness_error.log_tail, console)


def _show_log(log_tail: str, console: Console) -> None:
    for line in log_tail.splitlines()[-LOG_AT_MOST:]:
        console.print(Text(f"  | {line}", style="dim"), soft_wrap=True)
