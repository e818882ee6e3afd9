"""The page of the documentation: what was measured, as a table, in words, and as a plot."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Final

from conformance.faults import catalogue
from conformance.report.sentences.lists import count
from tests.quality.finding.comparison import ALL, compare, operations, seconds
from tests.quality.finding.data import WAYS, Measurement, Way
from tests.quality.history_plot import COLOURS, STYLE, Axis

PAGE: Final = "finding.md"
PLOT: Final = "finding.svg"
THIRD: Final = 3.0
"""Random choices should take so many times as long."""

HEADING: Final = """\
<!-- Written by `python -m tests.quality.finding render`; changes by hand are lost. -->

# How well bugs are found

How long it takes to find a [seeded defect](defects.md), in three ways:

- **one lane**: the state machines, one example at a time (`--lanes 1`);
- **lanes**: the same in eight [lanes](../../ARCHITECTURE.md#lanes), the default;
- **uniform**: eight lanes that draw operations and their arguments uniformly at random, without steering, swarm
  testing or plans.

A hunt runs the machines of the defect's family, as `pulsar-conformance defects --hunt` does, from a seed until a rule
of the family is broken. The clock starts when the broker serves and the defect is on, so lanes start within the time.
Operations are those of all lanes. The ways take turns on a broker with the machines' settings.

The uniform machine was made for this comparison, and is no longer in the suite. It drew only operations on topics that
the family is about. Each of its examples began with a topic, a producer and a consumer, and it drew only what had
something to act on; otherwise most examples would have come to nothing.

The defects are a random sample of each family that one broker of one cluster can show. Left out are defects that need
several clusters (REPL), brokers or bookies.
"""


@dataclass(frozen=True, slots=True)
class Summary:
    """The hunts for one defect in one way: medians; infinite if most of them found nothing within ``limit_s``."""

    hunts: int
    found: int
    seconds: float
    operations: float
    limit_s: float
    operations_in_limit: float

    @classmethod
    def of(cls, hunts: Sequence[Measurement]) -> Summary:
        in_vain = [one for one in hunts if not one.found]
        return cls(
            hunts=len(hunts),
            found=len(hunts) - len(in_vain),
            seconds=median(map(seconds, hunts)),
            operations=median(map(operations, hunts)),
            limit_s=max((one.seconds for one in in_vain), default=math.inf),
            operations_in_limit=median(one.operations for one in in_vain) if in_vain else math.inf,
        )

    def __str__(self) -> str:
        if math.isinf(self.seconds):
            return f"{self.found}/{self.hunts}, > {self.limit_s:.0f} s, > {self.operations_in_limit:.0f}"
        return f"{self.found}/{self.hunts}, {self.seconds:.1f} s, {self.operations:.0f}"


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times as much; at least so many times, where it was mostly not found."""

    value: float
    is_bound: bool

    def __str__(self) -> str:
        digits = f"{self.value:.1f}" if self.value < 10 else f"{self.value:.0f}"
        return f"≥ {digits}" if self.is_bound else digits


Summaries = Mapping[str, Mapping[Way, Summary]]


def summarised(measured: Iterable[Measurement]) -> Summaries:
    """The defects that were measured in all ways, by family."""
    hunts: dict[str, dict[Way, list[Measurement]]] = {}
    for one in measured:
        hunts.setdefault(one.defect, {}).setdefault(one.way, []).append(one)
    complete = [name for name, ways in hunts.items() if ways.keys() == set(WAYS)]
    ordered = sorted(complete, key=lambda name: (catalogue.find(name).breaks, name))
    return {name: {way: Summary.of(hunts[name][way]) for way in WAYS} for name in ordered}


def time_ratio(ways: Mapping[Way, Summary], slow: Way = "uniform", fast: Way = "lanes") -> Ratio | None:
    """The median time of one way over that of another; None where that mostly found nothing."""
    if math.isinf(ways[fast].seconds):
        return None
    is_bound = math.isinf(ways[slow].seconds)
    return Ratio((ways[slow].limit_s if is_bound else ways[slow].seconds) / ways[fast].seconds, is_bound)


def operations_ratio(ways: Mapping[Way, Summary], slow: Way = "uniform", fast: Way = "lanes") -> Ratio | None:
    """The same of the median operations."""
    if math.isinf(ways[fast].operations):
        return None
    is_bound = math.isinf(ways[slow].operations)
    top = ways[slow].operations_in_limit if is_bound else ways[slow].operations
    return Ratio(top / max(1.0, ways[fast].operations), is_bound)


def page(measured: Sequence[Measurement]) -> str:
    """All of it, in Markdown."""
    summaries = summarised(measured)
    of_all = [one for one in measured if one.defect in summaries]
    return "\n".join(
        [
            HEADING,
            *_outcome(of_all, summaries),
            "",
            f"![Seconds until each defect is found, in three ways]({PLOT})",
            "",
            "Of each way: found in how many of the hunts, median seconds, median operations. Then the ratios of the",
            "medians, uniform to lanes:",
            "",
            *_table(summaries),
            "",
            "`make quality` measures some of the defects in lanes again, and says which are found later than these.",
            "Its exact rank test compares operations, as seconds depend on the machine.",
            "`python -m tests.quality.finding measure` continues these measurements of the machines.",
            "",
        ]
    )


def _table(summaries: Summaries) -> list[str]:
    rows = [f"| defect | breaks | {' | '.join(WAYS)} | seconds | operations |", "|---" * (4 + len(WAYS)) + "|"]
    for name, ways in summaries.items():
        ratios = (str(ratio or "") for ratio in (time_ratio(ways), operations_ratio(ways)))
        cells = [f"`{name}`", catalogue.find(name).breaks, *(str(ways[way]) for way in WAYS), *ratios]
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def _outcome(measured: Sequence[Measurement], summaries: Summaries) -> list[str]:
    """What came out, in words."""
    dates = sorted({one.date for one in measured})
    hunts_each = sorted({summary.hunts for ways in summaries.values() for summary in ways.values()})
    seeds = count(hunts_each[-1], "seed", "seeds")
    if hunts_each[0] < hunts_each[-1]:
        seeds = f"{hunts_each[0]} to {seeds}"
    releases = ", ".join(sorted({one.release for one in measured}))
    during = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    sampled = f"{count(len(summaries), 'defect', 'defects')}, {seeds} each"
    lines = [f"{during}, {releases}: {sampled}, on two cores that little else used.", ""]
    for way in WAYS:
        hunts = [one for one in measured if one.way == way]
        found = sum(one.found for one in hunts)
        every = sum(ways[way].found == ways[way].hunts for ways in summaries.values())
        none = [f"`{name}`" for name, ways in summaries.items() if not ways[way].found]
        never = f"; never {', '.join(none)}" if none else ""
        first_s = median(one.first_s for one in hunts if one.first_s is not None)
        first = f"The first example had ended after {first_s:.1f} s (median)."
        lines.append(f"- **{way}**: {found} of {len(hunts)} hunts found it; {every} defects always{never}. {first}")
    lines += ["", *_ratios(measured, summaries)]
    return lines


def _ratios(measured: Sequence[Measurement], summaries: Summaries) -> list[str]:
    """How much longer uniform choices take."""
    timed = [ratio for ways in summaries.values() if (ratio := time_ratio(ways)) is not None]
    counted = [ratio for ways in summaries.values() if (ratio := operations_ratio(ways)) is not None]
    thirds = sum(ratio.value >= THIRD for ratio in timed)
    lanes = [one for one in measured if one.way == "lanes"]
    uniform = [one for one in measured if one.way == "uniform"]
    (chance,) = (one.by_chance for one in compare(lanes, uniform, seconds) if one.what == ALL)
    single = [ratio for ways in summaries.values() if (ratio := time_ratio(ways, "one lane")) is not None]
    return [
        f"Uniform choices take {_spread(timed)} times as long as the machines in lanes, and {_spread(counted)} times",
        "as many operations: the median over the defects, and quartiles. Where they mostly did not find a defect, the",
        f"limit counts, so this is a lower bound. For {thirds} of {len(timed)} defects the median in lanes is at most",
        f"a third of theirs. If they took as long, such ranks would have a probability of {chance:.1g} (exact test",
        f"over all defects). One lane takes {_spread(single)} times as long as lanes.",
    ]


def _spread(ratios: Sequence[Ratio]) -> str:
    values = [ratio.value for ratio in ratios]
    low, middle, high = quantiles(values, n=4, method="inclusive")
    return f"{middle:.1f} ({low:.1f} to {high:.1f})"


# ---------------------------------------------------------------------------------------------------------------- plot

WIDTH, LEFT, RIGHT, TOP, BOTTOM, ROW = 860, 250, 20, 50, 45, 24
OFFSETS: Final[Mapping[Way, float]] = {"one lane": -6.0, "lanes": 0.0, "uniform": 6.0}
FILLS: Final[Mapping[Way, str]] = dict(zip(WAYS, (COLOURS[0], COLOURS[4], COLOURS[1]), strict=True))


def plot(measured: Sequence[Measurement]) -> str:
    """A row for each defect, a line for each way: a dot for each hunt, and a bar at the median; as SVG.

    A ring is a hunt that found nothing.
    """
    summaries = summarised(measured)
    of_all = [one for one in measured if one.defect in summaries]
    height = TOP + ROW * len(summaries) + BOTTOM
    across = Axis([max(0.1, one.seconds) for one in of_all], LEFT, WIDTH - RIGHT)
    drawn = [f'<text x="{LEFT}" y="18" font-weight="bold">Seconds until a seeded defect is found</text>']
    for number, way in enumerate(WAYS):
        drawn.append(f'<text x="{LEFT + 90 * number}" y="38" fill="{FILLS[way]}">● {way}</text>')
    drawn.append(f'<text x="{LEFT + 90 * len(WAYS)}" y="38" fill="#666">○ not found   ❘ median</text>')
    for value in across.decades():
        x = across.at(value)
        drawn.append(f'<path d="M{x:.1f} {TOP}V{height - BOTTOM}" stroke="#ddd"/>')
        drawn.append(f'<text x="{x:.1f}" y="{height - 24}" text-anchor="middle">{value:g} s</text>')
    for number, (name, ways) in enumerate(summaries.items()):
        middle = TOP + ROW * (number + 0.5)
        drawn.append(f'<text x="{LEFT - 8}" y="{middle + 4:.1f}" text-anchor="end">{name}</text>')
        drawn.append(f'<path d="M{LEFT} {middle + ROW / 2:.1f}H{WIDTH - RIGHT}" stroke="#eee"/>')
        for way, summary in ways.items():
            hunts = [one for one in of_all if (one.defect, one.way) == (name, way)]
            drawn += _line(hunts, summary, across, middle + OFFSETS[way], FILLS[way])
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" style="{STYLE}">'
    return "\n".join([head, *drawn, "</svg>", ""])


def _line(hunts: Sequence[Measurement], summary: Summary, across: Axis, y: float, fill: str) -> list[str]:
    drawn = []
    for one in hunts:
        inside = fill if one.found else "none"
        x = across.at(max(0.1, one.seconds))
        drawn.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.2" fill="{inside}" fill-opacity="0.6" stroke="{fill}"/>')
    if math.isfinite(summary.seconds):
        x = across.at(max(0.1, summary.seconds))
        drawn.append(f'<path d="M{x:.1f} {y - 4:.1f}V{y + 4:.1f}" stroke="{fill}" stroke-width="2.5"/>')
    return drawn
