"""Thousands of ranges in one cursor: judging an ack costs no more than with ten.

``tests/quality/ranges.py`` measures times; these tests count look-ups, without a clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest

from model.cursors.acked import Acked
from model.cursors.bits import Bits
from model.cursors.log import Place, TopicLog
from model.cursors.row import Row
from model.log import Position
from tests.quality.ranges import SUBSCRIPTION_ID, acknowledged, every_other, gaps, log_of, subscribed


@dataclass(slots=True)
class Lookups:
    """How many look-ups were made."""

    count: int = 0


class Key:
    """A key that counts how often any key is hashed."""

    asked: ClassVar[int] = 0

    def __init__(self, number: int) -> None:
        self.number = number

    def __hash__(self) -> int:
        Key.asked += 1
        return self.number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Key) and other.number == self.number


def lookups_of_one_ack(ranges: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many entries are looked up to judge one ack in the middle of this many ranges."""
    log = log_of(2 * ranges)
    example = subscribed(log)
    for position in every_other(log, ranges):
        example = acknowledged(example, log, position, 0.0)
    hole = gaps(log, ranges)[0]
    lookups = Lookups()
    has, after, size = Acked.has, TopicLog.after, TopicLog.size

    def counted_has(self: Acked, position: Position) -> bool:
        lookups.count += 1
        return has(self, position)

    def counted_after(self: TopicLog, position: Position) -> Position | None:
        lookups.count += 1
        return after(self, position)

    def counted_size(self: TopicLog, position: Position) -> int:
        lookups.count += 1
        return size(self, position)

    with monkeypatch.context() as patched:
        patched.setattr(Acked, "has", counted_has)
        patched.setattr(TopicLog, "after", counted_after)
        patched.setattr(TopicLog, "size", counted_size)
        example = acknowledged(example, log, hole, 1.0)
    (state,) = example.consumption.cursors[SUBSCRIPTION_ID].possible
    assert state.has(hole)
    assert (SUBSCRIPTION_ID.topic, Place(hole)) not in example.consumption.consumers["c"].unacknowledged
    return lookups.count


def test_an_ack_among_many_ranges_costs_no_more_than_among_few(monkeypatch: pytest.MonkeyPatch) -> None:
    few = lookups_of_one_ack(10, monkeypatch)
    assert 0 < few == lookups_of_one_ack(2_000, monkeypatch)


def test_a_change_of_many_bit_sets_hashes_only_the_changed_keys() -> None:
    nothing: Bits[Key] = Bits()
    before = nothing.put((Key(number), 1) for number in range(5_000))
    Key.asked = 0
    after = before.put([(Key(2_500), 3)])
    assert hash(after) != hash(before)
    assert after != before
    assert Key.asked < 20


def test_equal_bit_sets_are_equal_whatever_their_past() -> None:
    nothing: Bits[int] = Bits()
    forwards = nothing.put((number, 1 << number) for number in range(50))
    backwards = nothing.put((number, 7) for number in range(60)).put((n, 1 << n) for n in reversed(range(60)))
    backwards = backwards.put((number, 0) for number in range(50, 60))
    assert forwards == backwards
    assert hash(forwards) == hash(backwards)
    assert (55 in backwards, backwards[55], len(backwards)) == (False, 0, 50)


def test_a_row_is_like_a_tuple_and_appending_leaves_it_unchanged() -> None:
    first = Row.of("a", "b")
    longer = first.then("c")
    assert (tuple(first), tuple(longer), longer[2], len(longer)) == (("a", "b"), ("a", "b", "c"), "c", 3)
    assert longer == Row.of("a", "b", "c")
