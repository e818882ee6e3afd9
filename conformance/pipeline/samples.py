"""Keeps a sample of very many cases, so that frequent ones hide no rare one.

A case has a *path* from wide to narrow: its run, the fault before it, its topic, its reason. The sample has a few cases
of each path. If it is full, a new case replaces one of the most crowded part, provided that its own part has fewer.
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
        """Make and keep a case, if there is room for it."""
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
        """The kept cases, alternating between runs, faults and topics, so that the first few differ most."""
        return iter(_in_turn([(path, cases) for path, cases in self._kept.items() if cases], 0))

    def _count(self, path: Path, number: int) -> None:
        for length in range(len(path) + 1):
            self._sizes[path[:length]] += number
            if not self._sizes[path[:length]]:
                del self._sizes[path[:length]]

    def _crowded(self, path: Path) -> Path | None:
        """A path that can give up a case for the other one; None if all parts of the other one have as few."""
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
        """The largest direct part of a part."""
        length = len(part)
        within = (path for path in self._sizes if len(path) == length + 1 and path[:length] == part)
        return max(within, key=lambda path: self._sizes[path])


def _in_turn(kept: list[tuple[Path, list[T]]], depth: int) -> list[T]:
    """The cases of these paths, one of each part in turn, at every depth."""
    if not kept or depth == len(kept[0][0]):
        return [case for _, cases in kept for case in cases]
    parts: dict[str, list[tuple[Path, list[T]]]] = defaultdict(list)
    for path, cases in kept:
        parts[path[depth]].append((path, cases))
    return list(alternating(_in_turn(part, depth + 1) for part in parts.values()))


def alternating(lists: Iterable[Iterable[T]]) -> Iterator[T]:
    """The first of each list, then the second of each."""
    nothing = object()
    for row in itertools.zip_longest(*lists, fillvalue=nothing):
        yield from (one for one in row if one is not nothing)  # type: ignore[misc]
