"""The verdicts as one self-contained HTML page: no script, no font, no picture from elsewhere.

Every text of a run is escaped, and cut if it is long, so that the page has a few megabytes at most. The template and
its style sheet decide the looks: light or dark by the reader's system, readable on a phone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

import jinja2
from markupsafe import Markup, escape

from conformance.files import write_whole
from conformance.known import KnownDeviation
from conformance.report.data import ReportData, ReportedFinding, diagnosis, label
from conformance.report.pages.diagram import Diagram, diagram_of
from conformance.report.pages.space_time import draw
from conformance.report.printable import printable
from conformance.report.sentences.lists import thousands, times
from conformance.report.sentences.results import Tone
from conformance.report.sentences.words import LeftOut, StepInWords, actors, cut
from conformance.report.table import headline, mostly_excused, summary
from conformance.verdicts import (
    Contradicted,
    Deviated,
    ModelOnly,
    NotDecidable,
    NotExercised,
    RuleVerdict,
    times_excused,
    times_exercised,
)
from model.rules.catalogue import DOCUMENTS

HISTORIES_AT_MOST = 20
"""How many histories of the run a page shows step by step; it links the files of the others."""

STORED_AT_MOST = 40
"""How many of the suite's own histories of known deviations it shows; they are short."""

STEPS_AT_MOST = 100
"""How many steps of one history are shown."""

LINES_AT_MOST = 40
"""How many lines of evidence, or last lines of a log, are shown."""

TEXT_AT_MOST = 1000
"""How many characters of one text of a run are shown."""

_SIGNS = {Tone.PLAIN: "", Tone.STORED: "✓ ", Tone.DUPLICATE: "= ", Tone.REFUSED: "✕ ", Tone.UNKNOWN: "? "}
_EMPHASIS = re.compile(r"\*([^*]+)\*")
_ADDRESS = re.compile(r"(https://[^\s<>\"']*[^\s<>\"'.,;:)])")
_MARKS = {
    "held": "✓",
    "violated": "✕",
    "suspected": "?",
    "known deviation": "≠",
    "not exercised": "○",
    "not decidable": "…",
    "model only": "◇",
}
"""A sign for each verdict, so that colour alone tells none apart."""

_HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    verdict: RuleVerdict
    label: str
    exercised: int
    excused: int
    remark: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lanes:
    """A history as a table: a lane for each actor (its name and its heading), and its steps."""

    actors: tuple[tuple[str, str], ...]
    steps: tuple[StepInWords | LeftOut, ...]
    breaks_at: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Finding:
    """A finding with its history in lanes; without lanes if the page has no room left."""

    reported: ReportedFinding
    file: str
    whole: str | None
    """The file of the whole recording, if the history is a part of it."""
    lanes: _Lanes | None
    diagram: Diagram | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Violation:
    """A broken rule with its findings; ``others`` counts those that are not shown.

    ``deviations``: the known deviations that break it.
    """

    verdict: Contradicted
    label: str
    deviations: tuple[KnownDeviation, ...]
    because: str
    findings: tuple[_Finding, ...]
    others: int


def write(data: ReportData, path: Path) -> None:
    write_whole(path, printable(page(data, folder=path.parent, when=datetime.now(UTC))).encode())


def page(data: ReportData, *, folder: Path, when: datetime) -> str:
    """The page for a report in ``folder``, as of ``when``."""
    contradicted = list(_violations(data, folder))
    return template_of("page.html.j2").render(
        data=data,
        verdicts=data.verdicts,
        headline=headline(data),
        summary=summary(data),
        mostly_excused=mostly_excused(data),
        status=data.verdicts.exit_status,
        rows=[_row(verdict, data) for verdict in data.verdicts.rules],
        new=[one for one in contradicted if not isinstance(one.verdict, Deviated)],
        deviating=[one for one in contradicted if isinstance(one.verdict, Deviated)],
        documents=DOCUMENTS,
        when=when.strftime("%Y-%m-%d %H:%M UTC"),
        style=style(),
    )


def style() -> Markup:
    """The style sheet of the pages. It is not escaped, and has no text of a run."""
    return Markup((_HERE / "page.css").read_text("utf-8"))


def template_of(name: str, **filters: Callable[..., str]) -> jinja2.Template:
    """A template of this folder, with the filters of all templates and those given here."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "emphasised": emphasised,
        "linked": linked,
        "mark": _MARKS.__getitem__,
        "shortened": shortened,
        "first_lines": lambda lines: _lines(lines, keep_last=False),
        "last_lines": lambda text: _lines(text.splitlines(), keep_last=True),
        "drawn": lambda diagram, name: draw(diagram, name=name),
        "sign": lambda tone: _SIGNS[tone],
        "slug": lambda text: text.replace(" ", "-"),
        "times": times,
        "thousands": thousands,
        **filters,
    }
    environment.tests["left_out"] = lambda step: isinstance(step, LeftOut)
    return environment.get_template(name)


def _row(verdict: RuleVerdict, data: ReportData) -> _Row:
    remark = ""
    if isinstance(verdict, NotExercised | NotDecidable):
        remark = verdict.why
    elif isinstance(verdict, Contradicted):
        remark = diagnosis(verdict, data)
    elif isinstance(verdict, ModelOnly):
        remark = "No broker can show it: exploration of the model decides it."
    return _Row(
        verdict=verdict,
        label=label(verdict),
        exercised=times_exercised(verdict),
        excused=times_excused(verdict),
        remark=remark,
    )


def _violations(data: ReportData, folder: Path) -> Iterable[_Violation]:
    room, stored_room = HISTORIES_AT_MOST, STORED_AT_MOST
    for verdict in sorted(data.verdicts.rules, key=lambda verdict: isinstance(verdict, Deviated)):
        if isinstance(verdict, Contradicted):
            shown = data.findings[verdict.rule.id]
            findings = tuple(_finding(reported, folder, in_lanes=at < room) for at, reported in enumerate(shown))
            room = max(0, room - len(shown))
            deviations = tuple(_deviations(verdict, data))
            without = {one.name for one in deviations} - {one.finding.violation.deviation for one in shown}
            stored = [one for name, one in data.stored.items() if name in without]
            findings += tuple(_finding(one, folder, in_lanes=at < stored_room) for at, one in enumerate(stored))
            stored_room = max(0, stored_room - len(stored))
            yield _Violation(
                verdict=verdict,
                label=label(verdict),
                deviations=deviations,
                because=diagnosis(verdict, data),
                findings=findings,
                others=len(verdict.findings) - len(shown),
            )


def _deviations(verdict: Contradicted, data: ReportData) -> Iterable[KnownDeviation]:
    found = [verdict.deviation] if verdict.deviation is not None else []
    for name in dict.fromkeys([*found, *verdict.occurrences]):
        deviation = data.deviation(name)
        if deviation is not None:
            yield deviation


def _finding(reported: ReportedFinding, folder: Path, *, in_lanes: bool) -> _Finding:
    file, whole = (quote(os.path.relpath(path, folder)) for path in (reported.path, reported.replayed))
    of_whole = None if whole == file else whole
    if reported.history is None or not in_lanes:
        return _Finding(reported=reported, file=file, whole=of_whole, lanes=None, diagram=None)
    diagram = diagram_of(reported.history)
    return _Finding(reported=reported, file=file, whole=of_whole, lanes=_lanes(reported), diagram=diagram)


def _lanes(reported: ReportedFinding) -> _Lanes:
    steps = cut(reported.steps, at_most=STEPS_AT_MOST)
    headings = {step.actor: step.subject for step in reversed(reported.steps)}
    violation = reported.history.violation if reported.history is not None else None
    return _Lanes(
        actors=tuple((actor, headings[actor]) for actor in actors(steps)),
        steps=steps,
        breaks_at=violation.step if violation is not None else None,
    )


def linked(text: str) -> Markup:
    """A text with its web addresses as links."""
    parts = _ADDRESS.split(shortened(text))
    link = Markup('<a href="{0}" rel="noreferrer">{0}</a>')
    return Markup().join(link.format(part) if at % 2 else escape(part) for at, part in enumerate(parts))


def emphasised(statement: str) -> Markup:
    """A statement of the catalogue as HTML, with the text between asterisks emphasised."""
    parts = _EMPHASIS.split(statement)
    return Markup().join(
        Markup("<em>{}</em>").format(part) if at % 2 else escape(part) for at, part in enumerate(parts)
    )


def shortened(text: str) -> str:
    """A text of a run, cut if it is very long."""
    if len(text) <= TEXT_AT_MOST:
        return text
    return f"{text[:TEXT_AT_MOST]} … ({len(text) - TEXT_AT_MOST} characters more)"


def _lines(lines: Sequence[str], *, keep_last: bool) -> str:
    kept = lines[-LINES_AT_MOST:] if keep_last else lines[:LINES_AT_MOST]
    shown = [shortened(line) for line in kept]
    if len(kept) < len(lines):
        note = f"… {len(lines) - len(kept)} lines more …"
        shown = [note, *shown] if keep_last else [*shown, note]
    return "\n".join(shown)
