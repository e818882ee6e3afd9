"""All deviations that the model knows, a file for each one, in a package for each document.

A file has an ``ENTRY`` and the functions that recognize the deviation (:class:`Explanation`). Nothing else knows it.
The packages are searched for files, so a new one needs no line anywhere else.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from model.deviation import Deviation
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Allowed, Broken
from model.subscriptions.counts import Count

S = TypeVar("S")

Explains = Callable[[Example, Step, Broken], Judgement | None]
Alternatives = Callable[[Example, Step], Iterable[Example]]
Adds = Callable[[Example, Step, Count], tuple[int, int] | None]
Shadows = Callable[[tuple[Step, ...]], Iterable[tuple[Step, ...]]]


@dataclass(frozen=True, slots=True)
class Explanation:
    """How a deviation is recognized. :mod:`model.explain` asks, and only if the documents do not allow a step.

    ``explains(state, step, broken)``: what is wrong at once. ``state`` is the one before the step, and ``state.trace``
    the steps before it. If the deviation explains the violation, it returns what the step comes to then: usually
    ``broken.passing()``, which passes over this one check.

    ``alternatives(state, step)``: what the deviation did silently. ``state`` is the one after the step by the
    documents, and ``state.past`` what was before. It yields the states that the deviation may have led to instead.

    ``adds(state, step, wrong)``: how much it adds to a count that is wrong, at least and at most, and less than zero
    where it subtracts. The amounts of several deviations are summed.
    """

    entry: Deviation
    explains: Explains | None = None
    alternatives: Alternatives | None = None
    adds: Adds | None = None
    shadows: Shadows | None = None


def _found(document: Any) -> Iterator[Explanation]:
    for module in pkgutil.iter_modules(document.__path__):
        one = importlib.import_module(f"{document.__name__}.{module.name}")
        yield Explanation(
            one.ENTRY,
            getattr(one, "explains", None),
            getattr(one, "alternatives", None),
            getattr(one, "adds", None),
            getattr(one, "shadows", None),
        )


_BY_DOCUMENT: dict[str, tuple[Explanation, ...]] = {
    package.name: tuple(_found(importlib.import_module(f"{__name__}.{package.name}")))
    for package in pkgutil.iter_modules(__path__)
    if package.ispkg
}


def _breadth(one: Explanation) -> tuple[bool, int]:
    """A cause that breaks more rules is a broader one, and one that needs a setting is less likely."""
    needs_setting = not (one.entry.releases or one.entry.seldom or one.entry.clients)
    return needs_setting, len(one.entry.also)


EXPLANATIONS: dict[str, Explanation] = {
    one.entry.name: one for one in sorted((one for every in _BY_DOCUMENT.values() for one in every), key=_breadth)
}
"""All of them, by name. Of several that explain the same, the first one names it: the narrowest cause."""

BY_DOCUMENT: dict[str, tuple[Deviation, ...]] = {
    document: tuple(one.entry for one in every) for document, every in _BY_DOCUMENT.items()
}

DEVIATIONS: dict[str, Deviation] = {
    deviation.name: deviation for entries in BY_DOCUMENT.values() for deviation in entries
}
"""The entries of all of them, by name."""

_FORMER = {alias: name for name, deviation in DEVIATIONS.items() for alias in deviation.aliases}


def current_name(name: str) -> str:
    """The name that a deviation has now, where ``name`` is one that it had before; any other name as it is."""
    return _FORMER.get(name, name)


def counted(judged: Allowed[S]) -> Allowed[S]:
    """The answer to a whole step, with the checks that only a known deviation passed counted as excused.

    Each deviation excuses one check of its rule, which may have been counted as exercised; and one of each rule that
    breaks with it, if the step exercised that.
    """
    exercised = list(judged.exercised)
    excused = list(judged.excused)
    for name in judged.deviations:
        if name in judged.counted:
            continue
        deviation = DEVIATIONS[name]
        excused += [deviation.rule, *(rule for rule in deviation.also if rule in exercised)]
        for rule in (deviation.rule, *deviation.also):
            if rule in exercised:
                exercised.remove(rule)
    return Allowed(judged.state, tuple(exercised), judged.deviations, tuple(excused))
