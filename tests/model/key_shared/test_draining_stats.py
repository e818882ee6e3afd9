"""What is found in the stats of draining hashes beside the deviations that miscount them."""

from __future__ import annotations

import pytest

from model.deviations import DEVIATIONS
from model.events import DrainingHash
from model.log import Position
from tests.model.key_shared.test_order import (
    ALL,
    HASH_A,
    NONE,
    A,
    B,
    acknowledges,
    broken,
    gathers,
    joins,
    leaves,
    more,
    permits,
    sent,
    share,
)
from tests.verdicts import Happened, deviates


def of_a(count: int) -> tuple[DrainingHash, ...]:
    """Hash A is shown as draining, with so many pending messages."""
    return (DrainingHash(HASH_A, count, 0),)


def at_e(count: int, *got: int, permits: int = 0) -> Happened:
    """Hash A is in the ranges of ``e``, and is shown as draining at ``c``."""
    return gathers(share("c", ranges=NONE, draining=of_a(count)), share("e", *got, ranges=ALL, permits=permits))


def moved_back() -> list[Happened]:
    """Hash A moved to ``d`` while ``c`` had two messages of it, and returned."""
    away = gathers(share("c", 1, 2, ranges=NONE, draining=of_a(2)), share("d", ranges=ALL))
    return [*sent(A, A, A, B), *joins("c", "d"), away, leaves("d")]


def test_a_hash_that_moved_away_again_has_twice_its_pending_messages_and_is_blocked_for_others_only() -> None:
    begin = [*moved_back(), gathers(share("c", ranges=ALL, draining=of_a(2))), *joins("e")]
    assert deviates("draining-refcount-doubled", *begin, at_e(4))
    for part in (3, 5):
        assert broken(*begin, at_e(part), known=DEVIATIONS) == "KEY-11", "all or none are counted again"
    assert broken(*begin, permits("e"), at_e(3, 4), known=DEVIATIONS) == "KEY-11"
    assert broken(*begin, at_e(4), acknowledges("c", 1), at_e(3), known=DEVIATIONS) is None
    assert broken(*begin, at_e(4), acknowledges("c", 1), at_e(4), known=DEVIATIONS) == "KEY-11", "an ack counts"
    stuck = [*begin, at_e(4), acknowledges("c", 1, 2), at_e(2, 4, permits=1)]
    assert broken(*stuck, known=DEVIATIONS) is None, "it never drains"
    returned = [*stuck, acknowledges("e", 4), leaves("e"), permits("c")]
    blocked = gathers(share("c", ranges=ALL, permits=1, draining=of_a(2)))
    assert broken(*returned, blocked, known=DEVIATIONS) == "KEY-13", "it belongs to c"
    right_again = [*returned, gathers(share("c", 3, ranges=ALL)), *joins("f")]
    wrong = gathers(share("c", ranges=NONE, draining=of_a(3)), share("f", ranges=ALL))
    assert broken(*right_again, wrong, known=DEVIATIONS) == "KEY-11", "the dispatch ended the count"


def test_a_hash_may_move_away_and_back_and_away_again_between_two_looks() -> None:
    one = [*sent(A, A), *joins("c"), gathers(share("c", 1, 2, ranges=ALL))]
    doubled = gathers(share("c", ranges=NONE, draining=of_a(4)), share("e", ranges=ALL))
    assert deviates("draining-refcount-doubled", *one, *joins("d"), leaves("d"), *joins("e"), doubled)
    assert broken(*one, *joins("e"), doubled, known=DEVIATIONS) == "KEY-11", "nobody left"


@pytest.mark.parametrize("lingers", [False, True])
def test_only_a_hash_that_returned_and_was_dispatched_may_be_missing_from_the_cleared_total(lingers: bool) -> None:
    """It may have lingered in the stats after it returned."""
    begin = [*moved_back(), *([gathers(share("c", ranges=ALL, draining=of_a(2)))] if lingers else [])]
    dispatched = gathers(share("c", 3, 4, ranges=ALL))
    assert deviates("returned-hash-not-in-cleared-total", *begin, dispatched)
    drained = [*begin, acknowledges("c", 1, 2)]
    assert broken(*drained, gathers(share("c", ranges=ALL)), known=DEVIATIONS) == "KEY-11", "it drained"
    assert broken(*drained, gathers(share("c", ranges=ALL, cleared=1)), known=DEVIATIONS) is None


def test_an_uncounted_hash_is_shown_with_the_count_of_the_consumer_where_it_drains() -> None:
    away = gathers(share("c", 1, ranges=NONE, draining=of_a(1)), share("d", ranges=ALL))
    uncounted = [*sent(A, A), *joins("c", "d"), away, leaves("d"), gathers(share("c", 2, ranges=ALL))]
    of_e = [acknowledges("c", 1, 2), *joins("e"), more(Position(1, 2), 3, A)]
    taken = gathers(share("c", ranges=NONE), share("e", 3, ranges=ALL))
    begin = [*uncounted, *of_e, taken, *joins("f"), more(Position(1, 3), 4, A)]

    def both(at_c: int, *got: int) -> Happened:
        c, e = share("c", ranges=NONE, draining=of_a(at_c)), share("e", ranges=NONE, draining=of_a(1))
        return gathers(c, e, share("f", *got, ranges=ALL, permits=1))

    assert broken(*begin, both(1), known=DEVIATIONS) is None
    assert broken(*begin, both(2), known=DEVIATIONS) == "KEY-11"
    drained = gathers(share("c", ranges=NONE), share("e", ranges=NONE, cleared=1), share("f", ranges=ALL, permits=1))
    assert broken(*begin, both(1), acknowledges("e", 3), drained, known=DEVIATIONS) == "KEY-05", "it has drained"


def test_a_hash_is_on_the_list_of_a_consumer_only_until_it_is_cleared_there() -> None:
    away = gathers(share("c", 1, ranges=NONE, draining=of_a(1)), share("d", ranges=ALL))
    uncounted = [*sent(A, A), *joins("c", "d"), away, leaves("d"), gathers(share("c", 2, ranges=ALL)), *joins("e")]
    cleared = share("c", ranges=NONE, cleared=1)
    drained = [*uncounted, at_e(2), acknowledges("c", 1, 2), gathers(cleared, share("e", ranges=ALL))]
    begin = [*drained, more(Position(1, 2), 3, A), gathers(cleared, share("e", 3, ranges=ALL)), *joins("f")]
    of_e = share("e", ranges=NONE, draining=of_a(1))
    assert broken(*begin, gathers(cleared, of_e, share("f", ranges=ALL)), known=DEVIATIONS) is None
    listed = share("c", ranges=NONE, draining=of_a(1), cleared=1)
    assert broken(*begin, gathers(listed, of_e, share("f", ranges=ALL)), known=DEVIATIONS) == "KEY-11"
