"""What is found beside the deviations that keep due messages in the replay queue."""

from __future__ import annotations

import pytest

from model.deviations import DEVIATIONS
from model.events import Acknowledged, Done
from model.key_shared.hashes import sticky_hash
from model.log import Position
from model.subscription_operations import Acknowledge, CutDuring, Skip, SkipAll
from model.traffic import Delivery
from model.vocabulary import HashRange, LoseThenCut
from tests.model.key_shared.test_order import (
    ALL,
    NONE,
    A,
    B,
    acknowledges,
    broken,
    fails,
    gathers,
    joins,
    leaves,
    more,
    permits,
    sent,
    share,
)
from tests.verdicts import Happened, allowed_by, deviates

LOW, HIGH = sorted((A, B), key=lambda key: sticky_hash(key.encode()))
MIDDLE = sticky_hash(LOW.encode())
HALVES = ((HashRange(1, MIDDLE),), (HashRange(MIDDLE + 1, 65535),))


def halves(*permits: int, c: tuple[int, ...] = (), d: tuple[int, ...] = ()) -> Happened:
    """What ``c`` and ``d`` receive, and the permits that they have then; ``c`` has the lower half of the hashes."""
    shares = zip("cd", (c, d), HALVES, permits, strict=True)
    return gathers(*(share(name, *got, ranges=own, permits=count) for name, got, own, count in shares))


def test_a_hash_that_is_kept_after_an_ack_blocks_only_what_is_read_once_mark_delete_passed_the_message() -> None:
    stalled = gathers(share("c", ranges=ALL, permits=1))
    begin = [*sent(A, A), *joins("c"), gathers(share("c", 1, ranges=ALL)), fails("c", 1), acknowledges("c", 1)]
    assert deviates("replay-hash-kept-after-ack", *begin, stalled)
    assert broken(*begin, stalled, stalled, known=DEVIATIONS) is None, "nothing has ended it"
    assert broken(*begin, stalled, permits("c"), stalled, known=DEVIATIONS) == "KEY-13", "the queue was read"
    after_another = [*sent(B, A, A), *joins("c"), gathers(share("c", 1, 2, ranges=ALL))]
    after_another += [fails("c", 2), acknowledges("c", 2)]
    assert broken(*after_another, stalled, known=DEVIATIONS) == "KEY-13", "mark-delete did not pass it"


@pytest.mark.parametrize("operation", [Skip("t", "s", 1), SkipAll("t", "s")], ids=["skip", "skip all"])
def test_a_hash_is_kept_after_a_skip_of_what_no_consumer_had(operation: Skip | SkipAll) -> None:
    stalled, later = gathers(share("c", ranges=ALL, permits=1)), more(Position(1, 1), 2, A)
    begin = [*sent(A), *joins("c")]
    assert deviates("replay-hash-kept-after-ack", *begin, (operation, Done()), later, stalled)
    another = [*begin, (operation, Done()), more(Position(1, 1), 2, B)]
    assert broken(*another, stalled, known=DEVIATIONS) == "KEY-13", "it has another hash"


def test_a_leave_excuses_only_what_it_may_have_unblocked_until_the_next_read() -> None:
    begin = [*sent(LOW), *joins("c", "d"), halves(0, 1)]
    stalled = gathers(share("d", ranges=ALL, permits=1))
    assert deviates("leave-triggers-no-read", *begin, leaves("c"), stalled)
    assert broken(*begin, leaves("c"), permits("d"), stalled, known=DEVIATIONS) == "KEY-13", "permits trigger a read"
    nothing_there = [*sent(), *joins("c", "d")]
    message = more(Position(1, 0), 1, LOW)
    assert broken(*nothing_there, halves(0, 1), message, leaves("c"), stalled, known=DEVIATIONS) is None
    assert broken(*nothing_there, halves(0, 1), leaves("c"), message, stalled, known=DEVIATIONS) == "KEY-13"
    assert broken(*nothing_there, halves(1, 1), message, leaves("c"), stalled, known=DEVIATIONS) == "KEY-13", (
        "it was not blocked, as c had permits"
    )


def test_a_consumer_may_acknowledge_its_last_message_while_its_connection_is_cut() -> None:
    lower = next(key for key in map(str, range(100)) if sticky_hash(key.encode()) < MIDDLE)
    begin = [*sent(lower, LOW), *joins("c", "d"), halves(0, 1, c=(1,))]
    stalled = gathers(share("d", ranges=ALL, permits=1))
    cut = CutDuring(Acknowledge("c", (0,)), LoseThenCut("ACK_RESPONSE"))
    acknowledged = Acknowledged((Delivery(Position(1, 0), -1, 0, "1", 0),), receipt=False)
    assert deviates("leave-triggers-no-read", *begin, (cut, acknowledged), stalled)
    assert broken(*begin, leaves("c"), stalled, known=DEVIATIONS) is not None, "its message is replayed"


def test_another_read_ends_the_stall_after_a_leave() -> None:
    begin = [*sent(HIGH, LOW), *joins("c", "d", "e"), halves(0, 1, d=(1,)), leaves("c")]
    stalled = gathers(share("d", ranges=ALL, permits=1), share("e", ranges=NONE))
    assert broken(*begin, stalled, known=DEVIATIONS) is None
    came = gathers(share("d", 1, ranges=ALL, permits=1, again=True), share("e", ranges=NONE))
    assert broken(*begin, fails("d", 1), came, known=DEVIATIONS) == "KEY-13", "a redelivery was requested"
    takes_over = gathers(share("e", 1, ranges=ALL, permits=1))
    assert broken(*begin, leaves("d"), takes_over, known=DEVIATIONS) == "KEY-13", "a consumer left with a message"


def test_only_a_message_whose_consumer_has_no_permits_blocks_later_ones_in_replay() -> None:
    anyhow = joins("c", "d", out_of_order=True)
    assert deviates("replay-head-of-line-blocking", *sent(LOW, HIGH), *anyhow, halves(0, 1))
    assert broken(*sent(HIGH, LOW), *anyhow, halves(0, 1), known=DEVIATIONS) == "KEY-13", "it is before the blocked one"
    left = [*sent(LOW), *anyhow, halves(0, 1), leaves("c")]
    stalled = gathers(share("d", ranges=ALL, permits=1))
    assert broken(*left, stalled, known=DEVIATIONS) is None, "another deviation stalls the first one"
    assert broken(*left, more(Position(1, 1), 2, HIGH), stalled, known=DEVIATIONS) == "KEY-13", "d has permits for both"


def test_a_message_blocks_later_ones_in_replay_although_pending_ones_of_its_hash_were_skipped() -> None:
    begin = [*sent(LOW, LOW, HIGH), *joins("c", "d", out_of_order=True), halves(0, 1, c=(1,), d=(3,))]
    skipped = [*begin, (Skip("t", "s", 1), Done()), fails("d", 3)]
    assert deviates("replay-head-of-line-blocking", *skipped, halves(0, 1))
    assert broken(*skipped, halves(1, 1), known=DEVIATIONS) == "KEY-08", "c has permits for the earlier one"


def test_a_skipped_rewind_excuses_nothing_without_a_replay_read_or_after_a_new_message() -> None:
    begin = [*sent(A, B), *joins("c"), gathers(share("c", 1, 2)), fails("c", 1)]
    joined, new_message = [leaves("c"), *joins("d")], more(Position(1, 2), 3, A)
    replayed = gathers(share("d", 1, ranges=ALL, permits=1))
    assert deviates("rewind-skipped-after-replay-read", *begin, *joined, replayed)
    stalled = gathers(share("d", ranges=ALL, permits=1))
    assert broken(*begin, *joined, replayed, stalled, known=DEVIATIONS) is None, "it still waits"
    assert broken(*begin, *joined, replayed, new_message, stalled, known=DEVIATIONS) == "KEY-13"
    assert broken(*begin, *joined, new_message, replayed, known=DEVIATIONS) == "KEY-13"
    no_replay = [*sent(A, B), *joins("c"), gathers(share("c", 1, 2)), permits("c")]
    assert broken(*no_replay, *joined, stalled, known=DEVIATIONS) == "KEY-13"


@pytest.mark.parametrize("known", ["leave-triggers-no-read", "look-ahead-skips-replay"])
def test_of_two_deviations_that_explain_a_stall_one_must_be_known(known: str) -> None:
    """5.0.0 has the second one only."""
    begin = [*sent(LOW), *joins("c", "d"), halves(0, 1), leaves("c")]
    stalled = gathers(share("d", ranges=ALL, permits=1), is_waiting=True, in_replay=1)
    assert allowed_by(*begin, stalled, known=known).deviations == (known,)
    assert broken(*begin, stalled) == "KEY-13"
