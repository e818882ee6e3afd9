"""What explains an observation that no document allows: sets of deviations.

Such an observation has *ways*: the sets of deviations that lead to it. One that needs two deviations has both in one
way, and one that either of two leads to has two ways. None of them contains another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain, combinations, product

Way = frozenset[str]
"""Deviations that explain something together."""
Ways = frozenset[Way]
"""Alternative ways, each of which suffices."""


def minimal(ways: Iterable[Way]) -> Ways:
    """These ways without those that contain another one."""
    every = frozenset(ways)
    return every if len(every) < 2 else frozenset(one for one in every if not any(other < one for other in every))


def together(*each: Ways) -> Ways:
    """The ways to something that requires all of these."""
    return minimal(frozenset[str]().union(*one) for one in product(*each))


def adding(amounts: Mapping[str, tuple[int, int]], difference: int) -> list[Way]:
    """The ways to a count that is wrong by this difference, of which each deviation adds something.

    ``amounts``: by deviation, the least and the most that it adds; negative where it subtracts. One whose least is more
    than its most adds nothing here.
    """
    names = [name for name, (least, most) in amounts.items() if least <= most]
    choices = chain.from_iterable(combinations(names, count) for count in range(1, 1 + len(names)))
    return [
        frozenset(chosen)
        for chosen in choices
        if sum(amounts[name][0] for name in chosen) <= difference <= sum(amounts[name][1] for name in chosen)
    ]
