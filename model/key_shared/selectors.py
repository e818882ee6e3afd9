"""Selectors: they assign hashes to consumers by consistent hashing, or as consumers claim them (document 004).

*AUTO_SPLIT*: every consumer has the configured number of points on a ring of hashes. A hash belongs to the consumer of
the next point. A point depends on the consumer's name, its index among consumers of that name, and the point's number.
So a consumer that reconnects has the same points, and two consumers of one name have different points. *STICKY*: every
consumer claims ranges. Overlapping claims are refused, and a hash that no consumer claims has no owner.

Consumers have an id of the caller's, because names may be shared. Not modelled: the broker's other selector, which
halves the largest range and is not the default.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import count, pairwise

from msgspec import Struct
from msgspec.structs import replace

from model.key_shared.hashes import AUTO_SPLIT_HASHES, sticky_hash
from model.key_shared.ranges import Assigned, Assignments, joined_up
from model.rules.catalogue import carries
from model.vocabulary import HashRange

REPLICA_POINTS = 100
"""How many points a consumer has on the ring, by default."""


class RangesRefused(Exception):
    """A consumer may not claim these ranges; the message is one sentence."""


class RingMember(Struct, frozen=True, gc=False):
    """A consumer on the ring: its id, its name, and its index among consumers of that name, from 0."""

    consumer: str
    name: str
    index: int


class Ring(Struct, frozen=True, kw_only=True, cache_hash=True, gc=False):
    """The ring of consumers, in the order in which they joined. If two have one point, it belongs to the older."""

    members: tuple[RingMember, ...] = ()
    points: int = REPLICA_POINTS
    hashes: HashRange = AUTO_SPLIT_HASHES


def joined(ring: Ring, consumer: str, *, name: str) -> Ring:
    """The ring with one more consumer, with the first free index of its name; ValueError if it is on the ring."""
    if any(member.consumer == consumer for member in ring.members):
        raise ValueError(f"{consumer} is on the ring already")
    taken = {member.index for member in ring.members if member.name == name}
    index = next(one for one in count() if one not in taken)
    return replace(ring, members=(*ring.members, RingMember(consumer, name, index)))


def left(ring: Ring, consumer: str) -> Ring:
    """The ring without this consumer."""
    return replace(ring, members=tuple(member for member in ring.members if member.consumer != consumer))


@carries("KEY-12")
def assignments_of(ring: Ring) -> Assignments:
    """The assignment of all hashes, without overlaps (KEY-12); empty without consumers."""
    at: dict[int, str] = {}
    for member in ring.members:
        for point in _points(member.name, member.index, ring.points, ring.hashes):
            at.setdefault(point, member.consumer)
    if not at:
        return ()
    pieces: list[Assigned] = []
    first = ring.hashes.first
    for point in sorted(at):
        pieces.append(Assigned(HashRange(first, point), at[point]))
        first = point + 1
    if first <= ring.hashes.last:
        pieces.append(Assigned(HashRange(first, ring.hashes.last), at[min(at)]))
    return joined_up(pieces)


@lru_cache(maxsize=1024)
def _points(name: str, index: int, points: int, hashes: HashRange) -> tuple[int, ...]:
    return tuple(sticky_hash(f"{name}\0{index}\0{point}".encode(), hashes) for point in range(points))


@carries("KEY-03")
def claimed(assignments: Assignments, consumer: str, ranges: tuple[HashRange, ...]) -> Assignments:
    """The claims of consumers, with those of one more.

    Raises :class:`RangesRefused` for an empty claim, for a range that ends before it begins, and for ranges that
    overlap each other or other claims.
    """
    if not ranges:
        raise RangesRefused(f"{consumer} claims no range")
    for claim in ranges:
        if claim.first > claim.last:
            raise RangesRefused(f"{consumer} claims {claim}, which ends before it begins")
        taken = next((other for other in assignments if other.hashes.overlaps(claim)), None)
        if taken is not None:
            raise RangesRefused(f"{consumer} claims {claim}, but {taken.consumer} has {taken.hashes}")
    ordered = sorted(ranges)
    for one, other in pairwise(ordered):
        if one.overlaps(other):
            raise RangesRefused(f"{consumer} claims both {one} and {other}")
    pieces = (*assignments, *(Assigned(claim, consumer) for claim in ranges))
    return joined_up(sorted(pieces, key=lambda assigned: assigned.hashes))


def without(assignments: Assignments, consumer: str) -> Assignments:
    return tuple(assigned for assigned in assignments if assigned.consumer != consumer)
