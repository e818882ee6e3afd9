"""Topics with deduplication follow the rules of subscriptions as far as the answers show what is stored."""

from __future__ import annotations

from conformance.history.document import Step
from model.events import (
    Answer,
    AnyOutcome,
    Created,
    Delivery,
    Duplicate,
    Opened,
    ReceivedMessages,
    Refused,
    Sent,
    Stored,
    Subscribed,
)
from model.judgement import Broken
from model.log import Position
from model.operations import AnyOperation, CreateTopic, OpenProducer, Send
from model.subscription_operations import Receive, Subscribe
from model.vocabulary import Entry, Message
from tests.judging_again import judged_again

A, B = Entry((Message(1, "a"),)), Entry((Message(2, "b"),))
OTHER = Entry((Message(1, "other"), Message(2, "end")))
FIRST, SECOND = Stored(Position(7, 0)), Stored(Position(7, 1))
IN_FLIGHT = Refused("UnknownStatus", "a write is in flight")


def delivered(business_id: str, entry: int) -> ReceivedMessages:
    return ReceivedMessages((Delivery(Position(7, entry), -1, 0, business_id, 0),))


def rule_broken(received: ReceivedMessages, *sent: tuple[tuple[Entry, ...], tuple[Answer, ...]]) -> str | None:
    steps: list[tuple[AnyOperation, AnyOutcome]] = [
        (CreateTopic("t"), Created(deduplication=True, snapshot_room=5)),
        (OpenProducer("p", "t", "p"), Opened(-1)),
        *((Send("p", entries), Sent(answers)) for entries, answers in sent),
        (Subscribe("c", "t", "s"), Subscribed()),
        (Receive("c", 1), received),
    ]
    judged = judged_again(Step(operation=op, outcome=what, invoked_ms=0, completed_ms=0) for op, what in steps)
    return judged.rule if isinstance(judged, Broken) else None


def test_a_duplicate_is_not_stored_so_the_next_entry_has_the_next_position() -> None:
    sent = ((A, A), (FIRST, Duplicate())), ((B,), (SECOND,))
    assert rule_broken(delivered("a", 0), *sent) is None
    assert rule_broken(delivered("a", 0), ((A, A), (FIRST, Duplicate())), ((B,), (Stored(Position(7, 2)),))) == "ACK-06"


def test_an_entry_refused_while_no_write_fails_is_not_stored() -> None:
    assert rule_broken(delivered("other", 1), ((A, A), (FIRST, IN_FLIGHT))) == "ACK-06"


def test_a_message_that_was_never_stored_is_not_delivered() -> None:
    assert rule_broken(delivered("b", 0), ((A,), (FIRST,))) == "ACK-06"


def test_a_log_is_unknown_if_different_entries_in_flight_share_a_sequence_id() -> None:
    assert rule_broken(delivered("other", 0), ((A, OTHER), (FIRST, IN_FLIGHT))) is None
