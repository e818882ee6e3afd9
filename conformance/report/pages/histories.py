"""The verdicts of ``verify`` as one self-contained HTML page: rules, cases, and plots of the runs.

It shares the style sheet and the filters of :mod:`conformance.report.pages.page`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from markupsafe import Markup

from conformance.pipeline.results import NO_FAULT
from conformance.pipeline.summary import BINS_OF_AN_OCTAVE, Summary
from conformance.pipeline.verdict import BrokenInvariant, Verification, Verified
from conformance.report.pages.page import style, template_of
from conformance.report.pages.plots import Mark, bars, duration, lines
from conformance.report.printable import printable
from conformance.report.sentences.lists import count, thousands, times
from conformance.report.verification import event_in_words, label

RUNS_AT_MOST = 12
"""How many runs have plots; the tables have all runs."""

CASES_AT_MOST = 25
"""How many cases of one rule are shown; they spread over the runs, faults and topics."""

WHAT = {
    "send": "Sends, until they were confirmed",
    "dispatch": "Messages, from send to first dispatch",
    "ack": "Acknowledgments, until they were confirmed",
    "replication": "Messages, from send to dispatch in another cluster",
    "position": "Replicated positions, from an acknowledgment until another cluster's cursor passes them",
}

QUANTILES = {"p50_ms": "half", "p99_ms": "99 %"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plot:
    svg: Markup
    title: str = ""
    cluster: str = ""
    names: tuple[str, ...] = ()
    faults: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _RunPlots:
    """A run with its plots; ``release``: None if the history does not have it."""

    name: str
    release: str | None
    rates: tuple[_Plot, ...] = ()
    latencies: tuple[_Plot, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cell:
    """The verdict of one run on a rule."""

    label: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _HistoryRow:
    """The verdict on a rule, and a cell for each run."""

    verdict: Verified
    label: str
    cells: tuple[_Cell, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fault:
    """The anomalies after a fault; ``share``: their part of the largest number that any fault has."""

    fault: str
    times: int
    rules: tuple[str, ...]
    share: float


def write(verification: Verification, summary: Summary, folder: Path) -> Path:
    """Write the page into a folder, which is created; returns its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "report.html"
    path.write_text(printable(page(verification, summary, when=datetime.now(UTC))), encoding="utf-8")
    return path


def page(verification: Verification, summary: Summary, *, when: datetime) -> str:
    runs = list(_runs(summary))
    return template_of("histories.html.j2", in_words=event_in_words).render(
        verification=verification,
        headline=count(len(runs), "recorded run", "recorded runs"),
        summary=_summary(verification),
        status=verification.exit_status,
        runs=runs,
        broken=[verdict for verdict in verification.rules if isinstance(verdict, BrokenInvariant)],
        cases_at_most=CASES_AT_MOST,
        no_fault=NO_FAULT,
        matrix=[_row(verdict, runs, summary) for verdict in verification.rules],
        by_fault=_by_fault(summary),
        drawn=[_drawn(run, summary) for run in runs[:RUNS_AT_MOST]],
        not_drawn=max(0, len(runs) - RUNS_AT_MOST),
        when=when.strftime("%Y-%m-%d %H:%M UTC"),
        style=style(),
    )


def _summary(verification: Verification) -> str:
    counted = Counter(label(verdict) for verdict in verification.rules)
    return ", ".join(f"{number} {name}" for name, number in counted.items()) + "."


def _runs(summary: Summary) -> Iterable[_RunPlots]:
    releases = {row["run"]: row["release"] for row in summary.rules}
    releases = {row["run"]: None for row in summary.rates} | releases
    return (_RunPlots(name=name, release=release) for name, release in sorted(releases.items()))


def _row(verdict: Verified, runs: Iterable[_RunPlots], summary: Summary) -> _HistoryRow:
    by_run = {row["run"]: row for row in summary.rules if row["rule"] == verdict.rule.id}
    return _HistoryRow(verdict=verdict, label=label(verdict), cells=tuple(_cell(by_run.get(run.name)) for run in runs))


def _cell(row: dict[str, Any] | None) -> _Cell:
    if row is None or not (row["judged"] or row["broken"]):
        return _Cell(label="not exercised", text="-")
    if row["broken"] > row["explained"]:
        return _Cell(label="violated", text=times(row["broken"] - row["explained"]))
    if row["broken"]:
        return _Cell(label="known deviation", text=times(row["explained"]))
    return _Cell(label="held", text=thousands(row["judged"]))


def _by_fault(summary: Summary) -> list[_Fault]:
    number: Counter[str] = Counter()
    rules: dict[str, set[str]] = {}
    for row in summary.anomalies:
        number[row["fault"]] += row["times"]
        rules.setdefault(row["fault"], set()).add(row["rule"])
    most = max(number.values(), default=1)
    return [
        _Fault(fault=fault, times=anomalies, rules=tuple(sorted(rules[fault])), share=anomalies / most)
        for fault, anomalies in number.most_common()
    ]


def _drawn(run: _RunPlots, summary: Summary) -> _RunPlots:
    return _RunPlots(
        name=run.name,
        release=run.release,
        rates=tuple(_rates(run.name, summary)),
        latencies=tuple(_latencies(run.name, summary)),
    )


def _rates(run: str, summary: Summary) -> Iterable[_Plot]:
    rows = [row for row in summary.rates if row["run"] == run]  # by cluster, kind and time
    for cluster, of_cluster in groupby(rows, key=lambda row: row["cluster"]):
        injected = [row for row in summary.faults if row["run"] == run and row["cluster"] == cluster]
        marks = [Mark(from_=row["from_s"] or row["to_s"], to=row["to_s"], title=row["fault"]) for row in injected]
        series = {
            kind: [(row["from_s"], row["events"] / row["lasts_s"]) for row in of_kind]
            for kind, of_kind in groupby(of_cluster, key=lambda row: row["kind"])
        }
        faults = Counter(row["fault"] for row in injected)
        yield _Plot(
            svg=lines(_with_gaps(series, rows), marks, unit="/s"),
            cluster=cluster,
            names=tuple(series),
            faults=", ".join(f"{number} {name}" for name, number in faults.most_common()),
        )


def _with_gaps(
    series: dict[str, list[tuple[float, float]]], rows: list[dict[str, Any]]
) -> dict[str, list[tuple[float, float]]]:
    """The lines, at 0 where an interval has no events."""
    lasts_s = rows[0]["lasts_s"]
    number = round(max(row["from_s"] for row in rows) / lasts_s) + 1
    filled = {}
    for kind, points in series.items():
        known = dict(points)
        filled[kind] = [(index * lasts_s, known.get(index * lasts_s, 0.0)) for index in range(number)]
    return filled


def _latencies(run: str, summary: Summary) -> Iterable[_Plot]:
    for color, (what, title) in enumerate(WHAT.items()):
        latencies, spread = (
            [row for row in rows if (row["run"], row["what"]) == (run, what)]
            for rows in (summary.latencies, summary.spread)
        )
        if not latencies:
            continue
        counts = [(row["up_to_ms"], row["number"]) for row in spread]
        widest = max(latencies, key=lambda row: row["number"])
        marks = [Mark(from_=widest[name], to=widest[name], title=text) for name, text in QUANTILES.items()]
        marks = [mark for mark in marks if mark.from_ > 0]
        longest = duration(max(row["longest_ms"] for row in latencies))
        yield _Plot(
            svg=bars(counts, marks, ratio=2 ** (1 / BINS_OF_AN_OCTAVE), color=color),
            title=f"{title} (the longest {longest})",
        )
