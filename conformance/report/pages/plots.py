"""Plots as inline SVG: lines over time with marks, and bars over a logarithmic scale.

A plot is drawn into a box of :data:`WIDTH` units and scales with the page. All texts are escaped.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

WIDTH = 720
LEFT, RIGHT, BELOW, ABOVE = 52, 12, 26, 12
"""The margins of a plot, for the texts of its axes."""

TICKS = 5
"""About how many marks an axis has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A span or a point of the horizontal axis, with a title."""

    from_: float
    to: float
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Box:
    """The place of values in the plot: the horizontal axis is from ``least`` to ``most``, the vertical one from 0."""

    least: float
    most: float
    top: float
    height: float

    def x(self, value: float) -> float:
        span = (self.most - self.least) or 1.0
        return LEFT + (value - self.least) / span * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        return ABOVE + (1 - value / (self.top or 1.0)) * (self.height - ABOVE - BELOW)

    @property
    def floor(self) -> float:
        return self.height - BELOW


def ticks(least: float, most: float, number: int = TICKS) -> list[float]:
    """Round values between two, about so many: 1, 2 or 5 times a power of ten apart."""
    if most <= least:
        return [least]
    rough = (most - least) / number
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(step * power for step in (1, 2, 5, 10) if step * power >= rough * 0.999)
    first = math.ceil(least / step - 1e-9)
    return [number * step for number in range(first, math.floor(most / step + 1e-9) + 1)]


def lines(
    series: Mapping[str, Sequence[tuple[float, float]]], marks: Iterable[Mark] = (), *, unit: str, height: int = 240
) -> Markup:
    """A line for each name, over seconds; ``marks`` are bands behind them, ``unit`` is that of the vertical axis."""
    points = [point for line in series.values() for point in line]
    most = max((x for x, _ in points), default=1.0)
    box = _Box(least=0.0, most=most, top=max((y for _, y in points), default=1.0) * 1.05, height=height)
    drawn = [_band(box, mark) for mark in marks if mark.from_ <= most]
    drawn += _axes(box, [(x, f"{x:g} s") for x in ticks(0, most)], unit)
    for number, (name, line) in enumerate(series.items()):
        path = " ".join(f"{box.x(x):.1f},{box.y(y):.1f}" for x, y in line)
        drawn.append(
            Markup('<polyline class="line c{}" points="{}"><title>{}</title></polyline>').format(number, path, name)
        )
    return _svg(drawn, height)


def bars(
    counts: Sequence[tuple[float, int]], marks: Iterable[Mark] = (), *, ratio: float, color: int, height: int = 150
) -> Markup:
    """A histogram over a logarithmic scale in milliseconds: bins up to each value, ``ratio`` times as wide as the last.

    ``marks`` are lines with a text.
    """
    least, most = min(value for value, _ in counts) / ratio, max(value for value, _ in counts)
    log = math.log10
    box = _Box(least=log(least), most=log(most), top=max(count for _, count in counts) * 1.1, height=height)
    powers = range(math.floor(log(least)), math.ceil(log(most)) + 1)
    scale = [10.0**power for power in powers if least <= 10.0**power <= most]
    drawn = _axes(box, [(log(value), duration(value)) for value in scale], "")
    for value, count in counts:
        left, right = box.x(log(value / ratio)), box.x(log(value))
        drawn.append(
            Markup(
                '<rect class="bar c{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"><title>{}</title></rect>'
            ).format(
                color,
                left + 0.5,
                box.y(count),
                max(right - left - 1, 0.5),
                box.floor - box.y(count),
                f"{count} up to {duration(value)}",
            )
        )
    drawn += [_line(box, mark) for mark in marks]
    return _svg(drawn, height)


def duration(milliseconds: float) -> str:
    """A time with its unit, in three digits."""
    for unit, size in (("s", 1e3), ("ms", 1.0)):
        if milliseconds >= size:
            return f"{milliseconds / size:.3g} {unit}"
    return f"{milliseconds * 1e3:.3g} µs"


def _axes(box: _Box, across: Sequence[tuple[float, str]], unit: str) -> list[Markup]:
    drawn = []
    for value in ticks(0, box.top, 4):
        label = f"{_short(value)}{unit if value else ''}"
        drawn.append(
            Markup(
                '<line class="grid" x1="{0}" x2="{1}" y1="{2:.1f}" y2="{2:.1f}"/>'
                '<text class="side" x="{3}" y="{4:.1f}">{5}</text>'
            ).format(LEFT, WIDTH - RIGHT, box.y(value), LEFT - 6, box.y(value) + 4, label)
        )
    for value, text in across:
        drawn.append(
            Markup('<text class="below" x="{:.1f}" y="{:.1f}">{}</text>').format(box.x(value), box.floor + 18, text)
        )
    return drawn


def _short(value: float) -> str:
    for sign, size in (("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:g}{sign}"
    return f"{value:g}"


def _band(box: _Box, mark: Mark) -> Markup:
    left, right = box.x(mark.from_), box.x(min(mark.to, box.most))
    return Markup(
        '<rect class="mark" x="{:.1f}" y="{}" width="{:.1f}" height="{:.1f}"><title>{}</title></rect>'
    ).format(left, ABOVE, max(right - left, 1.5), box.floor - ABOVE, mark.title)


def _line(box: _Box, mark: Mark) -> Markup:
    x = box.x(math.log10(mark.from_))
    is_far = x > WIDTH * 0.8
    return Markup(
        '<line class="at" x1="{0:.1f}" x2="{0:.1f}" y1="{1}" y2="{2:.1f}"/>'
        '<text class="{3}" x="{4:.1f}" y="{5}">{6}</text>'
    ).format(x, ABOVE, box.floor, "before" if is_far else "after", x + (-4 if is_far else 4), ABOVE + 10, mark.title)


def _svg(drawn: Iterable[Markup], height: int) -> Markup:
    inside = Markup("").join(escape(one) for one in drawn)
    return Markup('<svg class="plot" viewBox="0 0 {} {}" role="img">{}</svg>').format(WIDTH, height, inside)
