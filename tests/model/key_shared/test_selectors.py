"""How hashes are assigned to consumers, and which ones move when that changes."""

from __future__ import annotations

from functools import reduce
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.key_shared.hashes import AUTO_SPLIT_HASHES, CLASSIC_HASHES, HASHES_OF_3_3
from model.key_shared.ranges import Assigned, Moved, joined_up, moves, owner_of, ranges_of
from model.key_shared.selectors import RangesRefused, Ring, assignments_of, claimed, joined, left, without
from model.vocabulary import HashRange

RINGS = (Ring(), Ring(hashes=CLASSIC_HASHES), Ring(hashes=HASHES_OF_3_3), Ring(points=1))


def ring_of(*names: str, ring: Ring = RINGS[0]) -> Ring:
    """A ring whose consumers have these names, and their places in it for ids."""
    return reduce(lambda so_far, one: joined(so_far, str(one[0]), name=one[1]), enumerate(names), ring)


names = st.lists(st.sampled_from("abc"), min_size=1, max_size=6)


@given(names, st.sampled_from(RINGS))
def test_every_hash_belongs_to_exactly_one_consumer(names: list[str], ring: Ring) -> None:
    ring = ring_of(*names, ring=ring)
    pieces = [assigned.hashes for assigned in assignments_of(ring)]
    assert (pieces[0].first, pieces[-1].last) == (ring.hashes.first, ring.hashes.last)
    assert all(one.last + 1 == other.first for one, other in pairwise(pieces))
    assert all(assigned.hashes.first <= assigned.hashes.last for assigned in assignments_of(ring))


@given(names, st.sampled_from(RINGS), st.sampled_from("abcd"))
def test_a_joining_consumer_takes_hashes_and_none_move_between_the_others(
    names: list[str], ring: Ring, name: str
) -> None:
    before = ring_of(*names, ring=ring)
    moved = moves(assignments_of(before), assignments_of(joined(before, "new", name=name)))
    assert {move.has for move in moved} <= {"new"}


@given(names, st.data())
def test_a_leaving_consumer_gives_hashes_and_none_move_between_the_others(
    names: list[str], data: st.DataObject
) -> None:
    before = ring_of(*names)
    leaver = data.draw(st.sampled_from([member.consumer for member in before.members]))
    moved = moves(assignments_of(before), assignments_of(left(before, leaver)))
    assert {move.had for move in moved} <= {leaver}


@given(names, st.data())
def test_a_consumer_that_rejoins_immediately_gets_its_hashes_back(names: list[str], data: st.DataObject) -> None:
    before = ring_of(*names)
    leaver = data.draw(st.sampled_from(before.members))
    again = joined(left(before, leaver.consumer), leaver.consumer, name=leaver.name)
    differing = moves(assignments_of(before), assignments_of(again))
    shared = sum(len(move.hashes) for move in differing)
    assert shared <= len(AUTO_SPLIT_HASHES) // 20, "only points that two consumers share may move"
    assert sorted(again.members, key=str) == sorted(before.members, key=str)


def test_two_consumers_with_one_name_have_similar_shares() -> None:
    assignments = assignments_of(ring_of("a", "a"))
    shares = [sum(len(one) for one in ranges_of(assignments, consumer)) for consumer in "01"]
    assert sum(shares) == len(AUTO_SPLIT_HASHES)
    assert min(shares) > len(AUTO_SPLIT_HASHES) // 4


def test_a_lone_consumer_has_all_hashes() -> None:
    assert assignments_of(Ring()) == ()
    assert assignments_of(ring_of("a")) == (Assigned(AUTO_SPLIT_HASHES, "0"),)


def test_a_consumer_is_on_the_ring_once() -> None:
    with pytest.raises(ValueError, match="0 is on the ring already"):
        joined(ring_of("a"), "0", name="b")


@given(names, names)
def test_moves_lists_exactly_the_hashes_with_a_new_owner(some: list[str], others: list[str]) -> None:
    before, after = assignments_of(ring_of(*some)), assignments_of(ring_of(*others))
    moved = moves(before, after)
    for hashed in range(1, 65536, 97):
        move = next((one for one in moved if hashed in one.hashes), None)
        had, has = owner_of(before, hashed), owner_of(after, hashed)
        assert (move is None) == (had == has)
        assert move is None or (move.had, move.has) == (had, has)


def test_the_hashes_of_the_last_consumer_move_to_nobody() -> None:
    assert moves(assignments_of(ring_of("a")), ()) == (Moved(AUTO_SPLIT_HASHES, "0", None),)


def test_claims_leave_gaps() -> None:
    claims = claimed((), "a", (HashRange(0, 9), HashRange(20, 29)))
    claims = claimed(claims, "b", (HashRange(30, 39),))
    assert [owner_of(claims, hashed) for hashed in (0, 9, 10, 20, 30, 40)] == ["a", "a", None, "a", "b", None]
    assert owner_of(without(claims, "a"), 5) is None
    assert owner_of(without(claims, "a"), 35) == "b"


@pytest.mark.parametrize(
    ("ranges", "because"),
    [
        ((), "c claims no range"),
        ((HashRange(9, 3),), "c claims 9..3, which ends before it begins"),
        ((HashRange(50, 60), HashRange(60, 70)), "c claims both 50..60 and 60..70"),
        ((HashRange(80, 90), HashRange(8, 12)), "c claims 8..12, but a has 0..9"),
        ((HashRange(5, 35),), "c claims 5..35, but a has 0..9"),
        ((HashRange(10, 20),), "c claims 10..20, but b has 20..29"),
    ],
)
def test_invalid_or_overlapping_claims_are_refused(ranges: tuple[HashRange, ...], because: str) -> None:
    claims = claimed(claimed((), "a", (HashRange(0, 9),)), "b", (HashRange(20, 29),))
    with pytest.raises(RangesRefused, match=because):
        claimed(claims, "c", ranges)


def test_adjacent_ranges_of_one_consumer_are_joined() -> None:
    pieces = [Assigned(HashRange(first, last), "a") for first, last in ((1, 3), (4, 6), (8, 9))]
    assert joined_up(pieces) == (Assigned(HashRange(1, 6), "a"), Assigned(HashRange(8, 9), "a"))
