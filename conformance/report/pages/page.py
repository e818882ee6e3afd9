"""The verdicts as one HTML page that stands alone: no script, no font, no picture from anywhere else.

Everything that comes from a run is escaped, and everything that can be long is cut and says so, so that the page stays
a few megabytes at worst. Light or dark follows the reader's system, and it reads on a phone. Looks are in the template
and its style sheet; here is only what they are given.
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

from conformance.known import KnownDeviation
from conformance.report.account import Account, Story, because, label
from conformance.report.pages.diagram import Diagram, diagram_of
from conformance.report.pages.space_time import draw
from conformance.report.sentences.results import Tone
from conformance.report.sentences.words import LeftOut, Telling, actors, cut
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

STORIES_AT_MOST = 20
"""How many histories are told step by step in one page; of more, the files are named."""

STEPS_AT_MOST = 100
"""How many steps of one history are told."""

LINES_AT_MOST = 40
"""How many lines of evidence, or last lines of a log, are shown."""

TEXT_AT_MOST = 1000
"""How many characters of one text that came from a run are shown."""

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
"""A sign for each verdict, so that none is told by its colour alone."""

_HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """A rule with its verdict."""

    verdict: RuleVerdict
    label: str
    exercised: int
    excused: int
    remark: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lanes:
    """A history side by side: a lane for each actor (its name and its heading), and the steps that are told."""

    actors: tuple[tuple[str, str], ...]
    steps: tuple[Telling | LeftOut, ...]
    breaks_at: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """A finding with its history in lanes; without lanes where the page has no room left for them."""

    story: Story
    file: str
    lanes: _Lanes | None
    diagram: Diagram | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Violation:
    """A broken rule with its findings; ``others`` counts those that are not told.

    ``deviations``: the known ones that break it, found or met.
    """

    verdict: Contradicted
    label: str
    deviations: tuple[KnownDeviation, ...]
    because: str
    told: tuple[_Told, ...]
    others: int


def write(account: Account, path: Path) -> None:
    path.write_text(page(account, folder=path.parent, when=datetime.now(UTC)), encoding="utf-8")


def page(account: Account, *, folder: Path, when: datetime) -> str:
    """The page for a report in ``folder``, as of ``when``."""
    contradicted = list(_violations(account, folder))
    return template_of("page.html.j2").render(
        account=account,
        verdicts=account.verdicts,
        headline=headline(account),
        summary=summary(account),
        mostly_excused=mostly_excused(account),
        status=account.verdicts.exit_status,
        rows=[_row(verdict, account) for verdict in account.verdicts.rules],
        new=[one for one in contradicted if not isinstance(one.verdict, Deviated)],
        deviating=[one for one in contradicted if isinstance(one.verdict, Deviated)],
        documents=DOCUMENTS,
        when=when.strftime("%Y-%m-%d %H:%M UTC"),
        style=style(),
    )


def style() -> Markup:
    """What pages look like: ours, and nothing of a run is in it."""
    return Markup((_HERE / "page.css").read_text("utf-8"))


def template_of(name: str, **filters: Callable[..., str]) -> jinja2.Template:
    """A template beside this module, with what all of them may use, and filters of its own."""
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
        "thousands": lambda number: f"{number:,}".replace(",", " "),
        **filters,
    }
    environment.tests["left_out"] = lambda step: isinstance(step, LeftOut)
    return environment.get_template(name)


def _row(verdict: RuleVerdict, account: Account) -> _Row:
    remark = ""
    if isinstance(verdict, NotExercised | NotDecidable):
        remark = verdict.why
    elif isinstance(verdict, Contradicted):
        remark = because(verdict, account)
    elif isinstance(verdict, ModelOnly):
        remark = "No broker can show it: exploration of the model decides it."
    return _Row(
        verdict=verdict,
        label=label(verdict),
        exercised=times_exercised(verdict),
        excused=times_excused(verdict),
        remark=remark,
    )


def _violations(account: Account, folder: Path) -> Iterable[_Violation]:
    room = STORIES_AT_MOST
    for verdict in sorted(account.verdicts.rules, key=lambda verdict: isinstance(verdict, Deviated)):
        if isinstance(verdict, Contradicted):
            stories = account.stories[verdict.rule.id]
            told = tuple(_told(story, folder, in_lanes=at < room) for at, story in enumerate(stories))
            room = max(0, room - len(stories))
            others = len(verdict.findings) - len(stories)
            yield _Violation(
                verdict=verdict,
                label=label(verdict),
                deviations=tuple(_deviations(verdict, account)),
                because=because(verdict, account),
                told=told,
                others=others,
            )


def _deviations(verdict: Contradicted, account: Account) -> Iterable[KnownDeviation]:
    found = [verdict.deviation] if verdict.deviation is not None else []
    for name in dict.fromkeys([*found, *verdict.occurrences]):
        deviation = account.deviation(name)
        if deviation is not None:
            yield deviation


def _told(story: Story, folder: Path, *, in_lanes: bool) -> _Told:
    file = quote(os.path.relpath(story.path, folder))
    if story.history is None or not in_lanes:
        return _Told(story=story, file=file, lanes=None, diagram=None)
    return _Told(story=story, file=file, lanes=_lanes(story), diagram=diagram_of(story.history))


def _lanes(story: Story) -> _Lanes:
    tellings = story.tellings
    steps = cut(tellings, at_most=STEPS_AT_MOST)
    headings = {telling.actor: telling.subject for telling in reversed(tellings)}
    violation = story.history.violation if story.history is not None else None
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
    """A statement of the catalogue as HTML, with what stands between asterisks emphasised."""
    parts = _EMPHASIS.split(statement)
    return Markup().join(
        Markup("<em>{}</em>").format(part) if at % 2 else escape(part) for at, part in enumerate(parts)
    )


def shortened(text: str) -> str:
    """A text that came from a run, cut where it is very long."""
    if len(text) <= TEXT_AT_MOST:
        return text
    return f"{text[:TEXT_AT_MOST]} … ({len(text) - TEXT_AT_MOST} characters more)"


def _lines(lines: Sequence[str], *, keep_last: bool) -> str:
    kept = lines[-LINES_AT_MOST:] if keep_last else lines[:LINES_AT_MOST]
    told = [shortened(line) for line in kept]
    if len(kept) < len(lines):
        note = f"… {len(lines) - len(kept)} lines more …"
        told = [note, *told] if keep_last else [*told, note]
    return "\n".join(told)
