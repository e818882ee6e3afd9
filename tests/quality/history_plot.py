"""Draws what history_scale measured: seconds and memory over the number of events; prints the table.

python -m tests.quality.history_plot TOOK.json docs
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import click
import msgspec

from tests.quality.history_scale import Cost, Took, costs_of

WIDTH, HEIGHT = 640, 360
LEFT, RIGHT, TOP, BOTTOM = 70, 190, 30, 45
COLOURS = ("#888", "#b22", "#c60", "#a3a", "#0a7", "#46c")
STYLE = "font-family: sans-serif; font-size: 13px; background: white"

Points: TypeAlias = Sequence[tuple[float, float]]


class Axis:
    """A logarithmic axis over whole decades."""

    def __init__(self, values: Sequence[float], start: float, end: float) -> None:
        self.first, self.last = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
        self.last = max(self.last, self.first + 1)
        self._start, self._scale = start, (end - start) / (self.last - self.first)

    def at(self, value: float) -> float:
        return self._start + (math.log10(value) - self.first) * self._scale

    def decades(self) -> list[float]:
        return [10.0**power for power in range(self.first, self.last + 1)]


def plot(title: str, unit: str, lines: Mapping[str, Points]) -> str:
    """Lines over the number of events, both logarithmic, as SVG."""
    lines = {name: line for name, line in lines.items() if line}
    points = [point for line in lines.values() for point in line]
    across = Axis([x for x, _ in points], LEFT, WIDTH - RIGHT)
    up = Axis([y for _, y in points], HEIGHT - BOTTOM, TOP)
    drawn = [*_grid(across, up, unit), f'<text x="{LEFT}" y="18" font-weight="bold">{title}</text>']
    names = sorted(lines, key=lambda name: -lines[name][-1][1])
    for place, name in enumerate(names):
        colour = COLOURS[list(lines).index(name)]
        at = " ".join(f"{across.at(x):.1f},{up.at(y):.1f}" for x, y in lines[name])
        drawn.append(f'<polyline points="{at}" fill="none" stroke="{colour}" stroke-width="2"/>')
        drawn.extend(
            f'<circle cx="{across.at(x):.1f}" cy="{up.at(y):.1f}" r="3" fill="{colour}"/>' for x, y in lines[name]
        )
        beside = f'x="{WIDTH - RIGHT + 14}" y="{TOP + 16 + 20 * place}"'
        drawn.append(f'<text {beside} fill="{colour}">{name}</text>')
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" style="{STYLE}">',
            *drawn,
            "</svg>",
            "",
        ]
    )


def _grid(across: Axis, up: Axis, unit: str) -> list[str]:
    drawn = []
    for value in across.decades():
        x = across.at(value)
        drawn.append(f'<path d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#ddd"/>')
        drawn.append(f'<text x="{x:.1f}" y="{HEIGHT - 25}" text-anchor="middle">{value / 1e6:g} M</text>')
    for value in up.decades():
        y = up.at(value)
        drawn.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
        drawn.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:g} {unit}</text>')
    drawn.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 6}" text-anchor="middle">events</text>')
    return drawn


def _lines(measured: Sequence[Took], of: Callable[[Cost], float]) -> dict[str, Points]:
    """What each cost over the number of events, by what it is called; where it was measured."""
    names = costs_of(measured[0])
    costs = {name: [(one.events, costs_of(one)[name]) for one in measured] for name in names}
    return {name: [(events, of(cost)) for events, cost in points if cost is not None] for name, points in costs.items()}


def seconds(measured: Sequence[Took]) -> str:
    """How long each took."""
    return plot("Seconds on two cores", "s", _lines(measured, lambda cost: cost.seconds))


def memory(measured: Sequence[Took]) -> str:
    """What memory verifying took, and DuckDB's SQL."""
    return plot(
        "Resident memory at most",
        "MiB",
        {
            "Spark's Java": [(one.events, one.verify.peak.java_bytes / 2**20) for one in measured],
            "largest Python worker": [(one.events, one.verify.peak.worker_bytes / 2**20) for one in measured],
            "DuckDB": [(one.events, one.duckdb.peak.own_bytes / 2**20) for one in measured if one.duckdb is not None],
        },
    )


def table(measured: Sequence[Took]) -> str:
    """The same in Markdown."""
    rows = [
        f"| events | bytes each | {' | '.join(costs_of(measured[0]))} | planted, found | Java, worker; DuckDB |",
        "|---" * (4 + len(costs_of(measured[0]))) + "|",
    ]
    for one in measured:
        took = (f"{cost.seconds:.1f} s" if cost else "" for cost in costs_of(one).values())
        by_duckdb = f"{one.duckdb.peak.own_bytes / 2**20:.0f} MiB" if one.duckdb else ""
        rows.append(
            f"| {one.events / 1e6:.1f} M | {one.size_bytes / one.events:.1f} | {' | '.join(took)}"
            f" | {one.planted}, {one.found} | {one.verify.peak.java_bytes / 2**20:.0f},"
            f" {one.verify.peak.worker_bytes / 2**20:.0f} MiB; {by_duckdb} |"
        )
    return "\n".join(rows)


@click.command()
@click.argument("took", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
def main(took: Path, folder: Path) -> None:
    """Draw both plots into FOLDER, and print the table."""
    measured = msgspec.json.decode(b"[" + b",".join(took.read_bytes().splitlines()) + b"]", type=list[Took])
    measured.sort(key=lambda one: one.events)
    (folder / "histories-seconds.svg").write_text(seconds(measured))
    (folder / "histories-memory.svg").write_text(memory(measured))
    click.echo(table(measured))


if __name__ == "__main__":
    main()
