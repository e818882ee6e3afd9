"""What is found beside the deviations that excuse a delivery: another message, another consumer, or later."""

from __future__ import annotations

from model.deviations import DEVIATIONS
from model.events import ReceivedMessages, Subscribed
from model.log import Position
from model.subscription_operations import Receive, Subscribe
from tests.model.key_shared.test_order import (
    ONE,
    OTHER,
    A,
    B,
    acknowledges,
    broken,
    classic,
    fails,
    gathers,
    joins,
    leaves,
    message,
    more,
    permits,
    sent,
    share,
)
from tests.verdicts import deviates


def test_a_key_is_divided_only_by_messages_that_were_there_when_a_consumer_joined() -> None:
    begin = [*classic(A, A), *joins("c"), gathers(share("c", 1)), *joins("d")]
    divided = gathers(share("c"), share("d", 2))
    assert deviates("recently-joined-receives-replay", *begin, divided)
    back = gathers(share("c", 1, again=True), share("d"))
    assert broken(*begin, divided, fails("c", 1), back, known=DEVIATIONS) == "KEY-01", "c did not join others"
    keeps_its_key = [*begin, gathers(share("c", 2), share("d")), more(Position(1, 2), 3, A), gathers(share("c", 3))]
    moves = gathers(share("c"), share("d", 2, again=True))
    assert broken(*keeps_its_key, fails("c", 2), moves, known=DEVIATIONS) == "KEY-01", "c has what was sent later"


def test_a_key_may_be_divided_by_a_message_that_pulsar_client_had_in_its_queue() -> None:
    """Its application receives the message only after the consumer that joined has an earlier one."""
    known = "recently-joined-receives-replay"
    subscribes = Subscribe("q", "t", "s", kind="Key_Shared", client="official", queue=9), Subscribed()
    received = Receive("q", 1), ReceivedMessages((message(2),))
    begin = [
        *classic(A, A),
        subscribes,
        *joins("c"),
        gathers(share("c")),
        *joins("d"),
        gathers(share("c"), share("d", 1)),
    ]
    assert broken(*begin, received) == "KEY-01"
    assert broken(*begin, received, known=known) is None
    of_wire = [*classic(A, A), *joins("q", "c"), gathers(share("q"), share("c")), *joins("d"), gathers(share("d", 1))]
    assert broken(*of_wire, gathers(share("q", 2)), known=known) == "KEY-01", "its queue is known"


def test_a_message_overtakes_one_that_pulsar_client_may_have_in_its_queue() -> None:
    """Its application has not received the earlier one when a consumer that joined receives the later one."""
    subscribes = Subscribe("q", "t", "s", kind="Key_Shared", client="official", queue=1), Subscribed()
    overtakes = gathers(share("c", 2))
    assert deviates("recently-joined-receives-replay", *classic(A, A), subscribes, *joins("c"), permits("c"), overtakes)
    of_wire = [*classic(A, A), *joins("q", "c"), permits("c"), gathers(share("q"), share("c", 2))]
    assert broken(*of_wire, known=DEVIATIONS) == "KEY-02", "it would have received it"
    sent_later = [*classic(A, A), subscribes, *joins("c"), permits("c"), more(Position(1, 2), 3, A)]
    assert broken(*sent_later, gathers(share("c", 3)), known=DEVIATIONS) == "KEY-02", "it was sent later"


def test_a_key_is_divided_before_the_consumer_of_its_earlier_messages_leaves() -> None:
    """The one that joined may have been sent the later message while the other was there."""
    begin = [*classic(A, A), *joins("c", "d"), gathers(share("c", 1), share("d"))]
    divided = gathers(share("d"), share("e", 2, 1))
    assert deviates("recently-joined-receives-replay", *begin, *joins("e"), leaves("c"), divided)
    others = set(DEVIATIONS) - {"pending-acks-without-hash"}
    assert broken(*begin, leaves("c"), *joins("e"), divided, known=others) == "KEY-06", "it joined later"
    new_message, later = more(Position(1, 2), 3, A), gathers(share("d"), share("e", 3, 1))
    assert broken(*begin, *joins("e"), new_message, leaves("c"), later, known=others) == "KEY-06", "it was sent later"


def test_messages_that_one_consumer_had_may_have_been_sent_to_another_one_before_it_left_too() -> None:
    """The one that joined meanwhile may have been sent those after them."""
    begin = [*classic(A, A), *joins("c", "d"), gathers(share("c", 1, 2), share("d", permits=1))]
    reversed_at_e = gathers(share("e", 2, 1))
    assert deviates(
        "recently-joined-receives-replay", *begin, leaves("c"), *joins("e"), permits("e"), leaves("d"), reversed_at_e
    )
    left_first = [*begin, *joins("e"), permits("e"), leaves("d"), leaves("c")]
    assert broken(*left_first, reversed_at_e, known=DEVIATIONS) == "KEY-06", "the other one left before them"
    without_permits = [*classic(A, A), *joins("c", "d"), gathers(share("c", 1, 2), share("d", permits=0)), leaves("c")]
    moves = [*joins("e"), permits("e"), leaves("d"), reversed_at_e]
    assert broken(*without_permits, *moves, known=DEVIATIONS) == "KEY-06", "the other one had no permits"


def test_a_new_message_overtakes_no_hash_that_is_in_the_replay_queue_because_a_consumer_left() -> None:
    begin = [*sent(B, ONE, ONE), *joins("c", "d"), gathers(share("c", 1, 2, 3), share("d")), fails("c", 1, 2)]
    new_message = more(Position(1, 3), 4, OTHER)
    overtaken = gathers(share("d", 4), share("e"))
    all_nacked = [*begin, fails("c", 3), leaves("c"), *joins("e"), new_message]
    assert deviates("new-message-overtakes-replay", *all_nacked, overtaken)
    assert broken(*begin, leaves("c"), *joins("e"), new_message, overtaken, known=DEVIATIONS) == "KEY-09"


def test_pending_acks_without_hash_keep_their_order_among_each_other() -> None:
    begin = [*classic(A, A), *joins("c", "d", "e"), gathers(share("c", 1, 2), share("d"), share("e")), leaves("c")]
    new_message = more(Position(1, 2), 3, A)
    assert deviates("pending-acks-without-hash", *begin, new_message, gathers(share("d", 3), share("e")))
    assert broken(*begin, gathers(share("d", 2, 1), share("e")), known=DEVIATIONS) == "KEY-06"


def test_a_pending_read_has_no_message_that_was_sent_after_the_last_consumer_left() -> None:
    begin = [*sent(A, A), *joins("c"), gathers(share("c", 1)), permits("c"), leaves("c")]
    read = gathers(share("d", 2, 1))
    assert deviates("pending-read-outlives-consumers", *begin, *joins("d"), read)
    sent_later = [*begin, more(Position(1, 2), 3, A), *joins("d")]
    assert broken(*sent_later, gathers(share("d", 3, 1, 2)), known=DEVIATIONS) == "KEY-02"
    once = [*begin, *joins("d"), gathers(share("d", 1)), leaves("d"), *joins("e")]
    assert broken(*once, gathers(share("e", 2, 1)), known=DEVIATIONS) == "KEY-02", "nothing was being read"


def test_a_message_of_a_pending_read_overtakes_unread_ones_again_when_its_consumer_has_left() -> None:
    """Seen on 4.0.8: the third message came early; it is replayed before the second one is read again."""
    known = "pending-read-outlives-consumers"
    begin = [*sent(A, A, A), *joins("c"), gathers(share("c", 1)), permits("c"), leaves("c"), *joins("d")]
    early = [*begin, gathers(share("d", 3, 1)), *joins("e"), gathers(share("d"), share("e")), leaves("d")]
    assert broken(*early, gathers(share("e", 1, 3, 2)), known=known) is None
    in_order = [*begin, gathers(share("d", 1)), *joins("e"), gathers(share("d"), share("e")), leaves("d")]
    assert broken(*in_order, gathers(share("e", 1, 3, 2)), known=DEVIATIONS) == "KEY-02", "it did not come early"
    both = [*begin, gathers(share("d", 3, 1, 2)), *joins("e"), gathers(share("d"), share("e")), leaves("d")]
    assert broken(*both, gathers(share("e", 1, 3, 2)), known=DEVIATIONS) == "KEY-06", "the second one was read"


def test_without_permits_the_rest_of_a_pending_read_is_dispatched_before_what_is_read_again() -> None:
    known = "pending-read-outlives-consumers"
    begin = [*sent(A, A, A), *joins("c"), gathers(share("c", 1)), permits("c"), leaves("c"), *joins("d")]
    rest = [permits("d"), gathers(share("d", 3))]
    assert broken(*begin, gathers(share("d", 2), in_replay=1), *rest, known=known) is None
    assert broken(*begin, gathers(share("d", 2)), *rest, known=DEVIATIONS) == "KEY-02", "nothing is left of it"
    had_permits = gathers(share("d", 2, permits=1), in_replay=1)
    assert broken(*begin, had_permits, *rest, known=DEVIATIONS) == "KEY-02", "it would have been dispatched"


def test_a_new_message_may_be_read_twice_if_its_consumer_was_recently_joined() -> None:
    """It waited in the replay queue until the messages from before the consumer joined were acknowledged."""
    known = "send-in-progress-cleared-early"
    begin = [*classic(A), *joins("c"), gathers(share("c", 1, permits=9)), *joins("d")]
    begin += [gathers(share("c", permits=9), share("d", permits=9))]
    news = more(Position(1, 1), 2, B)
    twice = gathers(share("c", permits=9), share("d", 2, 2, permits=7))
    assert broken(*begin, news, acknowledges("c", 1), twice, known=known) is None
    assert broken(*begin, news, acknowledges("c", 1), twice) == "ACK-12"
    waits_no_longer = [*begin, acknowledges("c", 1), gathers(share("c", permits=9), share("d", permits=9))]
    assert broken(*waits_no_longer, news, twice, known=known) == "ACK-12"


def test_a_new_message_may_be_read_twice_if_only_other_consumers_had_permits() -> None:
    known = "send-in-progress-cleared-early"
    news = [more(Position(1, 1), 2, B), permits("d")]
    for at_c, at_d, rule in ((9, 0, None), (9, 9, "ACK-12"), (0, 0, "ACK-12")):
        begin = [*sent(A), *joins("c", "d"), gathers(share("c", 1, permits=at_c), share("d", permits=at_d))]
        twice = gathers(share("c", permits=at_c), share("d", 2, 2))
        assert broken(*begin, *news, twice, known=known) == rule
    for at_c, rule in ((9, None), (0, "ACK-12")):  # c may have had it, and left
        begin = [*sent(A), *joins("c", "d"), gathers(share("c", 1, permits=at_c), share("d", permits=9))]
        assert broken(*begin, *news, leaves("c"), gathers(share("d", 2, 2)), known=known) == rule
