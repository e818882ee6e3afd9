"""An excuse ends with its cause: what goes wrong later, elsewhere, or by more is found.

Each history has the cause of an excuse, and then another mistake. As long as the excuse lasted for the rest of an
example, or concerned everything, none of these mistakes was found.
"""

from __future__ import annotations

from functools import partial

import pytest
from msgspec.structs import replace

from model.deviations import DEVIATIONS, counted
from model.events import (
    Acknowledged,
    ConsumerRead,
    CursorRead,
    Delivery,
    Done,
    Expired,
    MessagePeeked,
    Range,
    ReceivedMessages,
    RedeliveryRequested,
    Starved,
)
from model.judgement import Allowed, Broken
from model.log import Position
from model.operations import Terminate, Unload
from model.subscription_operations import (
    AckById,
    Acknowledge,
    CloseConsumer,
    CrashConsumer,
    CutDuring,
    Expire,
    Nack,
    PeekMessage,
    ReadCursor,
    Receive,
    Skip,
)
from model.vocabulary import LoseThenCut
from tests import verdicts
from tests.model import test_subscriptions as shared
from tests.model.key_shared.test_order import (
    ALL,
    NONE,
    A,
    B,
    acknowledges,
    broken,
    classic,
    fails,
    gathers,
    joins,
    leaves,
    more,
    permits,
    sent,
    share,
)
from tests.model.key_shared.test_stalls import HALVES, HIGH, LOW
from tests.verdicts import Happened

EVERYTHING = frozenset(DEVIATIONS)


def skips(number: int) -> Happened:
    return Skip("t", "s", number), Done()


def counts(number: int, *, backlog: int, mark_delete: Position, by: str = "c1") -> Happened:
    """The stats of the subscription, with this many messages at a consumer."""
    arrived = (ConsumerRead(by, (), number),)
    return ReadCursor("t0", "s0"), CursorRead(mark_delete, (), backlog, number, arrived)


def test_a_check_that_only_a_known_deviation_passed_is_excused_and_not_exercised() -> None:
    seen = Allowed(None, ("ACK-13", "ACK-13", "ACK-01"), ("nack-backoff-missing",), ("KEY-11",))
    told = counted(seen)
    assert (told.exercised, told.excused) == (("ACK-13", "ACK-01"), ("KEY-11", "ACK-13"))


# --------------------------------------------------------------------------------------- administrators' operations


def test_after_a_skip_other_hashes_must_still_be_dispatched() -> None:
    begin = [*sent(A, B), *joins("c"), gathers(share("c", 1, ranges=ALL)), skips(1)]
    assert broken(*begin, gathers(share("c", ranges=ALL, permits=1)), known=EVERYTHING) == "KEY-13"
    assert broken(*begin, gathers(share("c", 2, ranges=ALL))) is None


def test_after_a_skip_the_skipped_hash_may_wait_until_its_consumer_acknowledges_or_leaves() -> None:
    begin = [*sent(A, A), *joins("c"), gathers(share("c", 1, ranges=ALL)), skips(1)]
    nothing = gathers(share("c", ranges=ALL, permits=1))
    assert broken(*begin, nothing) is None
    assert broken(*begin, acknowledges("c", 1), nothing, known=EVERYTHING) == "KEY-13"


# --------------------------------------------------------------------------------------------- redelivery requests


def asks_twice(*keys: str) -> list[Happened]:
    """Consumer c requests redelivery of the first message twice, while something may be on its way."""
    begin = [*sent(*keys), *joins("c", "d"), gathers(share("c", 1), share("d")), permits("c")]
    return [*begin, fails("c", 1), fails("c", 1), gathers(share("c", 1, again=True), share("d"))]


def test_after_two_redelivery_requests_other_hashes_must_still_be_dispatched() -> None:
    starved = gathers(share("c", ranges=ALL, permits=1), share("d", ranges=NONE))
    assert broken(*asks_twice(A, B), starved, known=EVERYTHING) == "KEY-13"


def test_after_two_redelivery_requests_keys_of_other_messages_stay_at_one_consumer() -> None:
    begin = [*asks_twice(A, B, B), gathers(share("c", 2), share("d"))]
    assert broken(*begin, gathers(share("c"), share("d", 3))) == "KEY-01"
    again = [*begin, gathers(share("c"), share("d", 1, again=True))]
    assert broken(*again) is None, "the message itself may come to either"


def test_after_two_redelivery_requests_an_acknowledged_message_is_delivered_once() -> None:
    begin = [*asks_twice(A, B, B), gathers(share("c", 2), share("d"))]
    assert broken(*begin, gathers(share("c"), share("d", 2))) in ("KEY-01", "ACK-12", "ACK-13")


def test_a_message_requested_twice_makes_one_message_uncertain_in_the_count() -> None:
    begin = (*shared.topic(1, 1, 1), shared.subscribed("c2", queue=5))
    first, second, third = (shared.single(number) for number in range(3))
    asked = (
        shared.taken(first, by="c2", settled=False),
        shared.failed(first, by="c2"),
        shared.failed(first, by="c2"),
        shared.taken(shared.single(0, redeliveries=1), second, third, by="c2"),
    )
    begin_at = Position(1, -1)
    for number in (2, 3):
        assert isinstance(
            shared.judged(*begin, *asked, counts(number, backlog=3, mark_delete=begin_at, by="c2")), Allowed
        )
    for number in (1, 5):
        wrong = counts(number, backlog=3, mark_delete=begin_at, by="c2")
        assert shared.rule_broken(*begin, *asked, wrong) == "SERVE-04"


# ------------------------------------------------------------------------ what an administrator skipped meanwhile

SKIPPED: Happened = (Skip("t0", "s0", 1), Done())
BOTH = ("skipped-messages-still-counted", "dropped-pending-acks-still-counted")


@pytest.mark.parametrize("skipped", [SKIPPED, (Expire("t0", "s0", "b1"), Expired())], ids=["skip", "expiry"])
def test_a_count_includes_what_was_skipped_by_a_deviation_and_nothing_else(skipped: Happened) -> None:
    known = "skipped-messages-still-counted"
    history = (*shared.topic(1, 1, 1), shared.subscribed("c2"), shared.taken(shared.single(0), shared.single(1)))
    one, two, three = (counts(number, backlog=2, mark_delete=shared.at(0)) for number in (1, 2, 3))
    assert isinstance(shared.judged(*history, skipped, one), Allowed)
    assert shared.deviation_met(*history, skipped, two, known=known)
    none = counts(0, backlog=2, mark_delete=shared.at(0))
    for wrong in (none, three):
        assert shared.rule_broken(*history, skipped, wrong, known=known) == "SERVE-04"
    returned: Happened = (Nack("c1"), RedeliveryRequested((shared.single(1),)))
    assert shared.rule_broken(*history, skipped, returned, one, known=known) == "SERVE-04"
    assert isinstance(shared.judged(*history, skipped, returned, none), Allowed)


def test_of_a_skipped_batch_the_parts_count_by_a_deviation_each() -> None:
    """Once it acknowledges a part once more, 3.3.6 still counts the others, and 4.0.8 all of them."""
    parts = tuple(shared.part(index, 3) for index in range(3))
    skipped: tuple[Happened, ...] = (shared.taken(*parts), SKIPPED)
    history = (*shared.topic(3, 1), *skipped, shared.acknowledged(parts[1]))
    none, two, three = (counts(number, backlog=1, mark_delete=shared.at(0)) for number in (0, 2, 3))
    assert isinstance(shared.judged(*history, none), Allowed)
    assert shared.deviation_met(*history, two, known="skipped-messages-still-counted")
    assert {*verdicts.allowed_by(*history, three, known=BOTH, step_ms=shared.STEP_MS).deviations} == {*BOTH}
    for name in BOTH:
        assert shared.rule_broken(*history, three, known=name) == "SERVE-04"


@pytest.mark.parametrize("once_more", [shared.acknowledged(shared.single(0)), shared.failed(shared.single(0))])
def test_a_consumer_that_acknowledges_once_more_is_counted_exactly_again(once_more: Happened) -> None:
    """Or that nacks what was skipped."""
    history = (*shared.topic(1, 1, 1), shared.taken(shared.single(0), shared.single(1)), (Skip("t0", "s0", 1), Done()))
    history = (*history, once_more)
    known = "dropped-pending-acks-still-counted"
    assert isinstance(shared.judged(*history, counts(1, backlog=2, mark_delete=shared.at(0))), Allowed)
    assert shared.deviation_met(*history, counts(2, backlog=2, mark_delete=shared.at(0)), known=known)
    wrong = counts(3, backlog=2, mark_delete=shared.at(0))
    assert shared.rule_broken(*history, wrong, known=known) == "SERVE-04"


def test_a_subscription_counts_what_was_dropped_at_its_consumer_and_nothing_else() -> None:
    history = (*shared.topic(1, 1, 1), shared.taken(shared.single(0), shared.single(1)), (Skip("t0", "s0", 1), Done()))
    history = (*history, shared.acknowledged(shared.single(0)))
    known = "dropped-pending-acks-still-counted"
    operation, outcome = counts(2, backlog=2, mark_delete=shared.at(0))[:2]
    for number in (1, 3):
        wrong = (operation, replace(outcome, unacknowledged=number))
        assert shared.rule_broken(*history, wrong, known=known) == "SERVE-04"


def test_parts_are_counted_off_again_only_with_a_batch_that_was_skipped_in_part() -> None:
    """A consumer acknowledges two of three; the batch is skipped; it acknowledges the second one once more."""
    known = "skipped-parts-counted-off-again"
    first, second, _ = parts = tuple(shared.part(index, 3) for index in range(3))
    acked = (*shared.topic(3, 1), shared.taken(*parts), shared.acknowledged(first, second))
    skipped = SKIPPED
    again = shared.acknowledged(second)
    assert isinstance(shared.judged(*acked, skipped, again, counts(0, backlog=1, mark_delete=shared.at(0))), Allowed)
    one, still = counts(1, backlog=1, mark_delete=shared.at(0)), "skipped-messages-still-counted"
    assert verdicts.allowed_by(*acked, skipped, again, one, known=still, step_ms=shared.STEP_MS).deviations == (still,)
    too_few, fewer = (counts(number, backlog=1, mark_delete=shared.at(0)) for number in (-1, -9))
    assert shared.deviation_met(*acked, skipped, again, too_few, known=known)
    requested: Happened = (Nack("c1", (2,)), RedeliveryRequested((parts[2],)))
    for counted_off in (again, requested):
        assert shared.deviation_met(*acked, skipped, counted_off, too_few, known=known)
        assert shared.rule_broken(*acked, skipped, counted_off, fewer, known=known) == "SERVE-04"
    assert shared.rule_broken(*acked, skipped, too_few, known=known) == "SERVE-04"
    not_skipped = counts(0, backlog=2, mark_delete=Position(0, -1))
    assert shared.rule_broken(*acked, again, not_skipped, known=known) == "SERVE-04"


def test_parts_are_counted_off_again_once_if_a_batch_was_acknowledged_in_parts_and_one_is_acknowledged_again() -> None:
    known = "skipped-parts-counted-off-again"
    first, second = parts = tuple(shared.part(index, 2) for index in range(2))
    others = (Delivery(shared.at(number), -1, 0, f"b{number + 2}", 0) for number in (1, 2))
    given = (*shared.topic(2, 1, 1), shared.taken(*parts, *others))
    in_parts, whole = (shared.acknowledged(first), shared.acknowledged(second)), shared.acknowledged(*parts)
    again = shared.acknowledged(first)
    right, too_low, lower = (counts(number, backlog=2, mark_delete=shared.at(0)) for number in (2, 0, -1))
    assert isinstance(shared.judged(*given, *in_parts, again, right), Allowed)
    assert shared.deviation_met(*given, *in_parts, again, too_low, known=known)
    assert shared.rule_broken(*given, *in_parts, too_low, known=known) == "SERVE-04", "nothing was acknowledged again"
    assert shared.rule_broken(*given, *in_parts, again, again, lower, known=known) == "SERVE-04", "only once"
    assert shared.rule_broken(*given, whole, again, too_low, known=known) == "SERVE-04", "not in parts"
    by_id: Happened = (AckById("c1", ("b2",)), Acknowledged((second,), receipt=True))
    assert shared.deviation_met(*given, in_parts[0], by_id, again, too_low, known=known)
    lower_still = counts(-2, backlog=2, mark_delete=shared.at(0))
    assert shared.deviation_met(*given, in_parts[0], by_id, again, again, lower_still, known=known), "each time"
    first_by_id: Happened = (AckById("c1", ("b1",)), Acknowledged((first,), receipt=True))
    twice = (shared.acknowledged(second), shared.acknowledged(second))
    assert shared.deviation_met(*given, first_by_id, in_parts[1], *twice, lower_still, known=known), "in either order"


def test_parts_are_counted_off_again_while_their_batch_is_in_flight() -> None:
    """Two parts are acknowledged by their ids before the batch arrives, another consumer acknowledges the third."""
    known = "skipped-parts-counted-off-again"
    parts = tuple(shared.part(index, 3) for index in range(3))
    joined = (*shared.topic(3, 1), shared.subscribed("c2", queue=5))

    def acked(name: str, *indexes: int) -> Happened:
        ids = tuple(f"b{index + 1}" for index in indexes)
        return AckById(name, ids), Acknowledged(tuple(parts[index] for index in indexes), receipt=True)

    def shown(number: int) -> Happened:
        arrived = (ConsumerRead("c1", (), 0), ConsumerRead("c2", parts, number))
        return ReadCursor("t0", "s0"), CursorRead(shared.at(0), (), 1, number, arrived)

    history = (*joined, acked("c2", 2, 1), acked("c1", 0))
    assert isinstance(shared.judged(*history, acked("c2", 1), shown(0)), Allowed)
    assert known in verdicts.allowed_by(*history, acked("c2", 1), shown(-1), known=known, step_ms=1000.0).deviations
    assert shared.rule_broken(*history, shown(-1), known=known) == "SERVE-04", "no part was acknowledged again"
    assert shared.rule_broken(*history, acked("c2", 1), shown(-19), known=known) == "SERVE-04"


# ----------------------------------------------------------------------------- acks that outlive their consumer


PARTS = tuple(shared.part(index, 3) for index in range(3))
TAKEN = (*shared.topic(3, 1), shared.taken(*PARTS))
SENT: Happened = (Acknowledge("c1", (0,)), Acknowledged(PARTS))
"""A client acknowledges a batch of three without a receipt, so the broker may not have persisted the ack."""
CLOSED: Happened = (CloseConsumer("c1"), Done())


def in_all(number: int, *at_consumers: str) -> Happened:
    """The stats of the subscription, after the batch was acknowledged; these consumers have no messages."""
    arrived = tuple(ConsumerRead(name, (), 0) for name in at_consumers)
    return ReadCursor("t0", "s0"), CursorRead(shared.at(0), (), 1, number, arrived)


def test_acks_are_subtracted_twice_only_after_the_last_consumer_left_with_them() -> None:
    known = "pending-acks-outlive-last-consumer"
    left = (*TAKEN, SENT, CLOSED)
    for number in (-1, -3):
        assert shared.deviation_met(*left, in_all(number), known=known)
        assert shared.deviation_met(*left, shared.subscribed("c2"), in_all(number, "c2"), known=known)
    crashed: Happened = (CrashConsumer("c1"), Done())
    cut: Happened = (CutDuring(Acknowledge("c1", (0,)), LoseThenCut("ACK_RESPONSE")), Acknowledged(PARTS))
    assert shared.deviation_met(*TAKEN, SENT, crashed, in_all(-3), known=known)
    assert shared.deviation_met(*TAKEN, cut, in_all(-3), known=known)
    another, another_type = shared.subscribed("c2"), shared.subscribed("c2", kind="Key_Shared")
    for history in (
        (*left, in_all(-4)),
        (*left, in_all(1)),
        (*TAKEN, another, SENT, CLOSED, in_all(-3, "c2")),
        (*TAKEN, SENT, in_all(0), CLOSED, in_all(-3)),
        (*TAKEN, shared.acknowledged(*PARTS), CLOSED, in_all(-3)),
        (*left, shared.UNLOADED, in_all(-3)),
        (*left, another_type, in_all(-3, "c2")),
    ):
        assert shared.rule_broken(*history, known=known) == "SERVE-04"


def test_parts_of_a_batch_are_subtracted_once_for_each_of_them_with_an_ack_that_is_persisted() -> None:
    """Seen on 5.0.0-M1: -10 after one message and three parts of four."""
    known = "pending-acks-outlive-last-consumer"
    parts = tuple(Delivery(shared.at(1), index, 4, f"b{index + 2}", 0) for index in range(3))
    given = (*shared.topic(1, 4), shared.taken(shared.single(0), *parts))
    with_one: Happened = (Acknowledge("c1", (0,)), Acknowledged((shared.single(0), *parts)))
    alone: Happened = (Acknowledge("c1", (0,)), Acknowledged(parts))

    def low(number: int, mark_delete: Position, backlog: int) -> Happened:
        return shared.read(mark_delete, backlog=backlog, unacknowledged=number)

    assert shared.deviation_met(*given, with_one, CLOSED, low(-10, shared.at(0), 1), known=known)
    assert shared.rule_broken(*given, with_one, CLOSED, low(-11, shared.at(0), 1), known=known) == "SERVE-04"
    assert shared.rule_broken(*given, alone, CLOSED, low(-3, Position(1, -1), 2), known=known) == "SERVE-04"


def test_a_count_that_is_too_low_stays_too_low_or_is_right_again() -> None:
    known = "pending-acks-outlive-last-consumer"
    seen = (*TAKEN, SENT, CLOSED, in_all(-2))
    for number in (-2, -3, 0):
        assert isinstance(shared.judged(*seen, in_all(number), known=known), Allowed)
    assert shared.rule_broken(*seen, in_all(-1), known=known) == "SERVE-04"


# ------------------------------------------------------------------------------------------------------- expiry


def test_an_expiry_ends_early_only_where_everything_behind_is_acknowledged() -> None:
    """Of six messages the 2nd, 4th and last are acknowledged: a search for the 5th looks at the last one first."""
    known = "expiry-stops-at-acknowledged"
    stopped: Happened = (Expire("t0", "s0", "b5"), Starved("2 entries up to 0:4 do not expire"))
    taken = shared.taken(*(shared.single(number) for number in range(6)))
    middle = (*shared.topic(1, 1, 1, 1, 1, 1), taken, *map(shared.acknowledged, map(shared.single, (1, 3))))
    assert shared.rule_broken(*middle, stopped, known=known) == "SERVE-04"
    tail = (*middle, shared.acknowledged(shared.single(5)))
    assert shared.deviation_met(*tail, stopped, known=known)

    def with_ranges(mark_delete: Position, *acknowledged: int) -> Happened:
        ranges = tuple(Range(shared.at(number - 1), shared.at(number)) for number in acknowledged)
        return ReadCursor("t0", "s0"), CursorRead(mark_delete, ranges, len(ranges), len(ranges))

    assert isinstance(shared.judged(*tail, stopped, with_ranges(shared.at(1), 3, 5), known=known), Allowed)
    for wrong in (with_ranges(Position(0, -1), 1, 3, 5), with_ranges(shared.at(3), 5)):
        assert shared.rule_broken(*tail, stopped, wrong, known=known) == "ACK-04"


def test_an_expiry_leaves_only_the_last_ledger_of_a_terminated_topic_that_was_reloaded() -> None:
    known = "terminated-last-ledger-not-skipped"
    history = shared.topic(*(shared.LEDGER_ROOM + 1) * [1])
    terminated: Happened = (Terminate("t0"), Done())
    unload: Happened = (Unload("t0"), Done())
    last, before_it = (
        (Expire("t0", "s0", f"b{number}"), Starved("2 entries do not expire"))
        for number in (shared.LEDGER_ROOM + 1, shared.LEDGER_ROOM)
    )
    assert shared.deviation_met(*history, terminated, unload, last, known=known)
    assert shared.rule_broken(*history, terminated, unload, before_it, known=known) == "SERVE-04"
    for others in ((), (terminated,), (unload,)):
        assert shared.rule_broken(*history, *others, last, known=known) == "SERVE-04"


def test_a_skip_past_the_end_of_a_terminated_topic_starts_over_and_nothing_else_is_left() -> None:
    """Of five messages the second is acknowledged, so a skip of six goes on with the first two."""
    known = "skip-past-terminated-end-starts-over"
    acks = (shared.taken(shared.single(0), shared.single(1)), shared.acknowledged(shared.single(1)))
    begin = (*shared.topic(1, 1, 1, 1, 1), *acks)
    reloaded: tuple[Happened, ...] = ((Terminate("t0"), Done()), (Unload("t0"), Done()))

    def left(count: int, mark_delete: int, backlog: int, before: tuple[Happened, ...] = reloaded) -> str | None:
        history = (*begin, *before, (Skip("t0", "s0", count), Done()))
        judged = shared.judged(*history, shared.read(shared.at(mark_delete), backlog=backlog), known=known)
        return judged.rule if isinstance(judged, Broken) else None

    assert left(6, 1, 3) is None
    assert left(6, 4, 0) is None, "the others do as they should"
    assert left(6, 2, 2) is not None
    assert left(3, 1, 3) is not None
    assert left(6, 1, 3, reloaded[:1]) is not None
    assert left(6, 1, 3, reloaded[1:]) is not None
    skipped: tuple[Happened, ...] = (*shared.topic(), *reloaded, (Skip("t0", "s0", 6), Done()))
    assert isinstance(shared.judged(*skipped, known=known), Allowed), "of nothing"


def with_gaps(*acknowledged: int) -> tuple[Happened, ...]:
    """Of eight messages, all delivered, these are acknowledged."""
    taken = shared.taken(*(shared.single(number) for number in range(8)))
    return *shared.topic(*[1] * 8), taken, *(shared.acknowledged(shared.single(number)) for number in acknowledged)


def is_skipped(
    count: int, mark_delete: int, backlog: int, *acknowledged: int, known: str, later: tuple[Happened, ...] = ()
) -> bool:
    """Whether a skip of so many may end here, where these messages are acknowledged, and that may follow."""
    skip: Happened = (Skip("t0", "s0", count), Done())
    left = tuple(Range(shared.at(number - 1), shared.at(number)) for number in acknowledged if number > mark_delete)
    read = shared.read(shared.at(mark_delete), backlog=backlog, unacknowledged=backlog, ranges=left)
    return isinstance(shared.judged(*with_gaps(*acknowledged), skip, read, *later, known=known), Allowed)


def test_a_skip_that_counts_all_ranges_goes_exactly_so_far_and_passes_one() -> None:
    """A skip of two passes 0 and 2. With all three ranges it ends at 4, and 5 is acknowledged."""
    ends = partial(is_skipped, known="all-ranges-counted")
    assert ends(2, 3, 3, 1, 3, 5)
    assert ends(2, 5, 2, 1, 3, 5)
    assert not ends(2, 6, 1, 1, 3, 5)
    assert not ends(2, 1, 4, 1, 3, 5)
    assert not ends(1, 5, 2, 1, 3, 5)


def test_a_skip_counts_the_first_of_several_ranges_at_least() -> None:
    """A skip of four passes 0, 2, 4 and 6. Without the second and third range it ends at 4."""
    ends = partial(is_skipped, known="later-ranges-not-counted")
    assert ends(4, 6, 1, 1, 3, 5)
    assert ends(4, 5, 2, 1, 3, 5)
    assert not ends(4, 3, 3, 1, 3, 5)
    assert not ends(4, 1, 4, 1, 3, 5)
    assert ends(3, 3, 4, 1)
    assert not ends(3, 2, 5, 1)


def test_what_a_skip_left_is_still_with_the_consumer_that_had_it() -> None:
    nothing: Happened = (Receive("c1", 9), ReceivedMessages((), settled=True))
    assert is_skipped(4, 5, 2, 1, 3, 5, known="later-ranges-not-counted", later=(nothing,))


def test_a_peek_miscounts_ranges_as_a_skip_does() -> None:
    def returns(nth: int, number: int, *acknowledged: int, known: str = "later-ranges-not-counted") -> bool:
        peek: Happened = (PeekMessage("t0", "s0", nth), MessagePeeked(shared.at(number)))
        return isinstance(shared.judged(*with_gaps(*acknowledged), peek, known=known), Allowed)

    assert returns(4, 6, 1, 3, 5)
    assert returns(4, 5, 1, 3, 5)
    assert returns(4, 4, 1, 3, 5)
    assert not returns(4, 3, 1, 3, 5)
    assert not returns(3, 2, 1)
    assert returns(2, 4, 1, 3, 5, known="all-ranges-counted")
    assert not returns(2, 5, 1, 3, 5, known="all-ranges-counted")
    assert not returns(1, 3, 1, 3, 5, known="all-ranges-counted")


# ------------------------------------------------------------------------------------------------------- stalls


def left_with_nothing(*keys: str) -> list[Happened]:
    """Consumer c, without permits and with nothing unacknowledged, leaves; its hashes were those of the lower half."""
    c, d = share("c", ranges=HALVES[0]), share("d", ranges=HALVES[1])
    return [*sent(*keys), *joins("c", "d"), gathers(c, d), leaves("c")]


def test_a_consumer_that_leaves_with_nothing_holds_up_its_own_hashes_only() -> None:
    starved = gathers(share("d", ranges=ALL, permits=1))
    assert broken(*left_with_nothing(LOW), starved, known=frozenset({"leave-triggers-no-read"})) is None
    assert broken(*left_with_nothing(HIGH), starved, known=EVERYTHING) == "KEY-13"


def test_a_missing_read_ends_when_a_consumer_permits_more() -> None:
    starved = gathers(share("d", ranges=ALL, permits=1))
    begin = [*left_with_nothing(LOW), starved]
    assert broken(*begin, starved, known=EVERYTHING) is None
    assert broken(*begin, permits("d"), gathers(share("d", ranges=ALL, permits=2)), known=EVERYTHING) == "KEY-13"


def test_a_stall_ends_when_something_is_dispatched() -> None:
    starved = gathers(share("d", ranges=ALL, permits=2))
    begin = [*left_with_nothing(LOW), starved, more(Position(1, 1), 2, HIGH)]
    dispatched = gathers(share("d", 2, ranges=ALL, permits=1))
    assert broken(*begin, dispatched, known=EVERYTHING - {"look-ahead-skips-replay"}) == "KEY-13"


def test_a_hash_that_an_acked_message_blocks_excuses_no_other_hash() -> None:
    begin = [*sent(A, A, B), *joins("c"), gathers(share("c", 1, ranges=ALL)), fails("c", 1), acknowledges("c", 1)]
    known = frozenset({"replay-hash-kept-after-ack"})
    assert broken(*begin, gathers(share("c", 3, ranges=ALL, permits=1)), known=known) is None
    assert broken(*begin, gathers(share("c", ranges=ALL, permits=1)), known=known) == "KEY-13"


# ----------------------------------------------------------------------------------- messages that were sent twice


def test_a_message_that_was_sent_twice_is_counted_twice_also_after_its_ack() -> None:
    """The count rises with each dispatch, and an ack lowers it once."""
    known = "send-in-progress-cleared-early"
    begin = [*classic(A), *joins("c", "d"), gathers(share("c", 1), share("d"))]
    twice = [*begin, more(Position(1, 1), 2, B), leaves("c"), gathers(share("d", 1, 1)), acknowledges("d", 1)]
    once = [*begin, more(Position(1, 1), 2, B), leaves("c"), gathers(share("d", 1)), acknowledges("d", 1)]
    assert broken(*twice, at_d(0), known=known) is None
    assert broken(*twice, at_d(1), known=known) is None
    assert broken(*twice, at_d(2), known=known) == "SERVE-04"
    assert broken(*once, at_d(1), known=known) == "SERVE-04"


def at_d(number: int) -> Happened:
    """The broker counts so many unacknowledged messages at consumer ``d``, after the first was acknowledged."""
    read = CursorRead(
        Position(1, 0), (), backlog=1, unacknowledged=number, arrived=(ConsumerRead("d", (), number, 0),), written=2
    )
    return ReadCursor("t", "s"), read


@pytest.mark.parametrize(("shown", "rule"), [(-5, None), (-6, "SERVE-04")])
def test_two_deviations_of_one_count_add_up_and_explain_no_more_than_their_sum(shown: int, rule: str | None) -> None:
    """The broker may subtract two parts again, and three messages that were not pending."""
    known = {"skipped-parts-counted-off-again", "unacked-count-lowered-by-any-ack"}
    parts = tuple(shared.part(index, 3) for index in range(3))
    begin = (*shared.topic(3, 1, 1), shared.taken(*parts), shared.acknowledged(*parts[:2]))
    begin = (*begin, (Skip("t0", "s0", 1), Done()), shared.acknowledged(parts[1]))
    judged = shared.judged(*begin, counts(shown, backlog=2, mark_delete=shared.at(0)), known=known)
    assert judged.rule == rule if isinstance(judged, Broken) else set(judged.deviations) == known
