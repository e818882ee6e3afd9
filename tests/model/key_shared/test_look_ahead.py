"""When the observer of Key_Shared lets a look-ahead skip the replay queue, and when not."""

from __future__ import annotations

from msgspec.structs import replace

from model.cluster_operations import HOME
from model.events import Cleared, Done
from model.judgement import Broken
from model.key_shared.hashes import AUTO_SPLIT_HASHES
from model.log import Position
from model.operations import ClearFailpoints, SetFailpoint
from model.vocabulary import HashRange
from tests.model.key_shared.test_order import (
    ALL,
    HASH_A,
    HASH_B,
    NONE,
    ONE,
    OTHER,
    A,
    B,
    broken,
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
from tests.verdicts import Happened, judged


def waiting(gathered: Happened, *, in_replay: int = 0) -> Happened:
    """The same, if the broker waits for a new entry with this many messages in its replay queue."""
    operation, outcome = gathered[:2]
    return operation, replace(outcome, is_waiting=True, in_replay=in_replay)


def test_slow_reads_alone_excuse_nothing() -> None:
    """A look ahead leaves the broker waiting for a new entry, with what it passed over in the replay queue."""
    known = "look-ahead-skips-replay"
    begin = [*sent(A), *joins("c", "d"), gathers(share("c", ranges=ALL), share("d", ranges=NONE))]
    stalled = gathers(share("c", ranges=ALL, permits=1), share("d", ranges=NONE))
    slow: Happened = (SetFailpoint("t", "read-slow"), Done())
    assert broken(*begin, permits("c"), stalled) == "KEY-13"
    assert broken(*begin, (SetFailpoint("t", "join-slow"), Done()), permits("c"), stalled) == "KEY-10"
    assert broken(*begin, slow, permits("c"), stalled, known=known) == "KEY-10"
    answer = judged(*begin, slow, permits("c"), waiting(stalled, in_replay=1))
    assert isinstance(answer, Broken)
    assert answer.deviation == "look-ahead-skips-replay"
    assert broken(*begin, slow, waiting(stalled, in_replay=1), known=known) == "KEY-10", "nothing had it read"
    still = [*begin, slow, permits("c"), waiting(stalled, in_replay=1), (ClearFailpoints(), Cleared(())), stalled]
    assert broken(*still, known=known) is None
    came = gathers(share("c", 1, ranges=ALL), share("d", ranges=NONE))
    assert broken(*still, came, more(Position(1, 1), 2, A), stalled, known=known) == "KEY-13"


def test_a_look_ahead_that_skips_the_replay_queue_is_a_deviation_after_a_new_message() -> None:
    """While a broker reads a new message, it looks ahead and skips the replay that new permits would cause."""
    known = "look-ahead-skips-replay"
    first = gathers(share("c", ranges=ALL), share("d", ranges=NONE))
    stalled = gathers(share("c", ranges=ALL, permits=1), share("d", ranges=NONE))
    begin = [*sent(A), *joins("c", "d"), waiting(first)]
    new_message, raced = more(Position(1, 1), 2, A), waiting(stalled, in_replay=1)
    answer = judged(*begin, new_message, permits("c"), raced)
    assert isinstance(answer, Broken)
    assert answer.deviation == "look-ahead-skips-replay"
    assert broken(*begin, new_message, permits("c"), raced, known=known) is None
    assert broken(*begin, permits("c"), raced, known=known) == "KEY-13", "no new message was read"
    assert broken(*begin, permits("c"), new_message, stalled, known=known) == "KEY-13", "the broker does not wait"
    assert broken(*begin, permits("c"), new_message, waiting(stalled), known=known) == "KEY-13", (
        "nothing waits for replay"
    )
    assert broken(*begin, new_message, waiting(first, in_replay=2), permits("c"), raced, known=known) == "KEY-13"


def test_a_look_ahead_may_also_follow_blocked_messages_that_are_replayed() -> None:
    """Seen on 4.0.8: permits had a blocked message replayed, and a redelivery was requested milliseconds later."""
    known = "look-ahead-skips-replay"
    of_d, of_c = (HashRange(1, HASH_B),), (HashRange(HASH_B + 1, AUTO_SPLIT_HASHES.last),)
    assert HASH_B < HASH_A, "c has the first key, and d the second one"

    def looked(*numbers: int, permits: int = 0, in_replay: int = 1) -> Happened:
        shares = share("c", *numbers, ranges=of_c, permits=permits), share("d", ranges=of_d)
        return waiting(gathers(*shares), in_replay=in_replay)

    begin = [*sent(A, B), *joins("c", "d"), looked(1)]
    quiet, stalled = looked(), looked(permits=1, in_replay=2)
    twice = [permits("c"), quiet, fails("c", 1)]
    answer = judged(*begin, *twice, stalled)
    assert isinstance(answer, Broken)
    assert answer.deviation == "look-ahead-skips-replay"
    assert broken(*begin, *twice, stalled, known=known) is None
    assert broken(*begin, quiet, fails("c", 1), stalled, known=known) == "KEY-08", "nothing had been replayed"
    later = [permits("c"), quiet, quiet, fails("c", 1)]
    assert broken(*begin, *later, stalled, known=known) == "KEY-08", "the replay has ended"
    not_asked = looked(permits=1, in_replay=2)
    unread = [*sent(A, B), *joins("c", "d"), looked(), permits("d"), looked(), permits("c")]
    assert broken(*unread, not_asked, known=known) == "KEY-13", "no redelivery was requested"
    nothing = [permits("c"), looked(in_replay=0), fails("c", 1)]
    assert broken(*begin, *nothing, stalled, known=known) == "KEY-08", "nothing was blocked"


def test_without_an_order_a_look_ahead_skips_only_a_replay_that_was_under_way() -> None:
    """The broker replays messages although their consumer has no permits; a redelivery is requested meanwhile."""
    known = "look-ahead-skips-unordered-replay"
    of_d, of_c = (HashRange(1, HASH_B),), (HashRange(HASH_B + 1, AUTO_SPLIT_HASHES.last),)

    def looked(*numbers: int, permits: int = 0, in_replay: int = 1) -> Happened:
        shares = share("c", *numbers, ranges=of_c, permits=permits), share("d", ranges=of_d)
        return waiting(gathers(*shares), in_replay=in_replay)

    begin = [*sent(A, B), *joins("c", "d", out_of_order=True), looked(1, permits=1)]
    stalled = looked(permits=1, in_replay=2)
    answer = judged(*begin, fails("c", 1), stalled)
    assert isinstance(answer, Broken)
    assert answer.deviation == "look-ahead-skips-unordered-replay"
    assert broken(*begin, fails("c", 1), stalled, known=known) is None
    alone = looked(permits=1, in_replay=1)
    assert broken(*begin, fails("c", 1), alone, known=known) == "KEY-08", "no other message is in the replay queue"
    reads_on = gathers(share("c", ranges=of_c, permits=1), share("d", ranges=of_d), in_replay=2)
    assert broken(*begin, fails("c", 1), reads_on, known=known) == "KEY-08", "the broker does not wait"
    ordered = [*sent(A, B), *joins("c", "d"), looked(1, permits=1)]
    assert broken(*ordered, fails("c", 1), stalled, known=known) == "KEY-08", "it replays only what it can dispatch"
    began = [*sent(A, B), *joins("c", "d", out_of_order=True), looked(permits=0, in_replay=2)]
    assert broken(*began, stalled, known=known) is not None, "nothing happened since the last look"


def test_a_marker_is_a_new_message_too_at_any_time() -> None:
    known = "look-ahead-skips-replay"
    create, *rest = sent(A)
    at_home = (replace(create[0], clusters=2, home=HOME), *create[1:])
    first = waiting(gathers(share("c", ranges=ALL), share("d", ranges=NONE)))
    stalled = gathers(share("c", ranges=ALL, permits=1), share("d", ranges=NONE))
    raced = waiting(stalled, in_replay=1)
    assert broken(at_home, *rest, *joins("c", "d"), first, permits("c"), raced, known=known) is None
    assert broken(at_home, *rest, *joins("c", "d"), first, permits("c"), stalled, known=known) == "KEY-13"
    assert broken(create, *rest, *joins("c", "d"), first, permits("c"), raced, known=known) == "KEY-13"


def test_a_look_ahead_may_have_skipped_earlier_permits_only_while_messages_were_unread() -> None:
    """A new message may be read after a look-ahead that had nothing to wait for."""
    known = "look-ahead-skips-replay"
    first = gathers(share("c", ranges=ALL), share("d", ranges=NONE))
    raced = waiting(gathers(share("c", ranges=ALL, permits=1), share("d", ranges=NONE)), in_replay=2)
    begin = [*sent(A), *joins("c", "d"), waiting(first), more(Position(1, 1), 2, A)]
    assert broken(*begin, first, permits("c"), raced, known=known) is None
    assert broken(*begin, gathers(share("c", ranges=ALL, permits=1), share("d")), raced, known=known) == "KEY-13"


def test_new_permits_dispatch_the_messages_that_a_look_ahead_skipped() -> None:
    known = "look-ahead-skips-replay"
    first = gathers(share("c", ranges=ALL), share("d", ranges=NONE))
    raced = waiting(gathers(share("c", ranges=ALL, permits=1), share("d", ranges=NONE)), in_replay=1)
    stalled = [*sent(A), *joins("c", "d"), waiting(first), more(Position(1, 1), 2, A), permits("c"), raced]
    assert broken(*stalled, raced, known=known) is None, "nothing ended it"
    assert broken(*stalled, permits("c"), raced, known=known) == "KEY-13"
    assert broken(*stalled, more(Position(1, 2), 3, A), permits("c"), raced, known=known) is None, "once more"


def test_a_look_ahead_skips_permits_if_the_last_consumer_with_permits_left_before_the_read() -> None:
    """The broker set its flag to skip a replay, and no read cleared it: none finds a consumer with permits."""
    known = "look-ahead-skips-replay"

    def looked(*, permits: int, in_replay: int) -> Happened:
        return waiting(gathers(share("c"), share("d", 2, permits=permits)), in_replay=in_replay)

    begin = [*sent(A, B), *joins("c", "d")]
    stalled = waiting(gathers(share("c", ranges=ALL, permits=1)), in_replay=2)
    blocked = looked(permits=1, in_replay=1)
    answer = judged(*begin, blocked, leaves("d"), permits("c"), stalled)
    assert isinstance(answer, Broken)
    assert answer.deviation == "look-ahead-skips-replay"
    assert broken(*begin, blocked, leaves("d"), permits("c"), stalled, known=known) is None
    assert broken(*begin, blocked, permits("c"), leaves("d"), stalled, known=known) == "KEY-13", "a read found permits"
    assert broken(*begin, looked(permits=0, in_replay=1), leaves("d"), permits("c"), stalled, known=known) == "KEY-13"
    assert broken(*begin, looked(permits=1, in_replay=0), leaves("d"), permits("c"), stalled, known=known) == "KEY-13"
    came = waiting(gathers(share("c", 1, ranges=ALL, permits=1)), in_replay=1)
    assert broken(*begin, blocked, leaves("d"), permits("c"), came, known=known) == "KEY-13", "a read cleared the flag"


def test_permits_and_a_redelivery_request_just_before_the_last_consumer_with_permits_leaves_change_nothing() -> None:
    known = "look-ahead-skips-replay"
    begin = [*sent(A, B), *joins("c", "d"), waiting(gathers(share("c", 1), share("d", 2, permits=1)), in_replay=0)]
    stalled = waiting(gathers(share("c", ranges=ALL, permits=1)), in_replay=2)
    asked = [permits("d"), fails("c", 1)]
    assert broken(*begin, *asked, leaves("d"), permits("c"), stalled, known=known) is None
    assert broken(*begin, *asked, permits("c"), leaves("d"), stalled, known=known) == "KEY-08", "a read found permits"
    assert broken(*begin, leaves("d"), permits("c"), stalled, known=known) == "KEY-13", "nothing was to be replayed"
    begin[-1] = waiting(gathers(share("c", 1), share("d", 2)), in_replay=0)
    assert broken(*begin, *asked, leaves("d"), permits("c"), stalled, known=known) is None, "permits since the look"
    assert broken(*begin, asked[1], leaves("d"), permits("c"), stalled, known=known) == "KEY-08", "it had no permits"


def test_a_new_message_overtakes_a_requested_one_while_no_consumer_has_permits() -> None:
    """The replay queue has no hash for the requested message until it is read, and nobody had permits for that."""
    known = "new-message-overtakes-replay"
    begin = [*sent(ONE), *joins("c"), gathers(share("c", 1)), fails("c", 1)]
    without_permits = waiting(gathers(share("c", ranges=ALL, permits=0)), in_replay=1)
    news = [more(Position(1, 1), 2, OTHER), permits("c")]
    received = share("c", 2, 1, ranges=ALL, permits=1)
    overtaken = gathers(replace(received, messages=(message(2), message(1, 1))))
    answer = judged(*begin, without_permits, *news, overtaken)
    assert isinstance(answer, Broken)
    assert (answer.rule, answer.deviation) == ("KEY-09", known)
    assert broken(*begin, without_permits, *news, overtaken, known=known) is None
    assert broken(*begin, *news, overtaken, known=known) == "KEY-09", "it may have had permits before"
    empty = waiting(gathers(share("c", ranges=ALL, permits=0)))
    assert broken(*begin, empty, *news, overtaken, known=known) == "KEY-09", "the replay queue is empty"
