"""What explains an observation that no document allows: sets of deviations.

A state that the documents do not allow has *ways*: the sets of deviations that lead to it. A state that needs two
deviations has both in one way, and a state that either of two leads to has two ways. None of them contains another one.
If only such states explain an observation, the way with the fewest unknown deviations counts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from itertools import chain, combinations, product
from typing import TypeVar

from model.excuses import DEVIATIONS
from model.judgement import Allowed, Broken

S = TypeVar("S")

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


def simplest(ways: Iterable[Way], known: frozenset[str]) -> Way:
    """The way with the fewest unknown deviations, and of these the one with the fewest in all."""
    return min(ways, key=lambda way: (len(way - known), len(way), sorted(way)))


def required(
    ways: Iterable[Way],
    after: S,
    known: frozenset[str],
    because: str | None = None,
    *,
    exercised: Collection[str] = (),
) -> Allowed[S] | Broken:
    """The answer where only these ways explain what was seen: ``after`` if one is known, else the broken rule.

    ``exercised``: the rules that the operations before exercised, which a violation rather breaks.
    """
    way = simplest(ways, known)
    if unknown := way - known:
        entries = (DEVIATIONS[name] for name in unknown)
        return min(entries, key=lambda one: (one.rule not in exercised, one.name)).broken(because)
    return Allowed(after, (), tuple(sorted(way)))


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


def explained(
    judged: Allowed[S] | Broken, causes: Iterable[str | Way], after: S, known: frozenset[str]
) -> Allowed[S] | Broken:
    """The same answer; if a rule is broken that each of these causes explains: ``after`` if one is known.

    Otherwise the first one names the violation, unless it has a name. It keeps its rule if that breaks with the
    deviation.
    """
    ways = [frozenset({one}) if isinstance(one, str) else one for one in causes] if isinstance(judged, Broken) else []
    if not isinstance(judged, Broken) or not ways:
        return judged
    way = min(ways, key=lambda one: (len(one - known), len(one)))
    if way <= known:
        return Allowed(after, (), tuple(sorted(way)))
    entry = DEVIATIONS[min(way - known)]
    rule = judged.rule if judged.rule in entry.also else entry.rule
    if judged.deviation is not None:
        return judged
    named = entry.broken(judged.because, rule)
    return replace(judged, rule=named.rule, because=named.because, deviation=named.deviation, side=named.side)
