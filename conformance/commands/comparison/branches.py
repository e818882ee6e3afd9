"""Since when, and until when: a search over releases, which are branches and not one line, or over builds of one line.

A fix lands on several branches, in 3.0.9 and in 4.0.2, so each branch is searched by itself. Its first and its last
release are tried. If they differ, the change between them is searched by halving; if not, nothing between is tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from conformance.commands.releases import order
from conformance.known.versions import version_in

State = Literal["there", "gone"]
Try = Callable[[str], State | None]
"""Whether a release has it; None: undecided, so its neighbor is tried instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Releases that follow one another and are alike; ``tried``: those that were tried."""

    state: State
    first: str
    last: str
    tried: tuple[str, ...]

    def __str__(self) -> str:
        span = self.first if self.first == self.last else f"{self.first} to {self.last}"
        return f"{self.state} in {span}"


def branch_of(release: str) -> str:
    """The branch of a release, such as 4.0."""
    version = version_in(release)
    return release if version is None else f"{version.major}.{version.minor}"


def branches(releases: Iterable[str]) -> list[tuple[str, list[str]]]:
    """The branches of these releases, the oldest first, with their releases in order."""
    in_order = sorted(dict.fromkeys(releases), key=order)
    return [(branch, list(its)) for branch, its in groupby(in_order, branch_of)]


def search(line: Sequence[str], has: Try) -> list[Interval]:
    """The intervals of a line; those that stay undecided are left out. One change between alike ends is not seen."""
    left = list(line)
    found: dict[str, State] = {}

    def first_told(candidates: Iterable[str]) -> str | None:
        for one in list(candidates):
            if one in found:
                return one
            state = has(one)
            if state is not None:
                found[one] = state
                return one
            left.remove(one)
        return None

    if (low := first_told(left)) is None or (high := first_told(reversed(left))) is None:
        return []
    while found[low] != found[high] and (between := left[left.index(low) + 1 : left.index(high)]):
        nearest = sorted(between, key=lambda one: abs(between.index(one) - len(between) // 2))
        middle = first_told(nearest)
        if middle is None:
            break
        low, high = (middle, high) if found[middle] == found[low] else (low, middle)
    cut = len(left) if found[low] == found[high] else left.index(high)
    return [_interval(part, found) for part in (left[:cut], left[cut:]) if part]


def _interval(part: Sequence[str], found: dict[str, State]) -> Interval:
    tried = tuple(one for one in part if one in found)
    return Interval(state=found[tried[0]], first=part[0], last=part[-1], tried=tried)
