"""Limits of a namespace hold for its subscriptions, and are lifted when their cause is gone."""

from __future__ import annotations

import pytest
from msgspec.structs import replace as struct_replace

from model.events import (
    Acknowledged,
    ConsumerRead,
    Created,
    CursorRead,
    Delivery,
    Done,
    ReceivedMessages,
    RedeliveryRequested,
    Sent,
    Starved,
    Stored,
    Subscribed,
)
from model.explain import judge
from model.judgement import Allowed
from model.log import Position
from model.operations import CreateTopic, Send
from model.subscription_operations import Acknowledge, Nack, ReadCursor, Receive, Skip
from model.vocabulary import Entry, Limits, Message, SubscriptionType, Withheld
from tests.model.service.test_reasons import (
    BUSY,
    OPENED,
    SUBSCRIPTION,
    Happened,
    after,
    answer,
    knowing_all,
    met,
    subscribing,
)
from tests.verdicts import deviation_of

MESSAGES = tuple(Delivery(Position(1, number), -1, 0, f"b{number}", 0) for number in range(10))


def limited(limits: Limits, kind: SubscriptionType = "Shared") -> list[Happened]:
    """A topic with these limits, nine messages, and a consumer that has received nothing."""
    create = CreateTopic("t0", persistence="every-ack", limits=limits)
    return [
        (create, Created(deduplication=False, snapshot_room=6, unacknowledged_in_all=limits.in_all)),
        OPENED,
        SUBSCRIPTION,
        sent(*range(9)),
        (subscribing("c1", kind), Subscribed()),
    ]


def sent(*numbers: int) -> Happened:
    entries = tuple(Entry((Message(number, f"b{number}"),)) for number in numbers)
    return Send("s1", entries), Sent(tuple(Stored(Position(1, number)) for number in numbers))


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


def nacked(*numbers: int) -> Happened:
    return Nack("c1", numbers), RedeliveryRequested(tuple(MESSAGES[number] for number in numbers))


STARVED: Happened = (Receive("c1", 5), Starved("5 entries that no consumer has are not delivered"))


def test_a_consumer_at_its_limit_is_unblocked_only_by_a_redelivery_request_and_for_one_message() -> None:
    """It acknowledged the first message, so none of those that it requests is pending."""
    name = "redelivery-request-unblocks-consumer"
    first: Happened = (Receive("c1", 1), ReceivedMessages(MESSAGES[:1]))
    at_limit = (*FOUR, first, acknowledged(0), received(1, 2, 3, 4, blocked=True))
    requested = (*at_limit, nacked(0))
    for shown in (received(5, blocked=True), STARVED):
        assert deviation_of(after(*requested), *shown) == name
        assert set(met(knowing_all(*requested), *shown)) == {name}
        assert deviation_of(knowing_all(*at_limit), *shown) is None, "nothing was requested"
        sent_one = judge(knowing_all(*requested), *received(5, blocked=True))
        assert isinstance(sent_one, Allowed)
        assert deviation_of(sent_one.state, *received(6)) is None, "it was sent one already"
    assert deviation_of(knowing_all(*requested), *received(5, 6)) is None, "two messages"


@pytest.mark.parametrize("drains", [False, True])
def test_the_classic_implementation_of_key_shared_sends_an_unblocked_consumer_as_many_as_it_has_permits_for(
    *, drains: bool
) -> None:
    (create, created), *rest = limited(Limits(unacknowledged=4), "Key_Shared")
    assert isinstance(created, Created)
    made: Happened = create, struct_replace(created, has_draining_hashes=drains)
    requested = (made, *rest, received(0, 1, 2, 3, 4, blocked=True), nacked(0))
    both: Happened = Receive("c1", 2), ReceivedMessages((struct_replace(MESSAGES[0], redeliveries=1), MESSAGES[5]))
    assert deviation_of(knowing_all(*requested[:-1]), *both) is None, "nothing was requested"
    assert deviation_of(after(*requested), *both) == (None if drains else "redelivery-request-unblocks-consumer")


def test_a_redelivery_request_may_come_after_messages_in_flight_that_take_a_consumer_to_its_limit() -> None:
    name = "redelivery-request-unblocks-consumer"
    waits: Happened = (Receive("c1", 1), ReceivedMessages(MESSAGES[:1]))
    full: Happened = (Receive("c1", 5), Starved("1 entry that no consumer has is not delivered", MESSAGES[1:5]))
    in_flight = (*FOUR, waits, acknowledged(0), nacked(0))
    assert deviation_of(after(*in_flight), *full) == name
    assert set(met(knowing_all(*in_flight), *full)) == {name}
    assert deviation_of(knowing_all(*FOUR, waits, acknowledged(0)), *full) is None, "nothing was requested"
    below: Happened = (Receive("c1", 5), Starved("2 entries that no consumer has are not delivered", MESSAGES[1:4]))
    assert deviation_of(knowing_all(*in_flight), *below) is None, "it is not at its limit"


def test_a_consumer_stays_blocked_above_half_of_its_limit_so_a_redelivery_request_unblocks_it_there() -> None:
    """It had all four, and acknowledged the first of them, and in the other case also the next."""
    name = "redelivery-request-unblocks-consumer"
    full = (*FOUR, received(0, 1, 2, 3, blocked=True))
    still_blocked = (*full, acknowledged(0), nacked(0))
    assert deviation_of(after(*still_blocked), *STARVED) == name
    assert set(met(knowing_all(*still_blocked), *STARVED)) == {name}
    read: Happened = (ReadCursor("t0", "sub"), Starved("5 entries that no consumer has are not delivered"))
    assert deviation_of(after(*still_blocked), *read) == name
    assert deviation_of(knowing_all(*full, acknowledged(0)), *read) is None
    three: Happened = (Receive("c1", 3), ReceivedMessages(MESSAGES[:3]))
    for others in ((*full, acknowledged(0, 1), nacked(0)), (*full, acknowledged(0)), (*FOUR, three, nacked(5))):
        assert deviation_of(knowing_all(*others), *STARVED) is None


def test_a_consumer_gets_one_message_above_its_limit_for_each_ack_of_a_message_that_was_not_pending() -> None:
    name = "unacked-count-lowered-by-any-ack"
    first: Happened = (Receive("c1", 1), ReceivedMessages(MESSAGES[:1]))
    once = (*FOUR, first, acknowledged(0), received(1, 2, 3, 4, blocked=True))
    four: Happened = (Receive("c1", 4), ReceivedMessages(MESSAGES[1:5]))
    twice = (*FOUR, first, acknowledged(0), acknowledged(0), four)
    fifth: Happened = (Receive("c1", 1), ReceivedMessages(MESSAGES[5:6]))
    assert deviation_of(after(*twice), *fifth) == name
    assert set(met(knowing_all(*twice), *fifth)) == {name}
    sent_one = judge(knowing_all(*twice), *fifth)
    assert isinstance(sent_one, Allowed)
    assert deviation_of(sent_one.state, *received(6)) is None, "its count is at the limit"
    assert deviation_of(knowing_all(*once), *received(5)) is None, "each ack was of a pending message"


def test_a_consumer_stays_blocked_only_after_an_ack_of_parts() -> None:
    name, blocked = "partial-ack-leaves-consumer-blocked", (Receive("c1", 5), ReceivedMessages((), blocked=True))
    parts = tuple(Delivery(Position(1, 0), number, 4, f"b{number}", 0) for number in range(4))
    batch = Entry(tuple(Message(number, f"b{number}") for number in range(4)))
    create, opened, subscription, _, subscribed = FOUR
    send = Send("s1", (batch,)), Sent((Stored(Position(1, 0)),))
    full = (create, opened, subscription, send, subscribed, (Receive("c1", 1), ReceivedMessages(parts, blocked=True)))
    half: Happened = (Acknowledge("c1", (0, 1)), Acknowledged(parts[:2], receipt=True))
    rest: Happened = (Acknowledge("c1", (2, 3)), Acknowledged(parts[2:], receipt=True))
    assert deviation_of(after(*full, half), *blocked) == name
    assert met(knowing_all(*full, half), *blocked) == (name,)
    assert deviation_of(knowing_all(*full, half, rest), *blocked) is None
    assert deviation_of(knowing_all(*FOUR, received(0, 1, 2, 3, blocked=True), acknowledged(0, 1)), *blocked) is None


def test_an_ack_of_a_whole_message_may_be_looked_at_before_that_of_a_part() -> None:
    """Of four messages, it acknowledges a single one and a part of a batch, which leaves half."""
    name, blocked = "partial-ack-leaves-consumer-blocked", (Receive("c1", 5), ReceivedMessages((), blocked=True))
    single = [Delivery(Position(1, at), -1, 0, f"b{at}", 0) for at in (0, 1)]
    batch = [Delivery(Position(1, 2), index, 2, f"b{2 + index}", 0) for index in (0, 1)]
    sizes = (Entry((Message(0, "b0"),)), Entry((Message(1, "b1"),)), Entry((Message(2, "b2"), Message(3, "b3"))))
    create, opened, subscription, _, subscribed = FOUR
    send = Send("s1", sizes), Sent(tuple(Stored(Position(1, at)) for at in range(3)))
    came = (Receive("c1", 1), ReceivedMessages((*single, *batch), blocked=True))
    full = (create, opened, subscription, send, subscribed, came)
    both: Happened = (Acknowledge("c1", (1, 3)), Acknowledged((single[1], batch[1]), receipt=True))
    then: Happened = (Acknowledge("c1", (0,)), Acknowledged((single[0],), receipt=True))
    assert deviation_of(after(*full, both), *blocked) == name
    assert deviation_of(knowing_all(*full, both, then), *blocked) is None, "it was looked at again"


def test_a_consumer_stays_blocked_by_skipped_messages_that_are_still_counted_and_by_nothing_else() -> None:
    name = "skipped-messages-still-counted"
    full = (*FOUR, received(0, 1, 2, 3, blocked=True))
    skipped: Happened = (Skip("t0", "sub", 4), Done())
    blocked: Happened = received(blocked=True)
    assert deviation_of(after(*full, skipped), *blocked) == name
    for shown in (blocked, STARVED):
        assert set(met(knowing_all(*full, skipped), *shown)) == {name}
    two_skipped: Happened = (Skip("t0", "sub", 2), Done())
    assert set(met(knowing_all(*full, two_skipped), *blocked)) == {name}, "two are left"
    known_only = {"dropped-pending-acks-still-counted", name}
    assert set(met(knowing_all(*full, skipped, acknowledged(0, 1)), *blocked)) == known_only, "each has two of three"
    two: Happened = (Receive("c1", 2), ReceivedMessages(MESSAGES[:2]))
    assert deviation_of(knowing_all(*FOUR, two, two_skipped), *blocked) is None, "it had only two"
    assert deviation_of(knowing_all(*full, acknowledged(0, 1, 2, 3)), *blocked) is None, "nothing was skipped"


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


FOUR_IN_ALL = limited(Limits(in_all=4))


def withheld(*numbers: int, count: int, read_pending: bool = False, consumer: str = "c1") -> Happened:
    """A consumer receives these and no more, because the broker says that so many messages block the subscription."""
    messages = tuple(MESSAGES[number] for number in numbers)
    return Receive(consumer, 9), ReceivedMessages(messages, withheld=Withheld(count, read_pending))


def test_a_subscription_that_reached_its_limit_gets_no_new_messages() -> None:
    full = after(*FOUR_IN_ALL, withheld(0, 1, 2, 3, count=4))
    assert "SERVE-05" in answer(full, *withheld(count=4)), "what is withheld is not missed"
    assert answer(after(*FOUR_IN_ALL), *received(0, 1, 2)) != "SERVE-05"
    read_before = after(*FOUR_IN_ALL, withheld(0, 1, 2, 3, count=4))
    assert answer(read_before, *withheld(4, 5, 6, 7, 8, count=9)) != "SERVE-05", "the broker had read these already"
    later = after(*FOUR_IN_ALL, withheld(0, 1, 2, 3, count=4), sent(9))
    assert answer(later, *received(9)) == "SERVE-05"
    assert answer(after(*FOUR_IN_ALL, withheld(0, 1, 2, 3, count=4, read_pending=True), sent(9)), *received(9)) != (
        "SERVE-05"
    ), "a read was pending"


def test_a_blocked_subscription_gets_new_messages_again_once_something_is_acknowledged() -> None:
    after_ack = after(*FOUR_IN_ALL, withheld(0, 1, 2, 3, count=4), sent(9), acknowledged(0, 1, 2))
    assert answer(after_ack, *received(4, 5, 6, 7, 8)) != "SERVE-05"
    assert (
        answer(after(*FOUR_IN_ALL, withheld(0, 1, 2, 3, count=4), sent(9), acknowledged(0)), *received(9)) != "SERVE-05"
    )


def test_a_subscription_with_as_many_unacknowledged_messages_as_it_may_have_is_blocked() -> None:
    def reading(count: int, told: Withheld | None = None) -> Happened:
        arrived = (ConsumerRead("c1", (), count),)
        return ReadCursor("t0", "sub"), CursorRead(Position(1, -1), (), 9, count, arrived, withheld=told)

    def took(*numbers: int) -> Happened:
        return Receive("c1", len(numbers)), received(*numbers)[1]

    full = after(*FOUR_IN_ALL, took(0, 1, 2, 3))
    assert answer(full, *reading(4)) == "SERVE-05"
    assert answer(full, *reading(4, Withheld(4))) != "SERVE-05"
    assert answer(after(*FOUR_IN_ALL, took(0, 1, 2)), *reading(3)) != "SERVE-05"
    assert answer(after(*limited(Limits()), took(0, 1, 2, 3)), *reading(4)) != "SERVE-05"


@pytest.mark.parametrize(("in_all", "count", "is_allowed"), [(4, 2, True), (4, 1, False), (5, 2, True), (0, 9, False)])
def test_below_half_of_its_limit_no_subscription_is_blocked(in_all: int, count: int, *, is_allowed: bool) -> None:
    judged = answer(after(*limited(Limits(in_all=in_all))), *withheld(0, count=count))
    assert ("SERVE-05" in judged) if is_allowed else (judged == "SERVE-05")


@pytest.mark.parametrize(
    ("limits", "count", "is_met"),
    [
        (Limits(unacknowledged=9), 0, True),
        (Limits(unacknowledged=9), 1, False),
        (Limits(unacknowledged=9, in_all=9), 0, False),
        (Limits(), 0, False),
    ],
)
def test_only_a_subscription_without_a_limit_is_not_counted_and_not_at_all(
    limits: Limits, count: int, *, is_met: bool
) -> None:
    taken: Happened = (Receive("c1", 2), received(0, 1)[1])
    stats = CursorRead(Position(1, -1), (), 9, count, (ConsumerRead("c1", (), 2),))
    deviation = deviation_of(after(*limited(limits), taken), ReadCursor("t0", "sub"), stats)
    assert deviation == ("unlimited-subscription-not-counted" if is_met else None)
