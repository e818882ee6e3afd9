"""How hashes are given to consumers: split among them by consistent hashing, or claimed by them (document 004).

*AUTO_SPLIT*: every consumer has as many points on a ring of hashes as is configured; a hash belongs to the consumer of
the next point. A point depends on the consumer's name, on which of its name it is, and on the point's number; so one
that comes back gets the same points, and two of one name get different ones. *STICKY*: every consumer claims ranges
for itself; claims that overlap are refused, and what nobody claims is nobody's.

Consumers are told apart by an id of the caller's, because names may be shared. Not here: the broker's other way to
split, by halving the largest range, which is not its default.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import count, pairwise

from msgspec import Struct
from msgspec.structs import replace

from model.key_shared.hashing import AUTO_SPLIT_HASHES, sticky_hash
from model.key_shared.ranges import Assigned, Assignments, joined_up
from model.rules.catalogue import carries
from model.vocabulary import HashRange

REPLICA_POINTS = 100
"""How many points a consumer has on the ring, by default."""


class RangesRefused(Exception):
    """A consumer may not claim these ranges; ``str()`` of it is one sentence."""


class Member(Struct, frozen=True, gc=False):
    """A consumer on the ring: its id, its name, and which one of its name it is, from 0."""

    consumer: str
    name: str
    index: int


class Ring(Struct, frozen=True, kw_only=True, cache_hash=True, gc=False):
    """The hashes split among consumers, in the order in which they joined: of two with one point, the older has it."""

    members: tuple[Member, ...] = ()
    points: int = REPLICA_POINTS
    hashes: HashRange = AUTO_SPLIT_HASHES


def joined(ring: Ring, consumer: str, *, name: str) -> Ring:
    """The ring with one more consumer, which is the first of its name that is free; ValueError if it is there."""
    if any(member.consumer == consumer for member in ring.members):
        raise ValueError(f"{consumer} is on the ring already")
    taken = {member.index for member in ring.members if member.name == name}
    index = next(one for one in count() if one not in taken)
    return replace(ring, members=(*ring.members, Member(consumer, name, index)))


def left(ring: Ring, consumer: str) -> Ring:
    """The ring without this consumer."""
    return replace(ring, members=tuple(member for member in ring.members if member.consumer != consumer))


@carries("KEY-12")
def assignments_of(ring: Ring) -> Assignments:
    """Who has which hashes: together all of them, none twice (KEY-12); nothing when there is no consumer."""
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
    """What consumers claimed, with the claims of one more.

    Raises :class:`RangesRefused` for no range, for one that ends before it begins, and for ranges that overlap one
    another or what others claimed.
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
    """What consumers claimed, without the claims of one that left."""
    return tuple(assigned for assigned in assignments if assigned.consumer != consumer)
