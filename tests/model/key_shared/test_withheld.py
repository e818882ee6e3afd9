"""A Key_Shared subscription that is blocked by its limit on unacknowledged messages owes nothing, and owes it later."""

from __future__ import annotations

from msgspec.structs import replace

from model.key_shared.hashes import CLASSIC_HASHES
from model.log import Position
from model.vocabulary import Withheld
from tests.model.key_shared.test_order import (
    ALL,
    A,
    B,
    acknowledges,
    broken,
    classic,
    gathers,
    joins,
    more,
    permits,
    sent,
    share,
)
from tests.verdicts import Happened


def blocked(gathered: Happened, unacknowledged: int) -> Happened:
    """The same, if the broker says that so many unacknowledged messages block the subscription."""
    operation, outcome = gathered[:2]
    return operation, replace(outcome, withheld=Withheld(unacknowledged))


def limited(*happened: Happened, limit: int = 2) -> list[Happened]:
    """The same on a topic whose subscriptions may have so many unacknowledged messages."""
    (create, created, *_), *rest = happened
    return [(create, replace(created, unacknowledged_in_all=limit)), *rest]


def test_what_a_blocked_subscription_does_not_send_is_not_missed_until_it_is_unblocked() -> None:
    begin = [*limited(*sent(A, B, A)), *joins("c")]
    full = gathers(share("c", 1, 2, ranges=ALL, permits=1))
    assert broken(*begin, full) == "KEY-13"
    assert broken(*begin, blocked(full, 2)) is None
    unblocked = [*begin, blocked(full, 2), acknowledges("c", 1, 2)]
    assert broken(*unblocked, gathers(share("c", ranges=ALL, permits=1))) == "KEY-13"
    assert broken(*unblocked, gathers(share("c", 3, ranges=ALL))) is None


def test_a_blocked_subscription_gets_no_message_that_was_sent_since() -> None:
    begin = [*limited(*sent(A, B)), *joins("c"), blocked(gathers(share("c", 1, 2, ranges=ALL)), 2)]
    later = [*begin, more(Position(1, 2), 3, A), permits("c")]
    assert broken(*later, gathers(share("c", 3, ranges=ALL))) == "SERVE-05"
    assert broken(*later, blocked(gathers(share("c", ranges=ALL, permits=1)), 2)) is None


def test_a_key_shared_subscription_is_not_blocked_without_a_reason() -> None:
    first = gathers(share("c", 1, ranges=ALL, permits=1))
    assert broken(*sent(A, B), *joins("c"), blocked(first, 1)) == "SERVE-05"
    assert broken(*limited(*sent(A, B), limit=4), *joins("c"), blocked(first, 1)) == "SERVE-05"


def test_with_the_classic_implementation_a_blocked_subscription_owes_nothing_either() -> None:
    begin = [*limited(*classic(A, A, A)), *joins("c")]
    full = gathers(share("c", 1, 2, ranges=(CLASSIC_HASHES,), permits=1))
    assert broken(*begin, full) == "KEY-16"
    assert broken(*begin, blocked(full, 2)) is None
    unblocked = [*begin, blocked(full, 2), acknowledges("c", 1, 2)]
    assert broken(*unblocked, gathers(share("c", ranges=(CLASSIC_HASHES,), permits=1))) == "KEY-16"
