"""Whether defects are found later than before: exact rank tests, which need no threshold and no distribution.

A hunt that found nothing took longer than all that did, unless the machine was so slow that it performed fewer
operations than others needed: then it says nothing, and is left out. For each defect, the rank sum of the new hunts
among all of its hunts is compared with that of every way to choose as many of them: the probability of a sum at least
as large, if only chance decides which hunts are the new ones. The sums of all defects, added up, have such a
distribution, too, and notice what makes all defects a little harder to find. As these are several tests, Holm's method
multiplies their probabilities.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from statistics import median
from typing import Final

from tests.quality.finding.data import Measurement

SIGNIFICANT: Final = 0.01
"""A defect got harder to find if chance explains it with a smaller probability than this."""
ALL: Final = "all of them"

Cost = Callable[[Measurement], float]
Distribution = Counter[int]
"""How many choices have which sum of ranks; ranks are doubled, as ties have halves."""


def operations(one: Measurement) -> float:
    """The operations until the defect was found. They depend on the machine's speed far less than seconds do."""
    return one.operations if one.found else math.inf


def seconds(one: Measurement) -> float:
    """The seconds until the defect was found."""
    return one.seconds if one.found else math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """The hunts for one defect, or for all, before and now: their medians (infinite: mostly not found).

    ``by_chance``: the probability of ranks at least as high by chance; corrected for the number of tests.
    """

    what: str
    before: float
    now: float
    by_chance: float

    @property
    def is_worse(self) -> bool:
        return self.by_chance < SIGNIFICANT


def compare(before: Iterable[Measurement], now: Iterable[Measurement], cost: Cost = operations) -> list[Compared]:
    """Each defect that was measured before and now, then all of them; the least probable by chance first."""
    hunts = list(before)
    earlier, later = _costs(hunts, cost), _costs(_telling(now, _costs(hunts, operations)), cost)
    names = sorted(earlier.keys() & later.keys())
    compared, total, everything = [], 0, Distribution({0: 1})
    for name in names:
        ranks = _doubled_ranks([*later[name], *earlier[name]])
        found = sum(ranks[: len(later[name])])
        possible = _sums(ranks, len(later[name]))
        compared.append(_compared(name, earlier[name], later[name], _at_least(found, possible)))
        total, everything = total + found, _added(everything, possible)
    if len(names) > 1:
        all_before, all_now = ([median(costs[name]) for name in names] for costs in (earlier, later))
        compared.append(_compared(ALL, all_before, all_now, _at_least(total, everything)))
    return _corrected(compared)


def _compared(what: str, before: Sequence[float], now: Sequence[float], by_chance: float) -> Compared:
    return Compared(what=what, before=median(before), now=median(now), by_chance=by_chance)


def _telling(now: Iterable[Measurement], before: Mapping[str, Sequence[float]]) -> list[Measurement]:
    """The hunts that found something, or performed as many operations as those before needed."""
    return [one for one in now if one.found or one.operations >= _needed(before.get(one.defect, ()))]


def _needed(costs: Sequence[float]) -> float:
    found = [cost for cost in costs if math.isfinite(cost)]
    return median(found) if found else 0.0


def _costs(measured: Iterable[Measurement], cost: Cost) -> dict[str, list[float]]:
    costs = defaultdict(list)
    for one in measured:
        costs[one.defect].append(cost(one))
    return dict(costs)


def _doubled_ranks(costs: Sequence[float]) -> list[int]:
    """Twice the rank of each; those that are equal share the mean of their ranks."""
    below, equal = Counter(costs), Counter(costs)
    smaller = dict(zip(sorted(below), accumulate([0, *(below[one] for one in sorted(below))]), strict=False))
    return [2 * smaller[one] + equal[one] + 1 for one in costs]


def _sums(ranks: Sequence[int], chosen: int) -> Distribution:
    """The sums of every way to choose so many of these ranks."""
    by_count = [Distribution({0: 1}), *(Distribution() for _ in range(chosen))]
    for rank in ranks:
        for count in range(chosen, 0, -1):
            for total, ways in by_count[count - 1].items():
                by_count[count][total + rank] += ways
    return by_count[chosen]


def _added(one: Distribution, other: Distribution) -> Distribution:
    """The sums of one choice of each."""
    added = Distribution()
    for total, ways in one.items():
        for more, other_ways in other.items():
            added[total + more] += ways * other_ways
    return added


def _at_least(found: int, possible: Distribution) -> float:
    return sum(ways for total, ways in possible.items() if total >= found) / possible.total()


def _corrected(compared: Sequence[Compared]) -> list[Compared]:
    """Holm's correction: the smallest probability counts as often as there are tests, the next once less, and so on."""
    ordered = sorted(compared, key=lambda one: one.by_chance)
    weighted = [one.by_chance * (len(ordered) - number) for number, one in enumerate(ordered)]
    return [
        replace(one, by_chance=min(1.0, corrected))
        for one, corrected in zip(ordered, accumulate(weighted, max), strict=True)
    ]
