"""A subscription that was deleted stays deleted (SERVE-04)."""

from __future__ import annotations

import pytest

from model.events import Created, CursorRead, Done, MessagePeeked, Opened, Refused, Sent, Stored
from model.judgement import Allowed, Broken
from model.log import Position
from model.operations import CreateTopic, OpenProducer, Send
from model.subscription_operations import CreateSubscription, DeleteSubscription, PeekMessage, ReadCursor
from model.vocabulary import Entry, Message
from tests.verdicts import Happened, judged

FIRST = Position(1, 0)
BEFORE = Position(1, -1)
DELETED: tuple[Happened, ...] = (
    (CreateTopic("t", persistence="every-ack"), Created(deduplication=False, snapshot_room=6)),
    (OpenProducer("p", "t", "p"), Opened(-1)),
    (Send("p", (Entry((Message(1, "b1"),)),)), Sent((Stored(FIRST),))),
    (CreateSubscription("t", "s"), Done()),
    (DeleteSubscription("t", "s"), Done()),
)
NOT_FOUND = Refused("404", "there is no such subscription")
PEEK = PeekMessage("t", "s", 1)
PEEKED: Happened = PEEK, MessagePeeked(FIRST)


def read(backlog: int) -> Happened:
    return ReadCursor("t", "s"), CursorRead(BEFORE, (), backlog=backlog, unacknowledged=0)


def test_a_deleted_subscription_is_there_again_only_by_a_peek() -> None:
    broken = judged(*DELETED, PEEKED)
    assert isinstance(broken, Broken)
    assert (broken.rule, broken.deviation) == ("SERVE-04", "peek-creates-subscription")
    unasked = judged(*DELETED, read(1), known="peek-creates-subscription")
    assert isinstance(unasked, Broken)
    assert (unasked.rule, unasked.deviation) == ("ACK-19", None)


def test_what_a_peek_created_is_a_subscription_at_the_earliest_message() -> None:
    again = judged(*DELETED, PEEKED, read(1), known="peek-creates-subscription")
    assert isinstance(again, Allowed)
    assert isinstance(judged(*DELETED, PEEKED, read(0), known="peek-creates-subscription"), Broken)


@pytest.mark.parametrize("outcome", [MessagePeeked(None), NOT_FOUND])
def test_a_peek_that_finds_nothing_may_have_created_it_only_where_that_is_known(
    outcome: MessagePeeked | Refused,
) -> None:
    assert isinstance(judged(*DELETED, (PEEK, outcome)), Allowed)
    assert isinstance(judged(*DELETED, (PEEK, outcome), read(1), known="peek-creates-subscription"), Allowed)
    assert isinstance(judged(*DELETED, (PEEK, outcome), read(1)), Broken)
