"""Chooses which of very many cases to keep, so that a noisy one hides no other.

A case has a *path*, from the widest to the narrowest it belongs to: its run, the fault before it, its topic, and why.
Of the same path a few are kept. Where there is room for no more, a case takes the place of one from the most crowded
part of what is kept, if its own part has fewer.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeAlias, TypeVar

OF_A_PATH_AT_MOST = 3

T = TypeVar("T")

Path: TypeAlias = tuple[str, ...]
"""All the paths of a sample have the same length."""


class Sample(Generic[T]):
    """Some of many cases: a few of each path, and ``at_most`` in all."""

    def __init__(self, at_most: int) -> None:
        self._at_most = at_most
        self._kept: dict[Path, list[T]] = defaultdict(list)
        self._sizes: Counter[Path] = Counter()

    def offer(self, path: Path, make: Callable[[], T]) -> None:
        """Keep a case, which is only made then, if there is room for it."""
        if self._sizes[path] >= OF_A_PATH_AT_MOST:
            return
        if self._sizes[()] >= self._at_most:
            crowded = self._crowded(path)
            if crowded is None:
                return
            self._kept[crowded].pop()
            self._count(crowded, -1)
        self._kept[path].append(make())
        self._count(path, 1)

    def __iter__(self) -> Iterator[T]:
        """Those kept, runs, faults and topics in turn, so that the first few differ as much as can be."""
        return iter(_in_turn([(path, cases) for path, cases in self._kept.items() if cases], 0))

    def _count(self, path: Path, number: int) -> None:
        for length in range(len(path) + 1):
            self._sizes[path[:length]] += number
            if not self._sizes[path[:length]]:
                del self._sizes[path[:length]]

    def _crowded(self, path: Path) -> Path | None:
        """A path that has one to spare for the other; None where the other's parts have as many as any."""
        for length in range(1, len(path) + 1):
            most = self._largest(path[: length - 1])
            if self._sizes[most] > self._sizes[path[:length]] + 1:
                while len(most) < len(path):
                    most = self._largest(most)
                return most
            if path[:length] not in self._sizes:
                return None
        return None

    def _largest(self, part: Path) -> Path:
        """What has the most cases directly within a part."""
        length = len(part)
        within = (path for path in self._sizes if len(path) == length + 1 and path[:length] == part)
        return max(within, key=lambda path: self._sizes[path])


def _in_turn(kept: list[tuple[Path, list[T]]], depth: int) -> list[T]:
    """The cases of these paths, one of each part in turn, and within a part the same."""
    if not kept or depth == len(kept[0][0]):
        return [case for _, cases in kept for case in cases]
    parts: dict[str, list[tuple[Path, list[T]]]] = defaultdict(list)
    for path, cases in kept:
        parts[path[depth]].append((path, cases))
    return list(alternating(_in_turn(part, depth + 1) for part in parts.values()))


def alternating(lists: Iterable[Iterable[T]]) -> Iterator[T]:
    """The first of each list, then the second of each."""
    nothing = object()
    for told in itertools.zip_longest(*lists, fillvalue=nothing):
        yield from (one for one in told if one is not nothing)  # type: ignore[misc]
