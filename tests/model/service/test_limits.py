"""Limits of a namespace hold for its subscriptions, and are lifted when their cause is gone."""

from __future__ import annotations

from model.events import Acknowledged, Created, Delivery, ReceivedMessages, Sent, Stored, Subscribed
from model.log import Position
from model.operations import CreateTopic, Send
from model.subscription_operations import Acknowledge, Receive
from model.vocabulary import Entry, Limits, Message
from tests.model.service.test_judging import BUSY, OPENED, SUBSCRIPTION, Happened, after, answer, subscribing

MESSAGES = tuple(Delivery(Position(1, number), -1, 0, f"b{number}", 0) for number in range(9))


def limited(limits: Limits) -> list[Happened]:
    """A topic with these limits, nine messages, and a consumer that has received nothing."""
    create = CreateTopic("t0", persistence="every-ack", limits=limits)
    entries = tuple(Entry((Message(number, f"b{number}"),)) for number in range(9))
    sent = Sent(tuple(Stored(Position(1, number)) for number in range(9)))
    return [
        (create, Created(deduplication=False, snapshot_room=6)),
        OPENED,
        SUBSCRIPTION,
        (Send("s1", entries), sent),
        (subscribing("c1", "Shared"), Subscribed()),
    ]


def received(*numbers: int, blocked: bool = False) -> Happened:
    messages = tuple(MESSAGES[number] for number in numbers)
    return Receive("c1", 5), ReceivedMessages(messages, blocked=blocked)


def acknowledged(*numbers: int) -> Happened:
    return Acknowledge("c1", numbers), Acknowledged(tuple(MESSAGES[number] for number in numbers), receipt=True)


FOUR = limited(Limits(unacknowledged=4))


def test_a_consumer_at_its_limit_is_given_nothing_more() -> None:
    full = after(*FOUR, received(0, 1, 2, 3, blocked=True))
    assert "SERVE-05" in answer(full, *received(blocked=True))
    assert answer(full, *received(4)) == "SERVE-05"


def test_a_consumer_that_acknowledged_enough_is_not_blocked() -> None:
    half = after(*FOUR, received(0, 1, 2, 3, blocked=True), acknowledged(0, 1))
    assert answer(half, *received(blocked=True)) == "SERVE-05"
    assert answer(half, *received(4, 5, blocked=True)) != "SERVE-05"
    more = after(*FOUR, received(0, 1, 2, 3, blocked=True), acknowledged(0))
    assert answer(more, *received(blocked=True)) != "SERVE-05"


def test_without_a_limit_nobody_is_blocked() -> None:
    assert answer(after(*limited(Limits())), *received(0, 1, 2, blocked=True)) == "SERVE-05"


def test_a_subscription_has_as_many_consumers_as_it_may_and_no_more() -> None:
    two = after(*limited(Limits(consumers=2)))
    second = subscribing("c2", "Shared")
    assert answer(two, second, BUSY) == "SERVE-05"
    full = after(*limited(Limits(consumers=2)), (second, Subscribed()))
    third = subscribing("c3", "Shared")
    assert "SERVE-05" in answer(full, third, BUSY)
    assert answer(full, third, Subscribed()) == "SERVE-05"
