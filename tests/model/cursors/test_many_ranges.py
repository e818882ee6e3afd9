"""Thousands of ranges in one cursor: what an acknowledgment looks at is as little as where there are ten.

Times are measured by ``tests/quality/ranges.py``; here looks are counted, without a clock.
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
from tests.quality.ranges import KEY, acknowledged, every_other, gaps, log_of, subscribed


@dataclass(slots=True)
class Looks:
    """How often something was looked at."""

    count: int = 0


class Key:
    """A key that counts how often its hash is asked for, of all keys together."""

    asked: ClassVar[int] = 0

    def __init__(self, number: int) -> None:
        self.number = number

    def __hash__(self) -> int:
        Key.asked += 1
        return self.number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Key) and other.number == self.number


def looks_of_one_acknowledgment(ranges: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many entries the judgement of an acknowledgment looks at, in the middle of so many ranges."""
    log = log_of(2 * ranges)
    example = subscribed(log)
    for position in every_other(log, ranges):
        example = acknowledged(example, log, position, 0.0)
    hole = gaps(log, ranges)[0]
    looks = Looks()
    has, after, size = Acked.has, TopicLog.after, TopicLog.size

    def counted_has(self: Acked, position: Position) -> bool:
        looks.count += 1
        return has(self, position)

    def counted_after(self: TopicLog, position: Position) -> Position | None:
        looks.count += 1
        return after(self, position)

    def counted_size(self: TopicLog, position: Position) -> int:
        looks.count += 1
        return size(self, position)

    with monkeypatch.context() as patched:
        patched.setattr(Acked, "has", counted_has)
        patched.setattr(TopicLog, "after", counted_after)
        patched.setattr(TopicLog, "size", counted_size)
        example = acknowledged(example, log, hole, 1.0)
    (state,) = example.consumption.cursors[KEY].possible
    assert state.has(hole)
    assert (KEY[0], Place(hole)) not in example.consumption.consumers["c"].outstanding
    return looks.count


def test_an_acknowledgment_among_many_ranges_looks_at_no_more_than_among_few(monkeypatch: pytest.MonkeyPatch) -> None:
    few = looks_of_one_acknowledgment(10, monkeypatch)
    assert 0 < few == looks_of_one_acknowledgment(2_000, monkeypatch)


def test_a_change_of_many_bit_sets_asks_for_the_hash_of_what_changes_only() -> None:
    nothing: Bits[Key] = Bits()
    before = nothing.put((Key(number), 1) for number in range(5_000))
    Key.asked = 0
    after = before.put([(Key(2_500), 3)])
    assert hash(after) != hash(before)
    assert after != before
    assert Key.asked < 20


def test_bit_sets_are_equal_however_they_came_to_be() -> None:
    nothing: Bits[int] = Bits()
    forwards = nothing.put((number, 1 << number) for number in range(50))
    backwards = nothing.put((number, 7) for number in range(60)).put((n, 1 << n) for n in reversed(range(60)))
    backwards = backwards.put((number, 0) for number in range(50, 60))
    assert forwards == backwards
    assert hash(forwards) == hash(backwards)
    assert (55 in backwards, backwards[55], len(backwards)) == (False, 0, 50)


def test_a_row_is_like_a_tuple_and_is_not_changed_by_what_comes_after() -> None:
    first = Row.of("a", "b")
    longer = first.then("c")
    assert (tuple(first), tuple(longer), longer[2], len(longer)) == (("a", "b"), ("a", "b", "c"), "c", 3)
    assert longer == Row.of("a", "b", "c")
