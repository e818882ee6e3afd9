"""A pulsar-client that acknowledges what is nacked by its id. The cursor shows it."""

from __future__ import annotations

from model.events import (
    Created,
    CursorRead,
    Done,
    Opened,
    ReceivedMessages,
    RedeliveryRequested,
    Sent,
    Stored,
    Subscribed,
)
from model.judgement import Allowed
from model.log import Position
from model.operations import CreateTopic, OpenProducer, Send
from model.subscription_operations import CreateSubscription, Nack, ReadCursor, Receive, Subscribe
from model.traffic import Delivery
from model.vocabulary import Entry, Message
from tests.verdicts import Happened, broken_by, judged

NAME = "nack-of-message-id-acknowledges"
FIRST, SECOND = (Delivery(Position(1, number), -1, 0, f"b{number}", 0) for number in (0, 1))
BEGUN: tuple[Happened, ...] = (
    (CreateTopic("t", persistence="every-ack"), Created(deduplication=False, snapshot_room=6)),
    (OpenProducer("p", "t", "p"), Opened(-1)),
    (CreateSubscription("t", "s"), Done()),
    (
        Send("p", tuple(Entry((Message(number + 1, f"b{number}"),)) for number in (0, 1))),
        Sent((Stored(Position(1, 0)), Stored(Position(1, 1)))),
    ),
    (Subscribe("c", "t", "s", kind="Shared", client="official", queue=10), Subscribed()),
    (Receive("c", 2), ReceivedMessages((FIRST, SECOND), settled=True)),
    (Nack("c", (0,)), RedeliveryRequested((FIRST,))),
)


def reads(mark_delete: int, backlog: int) -> Happened:
    return ReadCursor("t", "s"), CursorRead(Position(1, mark_delete), (), backlog, 0)


def test_a_nack_that_acknowledges_explains_no_other_ack_and_no_missing_request() -> None:
    assert isinstance(judged(*BEGUN, reads(-1, 2)), Allowed)
    lost = broken_by(*BEGUN, reads(0, 1))
    assert (lost.rule, lost.deviation, lost.side) == ("CHUNK-07", NAME, "client")
    allowed = judged(*BEGUN, reads(0, 1), known=(NAME,))
    assert isinstance(allowed, Allowed)
    assert allowed.deviations == (NAME,)
    assert broken_by(*BEGUN, reads(1, 0), known=(NAME,)).deviation is None, "it acknowledged the other one, too"
