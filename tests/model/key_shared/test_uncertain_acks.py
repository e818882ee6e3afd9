"""What is due on a Key_Shared subscription whose acks may or may not have taken effect."""

from __future__ import annotations

from model.events import Acknowledged, ConsumerRead, Delivery, Done, DrainingHash, Sent, Stored
from model.log import Position
from model.operations import Send, Unload
from model.subscription_operations import Acknowledge, CutDuring, Skip
from model.vocabulary import Entry, LoseThenCut, Message
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
    permits,
    sent,
    share,
)
from tests.verdicts import Happened


def test_a_message_is_not_due_where_a_deviation_may_have_kept_its_ack() -> None:
    """An ack that got no receipt may have taken effect. By a deviation, its part of a batch is lost in the unload."""
    single, batch = Entry((Message(1, "1", B),)), Entry((Message(2, "2", A), Message(3, "3", A)))
    first = Delivery(Position(1, 0), -1, 0, "1")
    parts = Delivery(Position(1, 1), 0, 2, "2"), Delivery(Position(1, 1), 1, 2, "3")
    begin: list[Happened] = [
        *sent()[:3],
        (Send("p", (single, batch)), Sent((Stored(Position(1, 0)), Stored(Position(1, 1))))),
        *joins("c"),
        gathers(ConsumerRead("c", (first, *parts), 0, 0, None)),
        (
            CutDuring(Acknowledge("c", (0, 2)), LoseThenCut("ACK_RESPONSE")),
            Acknowledged((first, parts[1]), receipt=False),
        ),
        (Unload("t"), Done()),
        *joins("d"),
        permits("d"),
    ]
    assert broken(*begin, gathers(ConsumerRead("d", (first, *parts), 0, 9, ALL))) is None
    known = "batch-index-acks-not-recovered"
    assert broken(*begin, gathers(ConsumerRead("d", parts, 0, 9, ALL)), known=known) is None
    assert broken(*begin, gathers(ConsumerRead("d", parts, 0, 9, ALL))) == "ACK-10", "and has its name"
    assert broken(*begin, gathers(ConsumerRead("d", (first,), 0, 9, ALL))) in ("KEY-04", "KEY-13")


def test_a_draining_hash_is_not_judged_whose_message_a_skip_may_have_passed_by_a_deviation() -> None:
    """A skip of two passes 1 and 3. By a deviation of other releases it counts both ranges, and so passes 4."""
    begin = [*sent(B, B, B, A, B), *joins("c"), gathers(share("c", 1, 2, 3, 4, 5, ranges=ALL)), acknowledges("c", 2, 5)]
    drains = gathers(share("c", ranges=NONE, draining=(DrainingHash(HASH_A, 1, 0),)), share("d", ranges=ALL))
    assert broken(*begin, (Skip("t", "s", 2), Done()), *joins("d"), drains) is None
    assert broken(*begin, *joins("d"), drains) == "KEY-11", "hash B drains, too"
