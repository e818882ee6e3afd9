"""Ranges of hashes and their consumers, in order, and the hashes that a change reassigns.

A hash in no range has no consumer (a gap). :mod:`model.key_shared.selectors` assigns the ranges.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from itertools import pairwise

from msgspec import Struct

from model.rules.catalogue import carries
from model.vocabulary import HashRange


class Assigned(Struct, frozen=True, gc=False):
    hashes: HashRange
    consumer: str


class Moved(Struct, frozen=True, gc=False):
    """A range of hashes that another consumer has now; None for nobody."""

    hashes: HashRange
    had: str | None
    has: str | None


Assignments = tuple[Assigned, ...]
"""Ranges that do not overlap, in order, no two neighbours of one consumer."""


def owner_of(assignments: Assignments, hashed: int) -> str | None:
    """The consumer that has this hash; None in a gap."""
    at = bisect_right(assignments, hashed, key=lambda assigned: assigned.hashes.first) - 1
    return assignments[at].consumer if at >= 0 and hashed in assignments[at].hashes else None


def ranges_of(assignments: Assignments, consumer: str) -> tuple[HashRange, ...]:
    return tuple(assigned.hashes for assigned in assignments if assigned.consumer == consumer)


def joined_up(pieces: Iterable[Assigned]) -> Assignments:
    """The same ranges with adjacent ones of a consumer merged. ``pieces`` do not overlap and are in order."""
    whole: list[Assigned] = []
    for piece in pieces:
        last = whole[-1] if whole else None
        if last is not None and last.consumer == piece.consumer and last.hashes.last + 1 == piece.hashes.first:
            whole[-1] = Assigned(HashRange(last.hashes.first, piece.hashes.last), piece.consumer)
        else:
            whole.append(piece)
    return tuple(whole)


@carries("KEY-03")
def moves(before: Assignments, after: Assignments) -> tuple[Moved, ...]:
    """The hashes that a change of the ranges reassigns, in order. Only these may drain (KEY-03)."""
    edges = sorted(
        {edge for assigned in (*before, *after) for edge in (assigned.hashes.first, assigned.hashes.last + 1)}
    )
    moved: list[Moved] = []
    for first, end in pairwise(edges):
        had, has = owner_of(before, first), owner_of(after, first)
        last = moved[-1] if moved else None
        if had == has:
            continue
        if last is not None and (last.had, last.has, last.hashes.last + 1) == (had, has, first):
            moved[-1] = Moved(HashRange(last.hashes.first, end - 1), had, has)
        else:
            moved.append(Moved(HashRange(first, end - 1), had, has))
    return tuple(moved)
