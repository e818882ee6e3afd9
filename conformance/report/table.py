"""The verdicts on a terminal: one line a rule, then each violation in words, then what went wrong.

Readable at 80 columns; without colours where the output is not a terminal.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from typing import assert_never

from rich.console import Console
from rich.table import Table
from rich.text import Text

from conformance.events import TroubleHappened
from conformance.report.account import LABELS, Account, Story, because, label, title
from conformance.report.lists import count
from conformance.report.words import cut
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
    times_exercised,
)

STEPS_AT_MOST = 30
"""How many steps of a history are told on the terminal; the reports tell more."""

EVIDENCE_AT_MOST = 12
"""How many lines of a violation's evidence are shown on the terminal."""

LOG_AT_MOST = 15
"""How many last lines of a log are shown with a trouble on the terminal."""


def show(account: Account, console: Console) -> None:
    """Print the whole account of a run."""
    verdicts = account.verdicts
    console.print()
    console.print(Text(headline(account), style="bold"))
    console.print(_table(account))
    for verdict in verdicts.rules:
        if isinstance(verdict, Contradicted):
            _show_violation(verdict, account, console)
    for not_met in account.not_met():
        console.print()
        _say(console, str(not_met))
        if not_met.command is not None:
            console.print(Text(f"    {not_met.command}"), soft_wrap=True)
    for trouble in verdicts.troubles:
        _show_trouble(trouble, console)
    console.print()
    console.print(Text(summary(account), style="bold"))


def headline(account: Account) -> str:
    """Which release was judged, with which seed, by how much."""
    verdicts = account.verdicts
    release = f"Pulsar {verdicts.release}" if verdicts.release else f"Broker {account.broker} (it never came up)"
    client = f" with pulsar-client {version}" if (version := account.clients.get("pulsar-client")) else ""
    defect = f", defect {account.defect} switched on" if account.defect else ""
    operations = f"{verdicts.operations:,} operations".replace(",", " ")
    return f"{release}{client}{defect}: {operations} in {verdicts.seconds:.0f} s, seed {account.seed}"


def summary(account: Account) -> str:
    """How many rules got which verdict, in one line."""
    counted = Counter(label(verdict) for verdict in account.verdicts.rules)
    told = ", ".join(f"{counted[name]} {name}" for name in LABELS if counted[name])
    trouble = ", and there was trouble" if account.verdicts.troubles else ""
    return f"{count(counted.total(), 'rule', 'rules')}: {told}{trouble}."


def _table(account: Account) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("Rule", no_wrap=True)
    table.add_column("Verdict", no_wrap=True)
    table.add_column("Exercised", justify="right", no_wrap=True)
    table.add_column("", ratio=1)
    for verdict in account.verdicts.rules:
        remark = Text(_remark(verdict, account))
        if isinstance(verdict, Held | ModelOnly):
            remark.no_wrap, remark.overflow, remark.style = True, "ellipsis", "dim"
        table.add_row(
            verdict.rule.id, Text(label(verdict), style=_style(verdict)), str(times_exercised(verdict) or "-"), remark
        )
    return table


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
        case Violated() | Suspected() | Deviated():
            return because(verdict, account)
        case _:
            assert_never(verdict)


def _show_violation(verdict: Violated | Suspected | Deviated, account: Account, console: Console) -> None:
    console.print()
    _say(console, f"{verdict.rule.id}: {title(verdict.rule)}", style=_style(verdict))
    told = account.stories[verdict.rule.id]
    for story in told:
        _show_story(story, console)
    if len(verdict.findings) > len(told):
        _say(console, f"… and {len(verdict.findings) - len(told)} more; their histories are with the report.", indent=2)
    if not told:
        _say(console, f"{because(verdict, account)}.", indent=2)


def _show_story(story: Story, console: Console) -> None:
    violation = story.finding.violation
    _say(console, f"Found by {story.finding.machine}: {violation.because}.", indent=2)
    for telling in cut(story.tellings, at_most=STEPS_AT_MOST):
        _say(console, str(telling), indent=4)
    if story.history is not None and story.history.violation is not None:
        evidence = " Evidence:" if violation.evidence else ""
        _say(console, f"Step {story.history.violation.step} breaks the rule.{evidence}", indent=2)
    for line in violation.evidence[:EVIDENCE_AT_MOST]:
        _say(console, line, indent=4)
    if story.problem is not None:
        _say(console, f"Its history cannot be told: {story.problem}.", indent=2)
    _say(console, f"To see it again ({story.came_back}):", indent=2)
    console.print(Text(f"    {story.command}"), soft_wrap=True)


def _show_trouble(trouble: TroubleHappened, console: Console) -> None:
    console.print()
    _say(console, f"Trouble: {trouble.sentence}", style="yellow")
    for line in trouble.log_tail.splitlines()[-LOG_AT_MOST:]:
        console.print(Text(f"  | {line}", style="dim"), soft_wrap=True)


def _say(console: Console, text: str, *, indent: int = 0, style: str = "") -> None:
    """Print a paragraph, wrapped so that its further lines stand a little to the right of its first."""
    first = " " * indent
    lines = textwrap.wrap(text, console.width, initial_indent=first, subsequent_indent=first + "  ")
    console.print(Text("\n".join(lines), style=style), soft_wrap=True)
