"""The verdicts for GitHub Actions: annotations, and the summary of a job in Markdown. Nothing happens elsewhere.

GitHub shows ten annotations of each level for a step and a summary of at most a megabyte; both stay below that.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, assert_never

import click

from conformance.report.account import LABELS, Account, because, label, title
from conformance.report.table import headline, mostly_excused, summary
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

Level = Literal["error", "warning", "notice"]

SIGNS = {
    "held": "✅",
    "violated": "❌",
    "suspected": "⚠️",
    "known deviation": "🔶",
    "not exercised": "❔",
    "not decidable": "▫️",
    "model only": "▫️",
}
"""The sign that stands before the label of a verdict."""

ANNOTATIONS_AT_MOST = 10
"""As many annotations of one level does GitHub show for a step."""

_REMARK_AT_MOST = 600
_COMMAND = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_PROPERTY = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A", ":": "%3A", ",": "%2C"})
_CELL = str.maketrans({"|": "\\|", "<": "&lt;", "\n": " ", "\r": " ", "`": "'"})


def tell(account: Account, environment: Mapping[str, str] = os.environ) -> None:
    """Print the annotations and append the summary, if this is a step of a job on GitHub Actions."""
    if environment.get("GITHUB_ACTIONS") != "true":
        return
    for line in commands(account):
        click.echo(line)
    if file := environment.get("GITHUB_STEP_SUMMARY"):
        with Path(file).open("a", encoding="utf-8") as page:
            page.write(as_markdown(account))


def level_of(verdict: RuleVerdict) -> Level | None:
    """How loud a verdict is told; None: it is not annotated."""
    match verdict:
        case Violated():
            return "error"
        case Suspected():
            return "warning"
        case NotExercised() | NotDecidable(named=True):
            return "notice"
        case Held() | Deviated() | NotDecidable() | ModelOnly():
            return None
        case _:
            assert_never(verdict)


def commands(account: Account) -> list[str]:
    """A workflow command for each rule that was broken or not exercised, and for what went wrong; the loudest first."""
    told: list[tuple[Level, str, str]] = [
        ("error", "the run itself", harness_error.sentence) for harness_error in account.verdicts.harness_errors
    ]
    for verdict in account.verdicts.rules:
        if level := level_of(verdict):
            told.append((level, f"{verdict.rule.id} {label(verdict)}", _text(verdict, account)))
    told.sort(key=lambda line: ("error", "warning", "notice").index(line[0]))
    shown = Counter[Level]()
    lines = []
    for level, name, text in told:
        shown[level] += 1
        if shown[level] <= ANNOTATIONS_AT_MOST:
            lines.append(f"::{level} title={name.translate(_PROPERTY)}::{text.translate(_COMMAND)}")
    return lines


def _text(verdict: RuleVerdict, account: Account) -> str:
    """The rule and what is said of it, and how to see it again where that can be said."""
    lines = [title(verdict.rule), _remark(verdict, account)]
    lines += [f"Again: {story.command}" for story in account.stories.get(verdict.rule.id, ())[:1]]
    return "\n".join(lines)


def as_markdown(account: Account) -> str:
    """The summary of a job: what was checked, the table, and how to see each violation again."""
    verdicts = account.verdicts.rules
    open_ = [verdict for verdict in verdicts if level_of(verdict)]
    rest = [verdict for verdict in verdicts if not level_of(verdict)]
    parts = [f"## {_cell(headline(account))}", _counted(account)]
    parts += [
        f"> **Harness error:** {_cell(harness_error.sentence)}" for harness_error in account.verdicts.harness_errors
    ]
    if open_:
        parts.append(_table(open_, account))
    for verdict in open_:
        parts += _again(verdict, account)
    if rest:
        parts.append(
            f"<details><summary>All other rules ({len(rest)})</summary>\n\n{_table(rest, account)}\n\n</details>"
        )
    return "\n\n".join(parts) + "\n\n"


def _counted(account: Account) -> str:
    counted = Counter(label(verdict) for verdict in account.verdicts.rules)
    signs = " · ".join(f"{SIGNS[name]} {counted[name]} {name}" for name in LABELS if counted[name])
    told = (summary(account), mostly_excused(account))
    return "\n\n".join([signs, *(_cell(sentence) for sentence in told if sentence is not None)])


def _table(verdicts: list[RuleVerdict], account: Account) -> str:
    rows = ["| rule | verdict | exercised | excused | |", "|---|---|---:|---:|---|"]
    for verdict in verdicts:
        verdict_cell = f"{SIGNS[label(verdict)]} {label(verdict)}"
        remark = _cell(_remark(verdict, account))
        counts = f"{times_exercised(verdict) or '-'} | {times_excused(verdict) or '-'}"
        rows.append(f"| {verdict.rule.id} | {verdict_cell} | {counts} | {remark} |")
    return "\n".join(rows)


def _again(verdict: RuleVerdict, account: Account) -> list[str]:
    """Each history of a violation by the command that replays it; the histories are in the report's folder."""
    return [
        f"{verdict.rule.id}, {story.came_back}:\n\n```\n{story.command}\n```"
        for story in account.stories.get(verdict.rule.id, ())
    ]


def _remark(verdict: RuleVerdict, account: Account) -> str:
    match verdict:
        case Held() | ModelOnly():
            return title(verdict.rule)
        case NotExercised(why=why) | NotDecidable(why=why):
            return why
        case Contradicted():
            return because(verdict, account)
        case _:
            assert_never(verdict)


def _cell(text: str) -> str:
    """Text that cannot end its cell or be taken for HTML, of bounded length."""
    short = text if len(text) <= _REMARK_AT_MOST else f"{text[:_REMARK_AT_MOST]}…"
    return short.translate(_CELL)
