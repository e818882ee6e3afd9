"""The runs of a matrix as pages: families of rules as Markdown, and every rule as one self-contained HTML page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec

from conformance.known.versions import version_in
from conformance.report.data import LABELS
from conformance.report.docs.markdown import grid
from conformance.report.pages.page import style, template_of
from conformance.report.printable import printable
from conformance.report.sentences.forms import CheckForm, RuleForm
from conformance.report.sentences.lists import count, thousands
from model.rules.catalogue import FAMILIES, RULES, Rule


class MatrixRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run, as its file has it.

    ``name``: the broker as the user wrote it. ``settings``: the broker's, on top of the release's own. ``deviations``:
    how often each was met. ``journals``: the SHA-256 of its journals, as ``judge`` prints it.
    """

    name: str
    check: CheckForm
    settings: dict[str, str]
    budget_s: float
    lanes: int
    deviations: dict[str, int]
    journals: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cell:
    """The verdict of one run on a rule; ``title``: why it did not hold."""

    label: str
    text: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    rule: Rule
    cells: tuple[_Cell, ...]


def in_order(runs: Iterable[MatrixRun]) -> tuple[MatrixRun, ...]:
    """By release, then by name and date."""

    def order(run: MatrixRun) -> tuple[bool, object, str, str]:
        version = version_in(run.check.release or "")
        return version is None, version or run.name, run.name, run.check.date

    return tuple(sorted(runs, key=order))


def as_markdown(runs: Sequence[MatrixRun]) -> str:
    """A row for each run, with the verdicts of each family of rules."""
    rows = [
        (
            run.name,
            run.check.release or "",
            thousands(run.check.operations),
            *(_family(run, family) for family in FAMILIES),
            str(run.check.exit_status),
            f"{run.check.seed}, {run.check.date[:10]}, {run.check.suite}",
        )
        for run in runs
    ]
    headings = ("run", "release", "operations", *FAMILIES, "exit status", "seed, date, suite")
    return f"# Matrix\n\n{_sentence(runs)}\n\n{grid(headings, rows)}\n"


def as_html(runs: Sequence[MatrixRun], when: datetime) -> str:
    """A row for each rule and a column for each run."""
    by_run = [{rule.id: rule for rule in run.check.rules} for run in runs]
    rows = [
        _Row(rule=rule, cells=tuple(_cell(its.get(rule.id)) for its in by_run))
        for rule in RULES.values()
        if any(rule.id in its for its in by_run)
    ]
    page = template_of("matrix.html.j2").render(
        labels=LABELS,
        runs=runs,
        rows=rows,
        summary=_sentence(runs),
        when=when.strftime("%Y-%m-%d %H:%M UTC"),
        style=style(),
    )
    return printable(page)


def _sentence(runs: Sequence[MatrixRun]) -> str:
    checks = sum(rule.exercised for run in runs for rule in run.check.rules)
    broken = sorted({rule.id for run in runs for rule in run.check.rules if rule.verdict == "violated"})
    violated = f"Violated: {', '.join(broken)}." if broken else "No rule is violated."
    return f"{count(len(runs), 'run', 'runs')} with {thousands(checks)} checks. {violated}"


def _family(run: MatrixRun, family: str) -> str:
    counted = Counter(rule.verdict for rule in run.check.rules if RULES[rule.id].family == family)
    return ", ".join(f"{number} {verdict.replace('-', ' ')}" for verdict, number in counted.items()) or "-"


def _cell(rule: RuleForm | None) -> _Cell:
    if rule is None:
        return _Cell(label="not exercised", text="-", title="not asked for")
    label = rule.verdict.replace("-", " ")
    return _Cell(label=label, text=thousands(rule.exercised), title=rule.because or "")
