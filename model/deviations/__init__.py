"""All deviations that the model knows, a module for each document and one for counts; an entry is :class:`model.deviation.Deviation`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from model.deviation import Deviation
from model.deviations import chunking, counts, cursors, deduplication, key_shared, replication, service
from model.judgement import Allowed, Broken

S = TypeVar("S")

BY_DOCUMENT: dict[str, tuple[Deviation, ...]] = {
    "deduplication": deduplication.DEVIATIONS,
    "replication": replication.DEVIATIONS,
    "chunking": chunking.DEVIATIONS,
    "cursors": cursors.DEVIATIONS,
    "key_shared": key_shared.DEVIATIONS,
    "service": service.DEVIATIONS + counts.DEVIATIONS,
}

DEVIATIONS: dict[str, Deviation] = {
    deviation.name: deviation for entries in BY_DOCUMENT.values() for deviation in entries
}
"""All of them, by name."""

_FORMER = {alias: name for name, deviation in DEVIATIONS.items() for alias in deviation.aliases}


def current_name(name: str) -> str:
    """The name that a deviation has now, where ``name`` is one that it had before; any other name as it is."""
    return _FORMER.get(name, name)


def preferred(names: Iterable[str], known: frozenset[str]) -> str:
    """Of several deviations that explain an observation, the first known one, or the first one if none is known."""
    return min(names, key=lambda name: name not in known)


def requires(name: str, after: S, known: frozenset[str], because: str, rule: str | None = None) -> Allowed[S] | Broken:
    """The answer where only this deviation explains what was seen: ``after`` if it is known, else the broken rule.

    ``because``: what was seen, in a sentence. ``rule``: the one that breaks, where it is not the deviation's first one.
    """
    return Allowed(after, (), (name,)) if name in known else DEVIATIONS[name].broken(because, rule)


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
