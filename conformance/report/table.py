"""The verdicts on a terminal: one line a rule, what is new, known deviations in one line, and the summary last.

A run in which all held fits one screen. ``verbose`` tells the rest: every known deviation with its history, and those
that were not met. Elsewhere than on a terminal no line is cut or wrapped (:mod:`conformance.report.console`).
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import assert_never

from rich.console import Console
from rich.text import Text

from conformance.events import HarnessErrorHappened
from conformance.report.account import LABELS, Account, Story, because, label, title
from conformance.report.console import say, show_table
from conformance.report.sentences.lists import count, times
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
"""How many steps of a history are told on the terminal; the reports tell more."""

STEPS_IN_SHORT = 12
"""How many of them are told where not everything is asked for."""

EVIDENCE_AT_MOST = 12
"""How many lines of a violation's evidence are shown on the terminal."""

EVIDENCE_IN_SHORT = 4
"""How many of them are shown where not everything is asked for."""

LOG_AT_MOST = 15
"""How many last lines of a log are shown with a harness error on the terminal."""


def show(account: Account, console: Console, *, report: Path | None = None, verbose: bool = False) -> None:
    """Print the account of a run; ``report``: the page that tells all of it."""
    verdicts = account.verdicts
    console.print()
    say(console, headline(account), style="bold")
    show_table(
        console,
        [_row(verdict, account) for verdict in verdicts.rules],
        justify=("left", "left", "right", "right", "left"),
        headings=("Rule", "Verdict", "Exercised", "Excused", ""),
    )
    for verdict in verdicts.rules:
        if isinstance(verdict, Violated | Suspected) or (verbose and isinstance(verdict, Deviated)):
            _show_contradicted(verdict, account, console, verbose=verbose)
    console.print()
    if (known := _known(account)) is not None:
        say(console, known, style="magenta")
    _show_not_met(account, console, verbose=verbose)
    if (excused := mostly_excused(account)) is not None:
        say(console, excused, style="yellow")
    for harness_error in verdicts.harness_errors:
        _show_harness_error(harness_error, console)
    if report is not None:
        console.print(Text(f"Report: {report}"), soft_wrap=True)
    say(console, summary(account), style="bold")


def headline(account: Account) -> str:
    """Which release was judged, with which seed, by how much."""
    verdicts = account.verdicts
    release = f"Pulsar {verdicts.release}" if verdicts.release else f"Broker {account.broker} (it never started)"
    client = f" with pulsar-client {version}" if (version := account.clients.get("pulsar-client")) else ""
    defect = f", defect {account.defect} switched on" if account.defect else ""
    operations = f"{verdicts.operations:,} operations".replace(",", " ")
    return f"{release}{client}{defect}: {operations} in {verdicts.seconds:.0f} s, seed {account.seed}"


def summary(account: Account) -> str:
    """How many rules got which verdict, in one line."""
    counted = Counter(label(verdict) for verdict in account.verdicts.rules)
    told = ", ".join(f"{counted[name]} {name}" for name in LABELS if counted[name])
    harness_error = ", with a harness error" if account.verdicts.harness_errors else ""
    return f"{count(counted.total(), 'rule', 'rules')}: {told}{harness_error}."


def _row(verdict: RuleVerdict, account: Account) -> tuple[Text, ...]:
    remark = Text(_remark(verdict, account), style="dim" if isinstance(verdict, Held | ModelOnly) else "")
    counts = (Text(str(number or "-")) for number in (times_exercised(verdict), times_excused(verdict)))
    return Text(verdict.rule.id), Text(label(verdict), style=_style(verdict)), *counts, remark


def mostly_excused(account: Account) -> str | None:
    """The rules of which more than half of the checks were excused, in one line."""
    rules = [
        f"{verdict.rule.id} ({times_excused(verdict)} of {times_excused(verdict) + times_exercised(verdict)})"
        for verdict in account.verdicts.mostly_excused
    ]
    return f"More than half of the checks were excused: {', '.join(rules)}." if rules else None


def _known(account: Account) -> str | None:
    """The known deviations that broke rules, in one line."""
    met = dict.fromkeys(
        name
        for verdict in account.verdicts.rules
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


def _show_not_met(account: Account, console: Console, *, verbose: bool) -> None:
    not_met = account.not_met()
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


def _remark(verdict: RuleVerdict, account: Account) -> str:
    match verdict:
        case Held() | ModelOnly():
            return title(verdict.rule)
        case NotExercised(why=why) | NotDecidable(why=why):
            return why
        case Violated() | Suspected():
            return because(verdict, account)
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
    verdict: Violated | Suspected | Deviated, account: Account, console: Console, *, verbose: bool
) -> None:
    told = account.stories[verdict.rule.id]
    shown = told if verbose else told[:1]
    console.print()
    style = (
        "magenta" if isinstance(verdict, Deviated) else "bold yellow" if isinstance(verdict, Suspected) else "bold red"
    )
    say(console, f"{verdict.rule.id}: {title(verdict.rule)}", style=style)
    for story in shown:
        _show_story(story, console, verbose=verbose)
    if len(verdict.findings) > len(shown):
        left = len(verdict.findings) - len(shown)
        say(console, f"… and {count(left, 'history', 'histories')} more, with the report.", indent=2)
    if not told:
        say(console, f"{because(verdict, account)}.", indent=2)


def _show_story(story: Story, console: Console, *, verbose: bool) -> None:
    violation = story.finding.violation
    say(console, f"Found by {story.finding.machine}: {violation.because}.", indent=2)
    for telling in cut(story.tellings, at_most=STEPS_AT_MOST if verbose else STEPS_IN_SHORT):
        say(console, str(telling), indent=4)
    evidence = violation.evidence[: EVIDENCE_AT_MOST if verbose else EVIDENCE_IN_SHORT]
    if story.history is not None and story.history.violation is not None:
        say(
            console,
            f"Step {story.history.violation.step} breaks the rule.{' Evidence:' if evidence else ''}",
            indent=2,
        )
    for line in evidence:
        say(console, line, indent=4)
    if story.problem is not None:
        say(console, f"Its history cannot be shown: {story.problem}.", indent=2)
    for sentence in story.shortened:
        say(console, sentence, indent=2)
    say(console, f"To replay it ({story.came_back}):", indent=2)
    console.print(Text(f"    {story.command}"), soft_wrap=True)


def _show_harness_error(harness_error: HarnessErrorHappened, console: Console) -> None:
    say(console, f"Harness error: {harness_error.sentence}", style="yellow")
    for line in harness_error.log_tail.splitlines()[-LOG_AT_MOST:]:
        console.print(Text(f"  | {line}", style="dim"), soft_wrap=True)
