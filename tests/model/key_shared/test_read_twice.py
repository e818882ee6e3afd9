"""Messages that a Key_Shared dispatcher reads twice, and so dispatches twice (ACK-12)."""

from __future__ import annotations

from model.judgement import Broken
from model.log import Position
from tests.model.key_shared.test_order import A, B, broken, classic, gathers, joins, leaves, more, sent, share
from tests.verdicts import judged


def test_a_message_replayed_twice_is_a_deviation_only_with_a_new_message() -> None:
    begin = [*joins("c", "d"), gathers(share("c", 1), share("d"))]
    new_message, twice = more(Position(1, 1), 2, B), gathers(share("d", 1, 1))
    assert broken(*classic(A), *begin, leaves("c"), twice) == "ACK-12"
    answer = judged(*classic(A), *begin, new_message, leaves("c"), twice)
    assert isinstance(answer, Broken)
    assert answer.deviation == "send-in-progress-cleared-early"
    known = "send-in-progress-cleared-early"
    assert broken(*classic(A), *begin, new_message, leaves("c"), twice, known=known) is None
    assert broken(*sent(A), *begin, new_message, leaves("c"), twice, known=known) is None


def test_a_message_that_was_read_twice_is_delivered_at_most_once_more() -> None:
    begin = [*classic(A), *joins("c", "d"), gathers(share("c", 1), share("d"), is_waiting=True)]
    begin += [more(Position(1, 1), 2, B), leaves("c")]
    once, known = gathers(share("d", 1)), "send-in-progress-cleared-early"
    assert broken(*begin, once, once, known=known) is None
    assert broken(*begin, once, gathers(share("d")), once, known=known) is None  # the replay queue may keep it
    assert broken(*begin, once, once, once, known=known) == "ACK-12"
    assert broken(*begin, gathers(share("d")), gathers(share("d", 1, 1)), known=known) is None  # reads may be slow


def test_a_message_may_be_read_twice_while_the_dispatcher_has_not_read_all_messages_once() -> None:
    known = "send-in-progress-cleared-early"
    for has_read_all, rule in ((False, None), (True, "ACK-12")):
        begin = [*classic(A, B), *joins("c", "d"), gathers(share("c", 1), share("d"), is_waiting=has_read_all)]
        assert broken(*begin, leaves("c"), gathers(share("d", 1, 1)), known=known) == rule


def test_a_message_that_was_not_replayed_is_not_dispatched_twice() -> None:
    known = "send-in-progress-cleared-early"
    begin = [*classic(A), *joins("c", "d"), gathers(share("c", 1), share("d"))]
    news = [more(Position(1, 1), 2, B), more(Position(1, 2), 3, A)]
    assert broken(*begin, *news, gathers(share("c", 2, 2), share("d")), known=known) == "ACK-12"
    assert broken(*begin, *news, leaves("c"), gathers(share("d", 1, 2, 1)), known=known) is None
    waits_again = gathers(share("d", 1, permits=5))
    assert broken(*begin, *news[:1], leaves("c"), waits_again, waits_again, known=known) is None
    asked = [
        *begin,
        *news[:1],
        leaves("c"),
        gathers(share("d", 1)),
        gathers(share("d", permits=5)),
        gathers(share("d", 1)),
    ]
    assert broken(*asked, known=known) == "ACK-12", "with permits it would have come"


def test_a_new_message_may_be_read_twice_if_it_comes_after_a_later_one() -> None:
    """It had no permits when it was read first, so it comes from the replay queue."""
    known = "send-in-progress-cleared-early"
    begin = [*classic(A), *joins("c", "d"), gathers(share("c", 1), share("d"))]
    begin += [more(Position(1, 1), 2, A), more(Position(1, 2), 3, B), leaves("c")]
    assert broken(*begin, gathers(share("d", 3, 1, 2)), gathers(share("d", 2)), known=known) is None
    assert broken(*begin, gathers(share("d", 1, 2, 3)), gathers(share("d", 2)), known=known) == "ACK-12"
