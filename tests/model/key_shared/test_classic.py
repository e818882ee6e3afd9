"""With the classic implementation, too, whatever is due is dispatched (KEY-16)."""

from __future__ import annotations

from msgspec.structs import replace

from model.events import Acknowledged, Done, DueReceived, Subscribed
from model.judgement import Broken
from model.key_shared.hashes import CLASSIC_HASHES, STICKY_HASHES, keys_of, sticky_hash
from model.log import Position
from model.subscription_operations import Acknowledge, Skip, Subscribe
from model.vocabulary import HashRange
from tests.model.key_shared.test_look_ahead import waiting
from tests.model.key_shared.test_order import (
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
    share,
)
from tests.verdicts import Happened, deviates, exercised, judged

MIDDLE = len(CLASSIC_HASHES) // 2
HALVES = (HashRange(1, MIDDLE), HashRange(MIDDLE + 1, CLASSIC_HASHES.last))
LOW, HIGH = (next(keys_of(half, within=CLASSIC_HASHES)) for half in HALVES)


def look(*, c: tuple[int, ...] = (), d: tuple[int, ...] = (), permits: tuple[int, int] = (9, 9)) -> Happened:
    """What both receive; the lower half of the hashes is assigned to ``c``, the other one to ``d``."""
    shares = zip("cd", (c, d), HALVES, permits, strict=True)
    return gathers(*(share(name, *got, ranges=(half,), permits=count) for name, got, half, count in shares))


def test_a_message_that_nobody_has_goes_to_the_consumer_of_its_hash_that_has_permits() -> None:
    begin = [*classic(LOW, HIGH), *joins("c", "d")]
    assert sticky_hash(LOW.encode(), CLASSIC_HASHES) in HALVES[0]
    assert broken(*begin, look(c=(1,), d=(2,))) is None
    assert broken(*begin, look(c=(1,))) == "KEY-16"
    assert broken(*begin, look(c=(1,), permits=(9, 0))) is None
    assert "KEY-16" in exercised(*begin, look(c=(1,), permits=(9, 0)))


def test_later_messages_of_a_key_wait_for_those_before_them() -> None:
    begin = [*classic(LOW, LOW), *joins("c", "d")]
    assert broken(*begin, look(permits=(0, 9))) is None
    assert broken(*begin, look(c=(1,))) == "KEY-16"


def test_while_a_consumer_is_recently_joined_only_the_first_message_left_must_come() -> None:
    begin = [*classic(LOW, LOW, HIGH), *joins("c"), gathers(share("c", 1)), *joins("d")]
    assert broken(*begin, look()) is None
    assert broken(*begin, leaves("c"), gathers(share("d", permits=9, ranges=(CLASSIC_HASHES,)))) == "KEY-16"
    assert broken(*begin, acknowledges("c", 1), look()) == "KEY-16"
    assert broken(*begin, acknowledges("c", 1), look(c=(2,))) is None


def test_a_recently_joined_consumer_may_wait_for_a_message_whose_ack_may_be_lost() -> None:
    begin = [*classic(LOW, HIGH), *joins("c"), gathers(share("c", 1)), *joins("d", "e")]
    may_be_lost: Happened = (Acknowledge("c", (0,)), Acknowledged((message(1),)))

    def then(*of_d: int) -> Happened:
        return gathers(share("d", *of_d, ranges=(HALVES[0],), permits=9), share("e", ranges=(HALVES[1],), permits=9))

    assert broken(*begin, may_be_lost, leaves("c"), then(1)) is None
    assert broken(*begin, may_be_lost, leaves("c"), then()) is None
    assert broken(*begin, acknowledges("c", 1), leaves("c"), then()) == "KEY-16"


def test_once_everything_read_before_is_acknowledged_a_consumer_that_joined_waits_for_nothing() -> None:
    begin = [*classic(HIGH, HIGH), *joins("c"), gathers(share("c", 1, 2)), *joins("d"), acknowledges("c", 1)]
    more = [acknowledges("c", 2), fails("c", 2)]
    assert broken(*begin, look()) is None
    assert broken(*begin, *more, look()) is None


def test_messages_without_a_key_are_not_judged() -> None:
    assert broken(*classic(LOW, None), *joins("c", "d"), look(c=(1,))) is None


def test_a_leavers_message_may_wait_for_the_consumer_of_the_lowest_hashes_only() -> None:
    known = "pending-acks-without-hash"
    begin = [*classic(HIGH, HIGH), *joins("a", "c", "d"), gathers(share("a", 1)), leaves("a")]
    assert broken(*begin, look(permits=(0, 9))) == "KEY-16"
    answer = judged(*begin, look(permits=(0, 9)))
    assert isinstance(answer, Broken)
    assert answer.deviation == known
    assert broken(*begin, look(permits=(0, 9)), known=known) is None
    assert broken(*begin, look(permits=(9, 9)), known=known) == "KEY-16"
    never_delivered = [*classic(HIGH), *joins("c", "d")]
    assert broken(*never_delivered, look(permits=(0, 9)), known=known) == "KEY-16"
    all_left = [*begin, leaves("c"), leaves("d"), *joins("c", "d"), look(permits=(0, 9))]
    assert broken(*all_left, known=known) == "KEY-16", "it is read again"


def test_a_look_ahead_may_skip_the_replay_queue_after_a_new_message() -> None:
    """Acks and leaves that arrive during a dispatch trigger no replay, and the next read waits for a new message."""
    known = "look-ahead-skips-replay"
    begin = [*classic(HIGH, LOW), *joins("c", "d", "e")]
    first = gathers(
        *(
            share(name, permits=0, ranges=ranges)
            for name, ranges in zip("cde", ((HALVES[0],), (HALVES[1],), ()), strict=True)
        )
    )
    seen = [*begin, waiting(first, in_replay=2)]
    new_message = more(Position(1, 2), 3, LOW)
    stalled = waiting(look(), in_replay=3)
    answer = judged(*seen, new_message, leaves("e"), stalled)
    assert isinstance(answer, Broken)
    assert (answer.rule, answer.deviation) == ("KEY-16", known)
    assert broken(*seen, new_message, leaves("e"), stalled, known=known) is None
    assert broken(*seen, new_message, leaves("e"), stalled, look(), known=known) is None, "it still waits"
    assert broken(*seen, new_message, leaves("e"), stalled, permits("c"), look(), known=known) == "KEY-16"
    assert broken(*seen, leaves("e"), stalled, known=known) == "KEY-16", "no new message was read"
    assert broken(*seen, new_message, stalled, known=known) == "KEY-16", "nothing had it read"
    assert broken(*seen, new_message, leaves("e"), look(), known=known) == "KEY-16", "the broker does not wait"
    assert broken(*seen, new_message, leaves("e"), waiting(look()), known=known) == "KEY-16", "nothing waits for replay"


def test_messages_that_cannot_be_dispatched_crowd_out_later_ones_only_if_they_exhaust_the_permits() -> None:
    """The dispatcher takes as many messages from the replay queue as there are permits, and then omits some."""
    known = "replay-filtered-after-limit"
    begin = [*classic(LOW, LOW, HIGH), *joins("c", "d"), gathers(share("c", permits=0), share("d", 3, permits=0))]
    again = [*begin, fails("d", 3), permits("d")]
    crowded = waiting(look(permits=(0, 2)), in_replay=3)
    answer = judged(*again, crowded)
    assert isinstance(answer, Broken)
    assert (answer.rule, answer.deviation) == ("KEY-16", known)
    assert broken(*again, crowded, known=known) is None
    assert broken(*again, waiting(look(permits=(0, 3)), in_replay=3), known=known) == "KEY-16", "a permit is left"
    assert broken(*again, waiting(look(permits=(0, 2)), in_replay=2), known=known) == "KEY-16", (
        "they are not all queued"
    )
    assert broken(*again, look(permits=(0, 2)), known=known) == "KEY-16", "the broker does not wait"


THIRD = len(CLASSIC_HASHES) // 3
THIRDS = (HashRange(1, THIRD), HashRange(THIRD + 1, 2 * THIRD), HashRange(2 * THIRD + 1, CLASSIC_HASHES.last))
OF_C, OF_D, OF_E = (next(keys_of(third, within=CLASSIC_HASHES)) for third in THIRDS)


def waits(*permits: int, got: tuple[int, ...] = ()) -> Happened:
    """The broker waits for a new entry. ``c``, ``d`` and ``e`` have these permits; ``e`` received these messages."""
    shares = zip("cde", ((), (), got), THIRDS, permits, strict=True)
    read = gathers(*(share(name, *arrived, ranges=(own,), permits=count) for name, arrived, own, count in shares))
    return waiting(read)


def test_permits_are_ignored_only_of_a_consumer_that_had_none_while_another_one_has_none() -> None:
    """A dispatch that sends nothing makes consumers without permits stuck, and the next one sends them nothing."""
    known = "permits-of-stuck-consumer-ignored"
    begin = [*classic(OF_C, OF_D), *joins("c", "d", "e")]
    seen, stalled = [*begin, waits(0, 0, 9)], waits(1, 0, 9)
    answer = judged(*seen, permits("c"), stalled)
    assert isinstance(answer, Broken)
    assert (answer.rule, answer.deviation) == ("KEY-16", known)
    assert broken(*seen, permits("c"), stalled, known=known) is None
    assert broken(*seen, permits("c"), stalled, stalled, known=known) is None, "it still waits"
    for again in (permits("c"), permits("d"), permits("e"), leaves("e")):
        assert broken(*seen, permits("c"), stalled, again, stalled, known=known) == "KEY-16", "it read again"
    assert broken(*seen, permits("e"), stalled, known=known) == "KEY-16", "another consumer added permits"
    assert broken(*begin, waits(1, 0, 9), known=known) == "KEY-16", "nobody added permits"
    assert broken(*seen, permits("c"), waits(1, 1, 9), known=known) == "KEY-16", "all have permits"
    look, looked = stalled[:2]
    assert isinstance(looked, DueReceived)
    reads: Happened = (look, replace(looked, is_waiting=False))
    assert broken(*seen, permits("c"), reads, known=known) == "KEY-16", "the broker does not wait"
    nobody = [*begin, waits(0, 0, 0)]
    assert broken(*nobody, permits("c"), waits(1, 0, 0), known=known) == "KEY-16", "nothing was read"
    left = [*seen, leaves("e"), waits(0, 0, 0)]
    assert broken(*left, permits("c"), waits(1, 0, 0), known=known) is None, "e had permits before"
    alone = [*classic(OF_C), *joins("c", "d", "e"), waits(0, 0, 9)]
    assert broken(*alone, permits("c"), waits(1, 0, 9), known=known) == "KEY-16", "no message of another one waits"


def test_a_stuck_consumer_receives_its_messages_once_another_message_was_dispatched() -> None:
    known = "permits-of-stuck-consumer-ignored"
    seen = [*classic(OF_C, OF_D), *joins("c", "d", "e"), waits(0, 0, 9)]
    new_message, received = more(Position(1, 2), 3, OF_E), waits(1, 0, 8, got=(3,))
    assert broken(*seen, new_message, permits("c"), received, known=known) is None, "it was dispatched before"
    assert broken(*seen, permits("c"), waits(1, 0, 9), new_message, received, known=known) == "KEY-16"


def test_a_stuck_consumer_receives_its_messages_once_a_redelivery_was_requested() -> None:
    known = "permits-of-stuck-consumer-ignored"
    seen = [*classic(OF_C, OF_D, OF_E), *joins("c", "d", "e"), waits(0, 0, 1, got=(3,)), permits("c"), waits(1, 0, 1)]
    assert broken(*seen, waits(1, 0, 0), known=known) is None
    assert broken(*seen, fails("e", 3), waits(1, 0, 0), known=known) == "KEY-16"


def test_no_consumer_is_stuck_with_out_of_order_delivery() -> None:
    """The dispatcher then has no recently joined consumers, and looks at stuck ones only if it has those."""
    begin = [*classic(OF_C, OF_D), *joins("c", "d", "e", out_of_order=True), waits(0, 0, 9), permits("c")]
    assert broken(*begin, waits(1, 0, 9), known="permits-of-stuck-consumer-ignored") == "KEY-16"


def test_no_consumer_is_stuck_while_one_is_recently_joined() -> None:
    known = "permits-of-stuck-consumer-ignored"
    published = classic(OF_C, OF_E, OF_D)
    received, later = waits(0, 0, 9, got=(2,)), [permits("c"), waits(1, 0, 9)]
    assert broken(*published, *joins("c", "d", "e"), received, *later, known=known) is None
    shares = zip("ce", ((), (2,)), ((THIRDS[0], THIRDS[1]), (THIRDS[2],)), (0, 9), strict=True)
    before = gathers(*(share(name, *got, ranges=ranges, permits=count) for name, got, ranges, count in shares))
    begin = [*published, *joins("c", "e"), waiting(before), *joins("d"), waits(0, 0, 9)]
    assert broken(*begin, *later, known=known) == "KEY-16"


def test_a_skip_may_stall_recently_joined_consumers_only_until_the_broker_looks_at_them() -> None:
    known = "recently-joined-outlives-skip"
    begin = [*classic(LOW, LOW, HIGH, HIGH), *joins("c"), gathers(share("c", 1, 2, permits=0))]
    joined = [*begin, *joins("d"), permits("d"), look(permits=(0, 9))]
    skip: Happened = (Skip("t", "s", 2), Done())
    waits = look(permits=(0, 9))
    answer = judged(*joined, skip, waits)
    assert isinstance(answer, Broken)
    assert (answer.rule, answer.deviation) == ("KEY-16", known)
    assert broken(*joined, skip, waits, waits, known=known) is None
    assert broken(*joined, skip, waits, permits("d"), waits, known=known) is None
    assert broken(*joined, skip, waits, permits("c"), waits, known=known) == "KEY-16"
    received = look(d=(3,), permits=(0, 9))
    assert broken(*joined, skip, received, acknowledges("d", 3), waits, known=known) == "KEY-16"
    assert broken(*begin, skip, waits, known=known) == "KEY-16", "nobody joined"


def alone(*got: int, again: bool = False) -> Happened:
    """``e`` is the only consumer left, has permits, and received these messages."""
    return gathers(share("e", *got, ranges=(CLASSIC_HASHES,), permits=9, again=again))


def test_the_last_leave_stalls_a_recently_joined_consumer_only_until_something_triggers_a_read() -> None:
    known = "recently-joined-cleared-without-read"
    begin = [*classic(LOW, HIGH), *joins("c"), gathers(share("c", 1)), *joins("d", "e"), permits("e")]
    left = [*begin, leaves("c"), alone(1), leaves("d")]
    answer = judged(*left, alone())
    assert isinstance(answer, Broken)
    assert (answer.rule, answer.deviation) == ("KEY-16", known)
    assert broken(*left, alone(), known=known) is None
    assert broken(*begin, leaves("c"), leaves("d"), alone(1), alone(), known=known) is None, "it was replayed before"
    new_message = more(Position(1, 2), 3, LOW)
    for lasts in (acknowledges("e", 1), new_message):
        assert broken(*left, alone(), lasts, alone(), known=known) is None, "it triggers no read"
    assert broken(*left, permits("e"), alone(), known=known) == "KEY-16"
    assert broken(*left, fails("e", 1), alone(1, again=True), known=known) == "KEY-16"
    assert broken(*left, *joins("f"), leaves("f"), alone(), known=known) == "KEY-16"
    assert broken(*left, alone(), alone(2), new_message, alone(), known=known) == "KEY-16", "it has read again"


def test_the_last_leave_stalls_nothing_that_the_broker_read_or_has_a_reason_to_read() -> None:
    known = "recently-joined-cleared-without-read"
    begin = [*classic(LOW, HIGH), *joins("c"), gathers(share("c", 1)), *joins("d", "e"), permits("e")]
    left = [*begin, leaves("c"), alone(1), leaves("d")]
    assert broken(*left, waiting(alone()), known=known) == "KEY-16", "the broker waits for a new entry"
    look, looked = alone()[:2]
    assert isinstance(looked, DueReceived)
    queued: Happened = (look, replace(looked, in_replay=1))
    assert broken(*left, queued, known=known) == "KEY-16", "the replay queue has a message"
    assert broken(*begin, leaves("d"), leaves("c"), alone(1), known=known) == "KEY-16", "the last one had a message"
    nobody_joined = [*classic(LOW, HIGH), *joins("d", "e"), leaves("d"), alone()]
    assert broken(*nobody_joined, known=known) == "KEY-16", "nothing was read when it joined"
    joined = [*classic(LOW), *joins("c"), gathers(share("c", 1)), *joins("d", "e"), permits("e")]
    acknowledged = [*joined, leaves("c"), alone(1), acknowledges("e", 1), leaves("d")]
    assert broken(*acknowledged, more(Position(1, 1), 2, HIGH), alone(), known=known) == "KEY-16", (
        "all that was read is acknowledged"
    )
    others = [*begin, *joins("f"), leaves("c"), alone(1), acknowledges("e", 1), leaves("d"), alone()]
    assert broken(*others, known=known) == "KEY-16", "another consumer is left"
    read = [*classic(LOW, HIGH, LOW), *joins("c", "d"), look_at_two(), *joins("e"), permits("e")]
    assert broken(*read, leaves("c"), alone(1, 3), leaves("d"), alone(), known=known) == "KEY-16", "it was read before"
    out_of_order = [*classic(LOW, HIGH), *joins("c", out_of_order=True), gathers(share("c", 1))]
    out_of_order += [*joins("d", "e", out_of_order=True), permits("e"), leaves("c"), alone(1), leaves("d")]
    assert broken(*out_of_order, alone(), known=known) == "KEY-16", "it is never recently joined"


def look_at_two() -> Happened:
    """``c`` receives the first and the third message; ``d``, to which the second one is assigned, has no permits."""
    return look(c=(1, 3), permits=(0, 0))


def test_a_consumer_may_be_recently_joined_if_another_one_had_permits_before_it_joined() -> None:
    begin = [*classic(LOW, HIGH), *joins("c")]
    given = look(c=(1,), permits=(0, 9))
    assert broken(*begin, permits("c"), *joins("d"), given) is None
    assert broken(*begin, *joins("d"), permits("c"), given) == "KEY-16"
    nothing_sent = [*classic()[:3], *joins("c"), gathers(share("c", permits=1, ranges=(CLASSIC_HASHES,)))]
    news = [more(Position(1, 0), 1, LOW), more(Position(1, 1), 2, HIGH)]
    assert broken(*nothing_sent, *news, *joins("d"), given) is None
    queue = (Subscribe("c", "t", "s", kind="Key_Shared", queue=3), Subscribed())
    assert broken(*classic(LOW, HIGH), queue, *joins("d"), given) is None


def test_an_unclaimed_hash_keeps_only_later_messages_from_being_read_and_only_while_the_broker_reads() -> None:
    """c claims a quarter of the hashes, d another one, and nobody the rest."""
    known = "unclaimed-hash-read-again"
    quarter = (STICKY_HASHES.last + 1) // 4
    first, second, rest = (HashRange(n * quarter, (n + 1) * quarter - 1) for n in range(3))
    of_c, of_d, of_nobody = (next(keys_of(own, within=STICKY_HASHES)) for own in (first, second, rest))
    claims = [
        (Subscribe(name, "t", "s", kind="Key_Shared", sticky=((own.first, own.last),)), Subscribed())
        for name, own in (("c", first), ("d", second))
    ]

    def reads(permits_of_d: int = 9) -> Happened:
        return gathers(share("c", ranges=(first,), permits=9), share("d", ranges=(second,), permits=permits_of_d))

    blocked = [*classic(of_nobody, of_c), *claims]
    answer = judged(*blocked, reads())
    assert isinstance(answer, Broken)
    assert (answer.rule, answer.deviation) == ("KEY-16", known)
    assert broken(*blocked, reads(), known=known) is None
    assert broken(*blocked, waiting(reads()), known=known) == "KEY-16", "the broker waits for a new entry"
    assert broken(*classic(of_c, of_nobody), *claims, reads(), known=known) == "KEY-16", "it comes before"
    between = [*classic(of_nobody, of_d, of_c), *claims]
    assert broken(*between, reads(), known=known) is None
    assert broken(*between, reads(permits_of_d=0), known=known) == "KEY-16", "d lacks permits"


def test_a_message_is_dropped_only_if_it_was_read_while_no_consumer_claimed_its_hash() -> None:
    """c claims one half of the hashes at first, and d the other half later."""
    known = "unclaimed-message-dropped"
    half = (STICKY_HASHES.last + 1) // 2
    halves = HashRange(0, half - 1), HashRange(half, STICKY_HASHES.last)
    of_d = next(keys_of(halves[1], within=STICKY_HASHES))
    c, d = (
        (Subscribe(name, "t", "s", kind="Key_Shared", sticky=((own.first, own.last),)), Subscribed())
        for name, own in zip("cd", halves, strict=True)
    )

    def alone(permits: int) -> Happened:
        return waiting(gathers(share("c", ranges=halves[:1], permits=permits)))

    both = waiting(gathers(share("c", ranges=halves[:1], permits=9), share("d", ranges=halves[1:], permits=9)))
    read = [*classic(of_d), c, alone(9), d]
    assert deviates(known, *read, both)
    assert broken(*read, both, both, known=known) is None, "it still is"
    assert broken(*classic(of_d), c, alone(0), d, both, known=known) == "KEY-16", "nothing was read"
    assert broken(*read[:-1], leaves("c"), c, d, both, known=known) == "KEY-16", "the broker began again"
    later = waiting(gathers(share("c", ranges=halves[:1], permits=9), share("d", 2, ranges=halves[1:], permits=9)))
    assert broken(*read, more(Position(1, 1), 2, of_d), later) == "KEY-02"
    assert broken(*read, more(Position(1, 1), 2, of_d), later, known=known) is None
    assert broken(*classic(of_d), c, d, more(Position(1, 1), 2, of_d), later, known=known) == "KEY-02"
