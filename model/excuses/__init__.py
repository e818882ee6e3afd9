"""The deviations that the rules themselves excuse, a module for each document.

Each of them moves to a file of its own in :mod:`model.deviations`, and this package ends with the last one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from model.deviation import Deviation
from model.excuses import chunking, deduplication
from model.judgement import Allowed, Broken

S = TypeVar("S")

BY_DOCUMENT: dict[str, tuple[Deviation, ...]] = {
    "deduplication": deduplication.DEVIATIONS,
    "replication": (),
    "chunking": chunking.DEVIATIONS,
    "cursors": (),
    "key_shared": (),
    "service": (),
}

DEVIATIONS: dict[str, Deviation] = {
    deviation.name: deviation for entries in BY_DOCUMENT.values() for deviation in entries
}
"""All of them, by name."""


def preferred(names: Iterable[str], known: frozenset[str]) -> str:
    """Of several deviations that explain an observation, the first known one, or the first one if none is known."""
    return min(names, key=lambda name: name not in known)


def requires(name: str, after: S, known: frozenset[str], because: str, rule: str | None = None) -> Allowed[S] | Broken:
    """The answer where only this deviation explains what was seen: ``after`` if it is known, else the broken rule.

    ``because``: what was seen, in a sentence. ``rule``: the one that breaks, where it is not the deviation's first one.
    """
    return Allowed(after, (), (name,)) if name in known else DEVIATIONS[name].broken(because, rule)
