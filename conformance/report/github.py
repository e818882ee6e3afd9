"""The verdicts for GitHub Actions: annotations, and the summary of a job in Markdown. Elsewhere it does nothing.

GitHub shows ten annotations of each level for a step, and a summary of one megabyte; these stay below that.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, assert_never

import click

from conformance.report.data import LABELS, ReportData, diagnosis, label, title
from conformance.report.printable import printable
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
"""The sign before the label of a verdict."""

ANNOTATIONS_AT_MOST = 10
"""How many annotations of one level GitHub shows for a step."""

_REMARK_AT_MOST = 600
_COMMAND = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_PROPERTY = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A", ":": "%3A", ",": "%2C"})
_CELL = str.maketrans(
    {
        **{sign: f"\\{sign}" for sign in "\\|[]*"},
        "&": "&amp;",
        "<": "&lt;",
        "\n": " ",
        "`": "'",
    }
)
"""No end of a cell, HTML, link, picture or emphasis."""
_CODE = str.maketrans({"\n": " ", "`": "'"})


def publish(data: ReportData, environment: Mapping[str, str] = os.environ) -> None:
    """Print the annotations and append the summary, if this is a step of a job on GitHub Actions."""
    if environment.get("GITHUB_ACTIONS") != "true":
        return
    for line in commands(data):
        click.echo(line)
    if file := environment.get("GITHUB_STEP_SUMMARY"):
        with Path(file).open("a", encoding="utf-8") as page:
            page.write(as_markdown(data))


def level_of(verdict: RuleVerdict) -> Level | None:
    """The level of a verdict's annotation; None: it has none."""
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


def commands(data: ReportData) -> list[str]:
    """A workflow command for each rule that was broken or not exercised and each harness error, errors first."""
    annotations: list[tuple[Level, str, str]] = [
        ("error", "the run itself", harness_error.sentence) for harness_error in data.verdicts.harness_errors
    ]
    if data.verdicts.stopped is not None:
        annotations.append(("error", "the run itself", data.verdicts.stopped.sentence))
    annotations += [("error", rule, "The list of known failures is stale: it held.") for rule in data.verdicts.stale]
    for verdict in data.verdicts.rules:
        if level := level_of(verdict):
            level = "warning" if verdict.rule.id in data.verdicts.excused else level
            annotations.append((level, f"{verdict.rule.id} {label(verdict)}", _text(verdict, data)))
    annotations.sort(key=lambda line: ("error", "warning", "notice").index(line[0]))
    shown = Counter[Level]()
    lines = []
    for level, name, text in annotations:
        shown[level] += 1
        if shown[level] <= ANNOTATIONS_AT_MOST:
            lines.append(
                f"::{level} title={printable(name).translate(_PROPERTY)}::{printable(text).translate(_COMMAND)}"
            )
    return lines


def _text(verdict: RuleVerdict, data: ReportData) -> str:
    """The rule, the remark on it, and the command that replays its violation."""
    lines = [title(verdict.rule), _remark(verdict, data)]
    for reported in data.findings.get(verdict.rule.id, ())[:1]:
        lines += [f"Replays: {reported.came_back}", f"Again: {reported.command}"]
    return "\n".join(lines)


def as_markdown(data: ReportData) -> str:
    """The summary of a job: the headline, the table, and the commands that replay the violations."""
    verdicts = data.verdicts.rules
    open_ = [verdict for verdict in verdicts if level_of(verdict)]
    rest = [verdict for verdict in verdicts if not level_of(verdict)]
    parts = [f"## {_cell(headline(data))}", _counted(data)]
    parts += [f"> **Harness error:** {_cell(harness_error.sentence)}" for harness_error in data.verdicts.harness_errors]
    if data.verdicts.stopped is not None:
        parts.append(f"> **{_cell(data.verdicts.stopped.sentence)}**")
    if open_:
        parts.append(_table(open_, data))
    for verdict in open_:
        parts += _again(verdict, data)
    if rest:
        parts.append(f"<details><summary>All other rules ({len(rest)})</summary>\n\n{_table(rest, data)}\n\n</details>")
    return "\n\n".join(parts) + "\n\n"


def _counted(data: ReportData) -> str:
    counted = Counter(label(verdict) for verdict in data.verdicts.rules)
    signs = " · ".join(f"{SIGNS[name]} {counted[name]} {name}" for name in LABELS if counted[name])
    sentences = (summary(data), mostly_excused(data))
    return "\n\n".join([signs, *(_cell(sentence) for sentence in sentences if sentence is not None)])


def _table(verdicts: list[RuleVerdict], data: ReportData) -> str:
    rows = ["| rule | verdict | exercised | excused | |", "|---|---|---:|---:|---|"]
    for verdict in verdicts:
        verdict_cell = f"{SIGNS[label(verdict)]} {label(verdict)}"
        remark = _cell(_remark(verdict, data))
        counts = f"{times_exercised(verdict) or '-'} | {times_excused(verdict) or '-'}"
        rows.append(f"| {verdict.rule.id} | {verdict_cell} | {counts} | {remark} |")
    return "\n".join(rows)


def _again(verdict: RuleVerdict, data: ReportData) -> list[str]:
    """The commands that replay a violation; the histories are in the report's folder."""
    return [
        f"{verdict.rule.id}, {reported.came_back}:\n\n```\n{printable(reported.command).translate(_CODE)}\n```"
        for reported in data.findings.get(verdict.rule.id, ())
    ]


def _remark(verdict: RuleVerdict, data: ReportData) -> str:
    match verdict:
        case Held() | ModelOnly():
            return title(verdict.rule)
        case NotExercised(why=why) | NotDecidable(why=why):
            return why
        case Contradicted():
            return diagnosis(verdict, data)
        case _:
            assert_never(verdict)


def _cell(text: str) -> str:
    """A table's cell: cut if it is long, and without Markdown or HTML of its own."""
    short = text if len(text) <= _REMARK_AT_MOST else f"{text[:_REMARK_AT_MOST]}…"
    return printable(short).translate(_CELL)
