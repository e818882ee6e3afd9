"""What is due on a Key_Shared subscription whose acks may or may not have taken effect."""

from __future__ import annotations

from model.events import Acknowledged, ConsumerRead, Delivery, Done, Sent, Stored
from model.log import Position
from model.operations import Send, Unload
from model.subscription_operations import Acknowledge, CutDuring
from model.vocabulary import Entry, LoseThenCut, Message
from tests.model.key_shared.test_order import ALL, A, B, broken, gathers, joins, permits, sent
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
    assert broken(*begin, gathers(ConsumerRead("d", parts, 0, 9, ALL))) is None
    assert broken(*begin, gathers(ConsumerRead("d", (first,), 0, 9, ALL))) in ("KEY-04", "KEY-13")
