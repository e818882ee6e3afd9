"""A space-time diagram as inline SVG: time goes down, a lane for each client and broker, a band for each step.

The style sheet has the colours. Signs repeat what they mean: the step that breaks the rule has a cross, and so has an
arrow whose arrival is unknown. All texts are escaped and cut to their room, and drawn as wide as the layout takes them
to be in any font, so that none lies over another. Each step has its whole sentence as a title.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from markupsafe import Markup

from conformance.report.pages.arrows import Arrow
from conformance.report.pages.diagram import Band, Diagram, DiagramLane
from conformance.report.sentences.lists import count

AXIS, RIGHT = 92, 200
"""The widths of the axis and of the margin to the right of the last lane, in pixels."""

WIDEST, NARROWEST, FITTING = 190, 108, 1180
"""The widest and narrowest lane, and the width into which all lanes should fit, in pixels."""

HEAD, LINE, GAP = 44, 18, 7
"""The heights of the lanes' headings, of a line of text or an arrow, and of the shortest pause between two steps."""

TALLEST, LONGEST_GAP = 84, 22
"""The heights to which a long step and a long pause are compressed, in pixels."""

PIXELS_A_MS = 0.05
LETTERS_AT_MOST = 400
"""How many letters of a sentence are shown."""

LETTER, SMALL_LETTER = 6.7, 6.1
"""How wide a letter is drawn, in pixels; on the axis it is small."""

ASIDE = 18
"""How far a label is from the lane of its client, in pixels: the head of an arrow has its place in between."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Placed:
    """A band with its place; ``pause_ms``: the pause before it, if that is compressed."""

    band: Band
    top: float
    height: float
    is_compressed: bool
    pause_ms: float | None


def draw(diagram: Diagram, *, name: str) -> Markup:
    """The diagram; ``name`` is unique in its page."""
    placed = list(_placed(diagram.bands))
    lane_width = max(NARROWEST, min(WIDEST, (FITTING - AXIS - RIGHT) // len(diagram.lanes)))
    at = {lane.name: AXIS + lane_width * (number + 0.5) for number, lane in enumerate(diagram.lanes)}
    width = AXIS + lane_width * len(diagram.lanes) + RIGHT
    height = placed[-1].top + placed[-1].height + 14
    parts = [Markup("").join(_heading(lane, at[lane.name], lane_width, height) for lane in diagram.lanes)]
    parts += [_band(one, at, width) for one in placed]
    return Markup(
        '<svg class="space-time" role="img" aria-labelledby="{name}-t {name}-d" width="{width}" height="{height:.0f}" '
        'viewBox="0 0 {width} {height:.0f}">'
        '<title id="{name}-t">{title}</title><desc id="{name}-d">{desc}</desc>{body}</svg>'
    ).format(
        name=name,
        width=width,
        height=height,
        title=f"Space-time diagram of {count(len(diagram.bands), 'step', 'steps')}",
        desc=_description(diagram),
        body=Markup("\n").join(parts),
    )


def _description(diagram: Diagram) -> str:
    lanes = _at_most(", ".join(lane.heading for lane in diagram.lanes))
    breaking = next((band for band in diagram.bands if band.breaks), None)
    end = "" if breaking is None else f" Step {breaking.step} breaks {breaking.breaks}: {_at_most(diagram.because)}."
    return f"Time goes down. Lanes: {lanes}.{end} The table after it has the same steps in words."


def _placed(bands: Iterable[Band]) -> Iterable[_Placed]:
    """Place each band below the one before; the height of its lines or of its time, with a limit."""
    y, before_ms = float(HEAD), None
    for band in bands:
        pause = 0.0 if before_ms is None else max(0.0, band.invoked_ms - before_ms) * PIXELS_A_MS
        y += min(max(GAP, pause), LONGEST_GAP)
        lines = LINE * (1 + len(band.arrows)) + (4 if not band.arrows else 0)
        took = (band.completed_ms - band.invoked_ms) * PIXELS_A_MS
        yield _Placed(
            band=band,
            top=y,
            height=min(max(lines, took), max(lines, TALLEST)),
            is_compressed=took > max(lines, TALLEST),
            pause_ms=band.invoked_ms - before_ms if before_ms is not None and pause > LONGEST_GAP else None,
        )
        y += min(max(lines, took), max(lines, TALLEST))
        before_ms = band.completed_ms


def _heading(lane: DiagramLane, x: float, width: int, height: float) -> Markup:
    """Two lines; the name takes both of them if the lane is too narrow."""
    name, _, rest = lane.heading.partition(" (")
    below = f"({rest}" if rest else ""
    if len(name) * LETTER > width - 8:
        name, _, below = name.partition(" ")
    return Markup(
        '<g class="lane{kind}"><title>{whole}</title><line x1="{x:.0f}" x2="{x:.0f}" y1="{head}" y2="{height:.0f}"/>'
        "{name}{below}</g>"
    ).format(
        kind=" broker" if lane.is_broker else "",
        whole=_at_most(lane.heading),
        x=x,
        head=HEAD - 8,
        height=height,
        name=_text("name", x, 14, _cut(name, width - 8)),
        below=_text("below", x, 30, _cut(below, width - 8)),
    )


def _text(kind: str, x: float, y: float, text: str, letter: float = LETTER) -> Markup:
    """A text of a fixed width."""
    if not text:
        return Markup("")
    fixed = Markup(' textLength="{:.1f}" lengthAdjust="spacingAndGlyphs"').format(len(text) * letter)
    return Markup('<text class="{}" x="{:.0f}" y="{:.1f}"{}>{}</text>').format(kind, x, y, fixed, text)


def _band(placed: _Placed, at: dict[str, float], width: float) -> Markup:
    band, y = placed.band, placed.top
    x = at[band.lane]
    parts = [Markup("<title>{}</title>").format(_at_most(band.words))]
    if band.breaks:
        parts.append(
            Markup('<rect class="break" x="2" y="{:.1f}" width="{}" height="{:.1f}"/>').format(
                y - 3, width - 4, placed.height + 6
            )
        )
    parts.append(_axis(placed))
    parts.append(
        Markup('<rect class="bar {}" x="{:.0f}" y="{:.1f}" width="10" height="{:.1f}"/>').format(
            band.tone.value, x - 5, y, placed.height
        )
    )
    if placed.is_compressed:
        parts.append(_zigzag(x, y + placed.height - 12))
    parts += [_arrow(arrow, band, at, y + LINE * (number + 1) + 12) for number, arrow in enumerate(band.arrows)]
    words = f"✕ breaks {band.breaks} · {band.action}" if band.breaks else band.action
    parts.append(_text("did", x + 10, y + 12, _cut(words, width - x - 14)))
    return Markup('<g class="step{}">{}</g>').format(" breaks" if band.breaks else "", Markup("").join(parts))


def _axis(placed: _Placed) -> Markup:
    band, y = placed.band, placed.top
    took_ms = band.completed_ms - band.invoked_ms
    parts = [
        _text("step-number", 6, y + 12, str(band.step), SMALL_LETTER),
        _text("when", 32, y + 12, _ms(band.invoked_ms), SMALL_LETTER),
    ]
    if placed.is_compressed or placed.height > 2 * LINE:
        parts.append(_text("took", 32, y + 12 + LINE, f"+{_ms(took_ms)}", SMALL_LETTER))
    if placed.pause_ms is not None:
        parts.append(_text("took", 32, y - 7, f"⋮ {_ms(placed.pause_ms)}", SMALL_LETTER))
    return Markup("").join(parts)


def _zigzag(x: float, y: float) -> Markup:
    """The sign that time is compressed."""
    return Markup('<path class="zigzag" d="M{:.0f} {:.0f}l5 -3l5 6l5 -6l5 3"/>').format(x - 10, y)


def _arrow(arrow: Arrow, band: Band, at: dict[str, float], y: float) -> Markup:
    client, broker = at[arrow.client], at[band.broker]
    side = 1 if broker > client else -1
    source, target = (client + 6 * side, broker - 6 * side) if arrow.is_out else (broker - 6 * side, client + 6 * side)
    towards = 1 if target > source else -1
    room = abs(broker - client) - ASIDE - 10
    label = _cut(arrow.label, room - 10 if arrow.is_lost else room)
    if arrow.is_lost:  # the cross is beyond the label, or for an answer between the broker and the label
        beside = client + (ASIDE + len(label) * LETTER + 9) * side
        target = beside if abs(beside - client) > abs(broker - client) / 2 else (source + target) / 2
    kind = "".join([" seen" if arrow.is_seen else "", " lost" if arrow.is_lost else ""])
    head = f"l{-7 * towards} -3.5v7z" if not arrow.is_lost else "m-4 -4l8 8m0 -8l-8 8"
    shape = Markup('<line x1="{:.0f}" x2="{:.0f}" y1="{y:.1f}" y2="{y:.1f}"/><path d="M{:.0f} {y:.1f}{}"/>').format(
        source, target, target, head, y=y
    )
    text = _text("before" if side < 0 else "after", client + ASIDE * side, y - 3, label)
    return Markup('<g class="arrow{}">{}{}</g>').format(kind, shape, text)


def _ms(time_ms: float) -> str:
    return f"{time_ms:,.0f} ms".replace(",", " ")


def _at_most(text: str) -> str:
    return text if len(text) <= LETTERS_AT_MOST else f"{text[: LETTERS_AT_MOST - 1]}…"


def _cut(text: str, width: float) -> str:
    letters = max(4, int(width / LETTER))
    return text if len(text) <= letters else f"{text[: letters - 1]}…"
