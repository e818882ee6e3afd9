"""What the observer of Key_Shared accepts and rejects, in short histories."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from model.events import (
    Acknowledged,
    ConsumerRead,
    Created,
    Delivery,
    Done,
    DrainingHash,
    DueReceived,
    Opened,
    RedeliveryRequested,
    Sent,
    Stored,
    Subscribed,
    TakenOver,
)
from model.judgement import Allowed, Broken
from model.key_shared.hashes import AUTO_SPLIT_HASHES, keys_that_share_a_hash, sticky_hash
from model.log import Position
from model.operations import CreateTopic, OpenProducer, Send, TakeOver, Unload
from model.subscription_operations import (
    Acknowledge,
    CrashConsumer,
    CreateSubscription,
    Nack,
    Permit,
    ReceiveDue,
    Subscribe,
)
from model.vocabulary import Entry, HashRange, Message
from tests.verdicts import Happened, allowed_by, exercised, judged

A, B = "a", "b"
HASH_A, HASH_B = (sticky_hash(key.encode()) for key in (A, B))
ALL = (AUTO_SPLIT_HASHES,)
NONE: tuple[HashRange, ...] = ()
ONE, OTHER = keys_that_share_a_hash(2)


def sent(*keys: str | None) -> list[Happened]:
    """A topic with a subscription, and one message for each of these keys: 1, 2, 3…"""
    entries = tuple(Entry((Message(n, str(n), key),)) for n, key in enumerate(keys, start=1))
    return [
        (CreateTopic("t", persistence="every-ack"), Created(deduplication=False, snapshot_room=9)),
        (OpenProducer("p", "t", "p"), Opened(-1)),
        (CreateSubscription("t", "s"), Done()),
        (Send("p", entries), Sent(tuple(Stored(Position(1, n)) for n in range(len(keys))))),
    ]


def joins(*names: str, out_of_order: bool = False) -> list[Happened]:
    """Consumers subscribe."""
    return [(Subscribe(name, "t", "s", kind="Key_Shared", out_of_order=out_of_order), Subscribed()) for name in names]


def message(number: int, redeliveries: int = 0) -> Delivery:
    return Delivery(Position(1, number - 1), -1, 0, str(number), redeliveries)


def share(
    name: str,
    *numbers: int,
    ranges: tuple[HashRange, ...] | None = None,
    permits: int = 0,
    draining: tuple[DrainingHash, ...] = (),
    cleared: int = 0,
    again: bool = False,
) -> ConsumerRead:
    """What a consumer received, and its stats; without ranges, only the deliveries are judged."""
    return ConsumerRead(
        name, tuple(message(n, int(again)) for n in numbers), 0, permits, ranges, draining=draining, cleared=cleared
    )


def gathers(*shares: ConsumerRead, is_waiting: bool = False, in_replay: int = 0) -> Happened:
    draining = [one for each in shares for one in each.draining]
    counted = sum(one.unacknowledged for one in draining)
    total = sum(each.cleared for each in shares)
    sums = DueReceived(shares, draining=len(draining), unacknowledged=counted, cleared=total)
    return ReceiveDue("t", "s"), replace(sums, is_waiting=is_waiting, in_replay=in_replay)


def acknowledges(name: str, *numbers: int) -> Happened:
    return Acknowledge(name, (0,)), Acknowledged(tuple(message(n) for n in numbers), receipt=True)


def fails(name: str, *numbers: int) -> Happened:
    return Nack(name, (0,)), RedeliveryRequested(tuple(message(n) for n in numbers))


def leaves(name: str) -> Happened:
    return CrashConsumer(name), Done()


def permits(name: str) -> Happened:
    return Permit(name, 1), Done()


def broken(*happened: Happened, known: str | Iterable[str] = ()) -> str | None:
    """The rule that the last of these breaks; all before it are allowed."""
    allowed_by(*happened[:-1], known=known)
    answer = judged(*happened, known=known)
    return answer.rule if isinstance(answer, Broken) else None


def test_a_key_is_pending_at_one_consumer_at_a_time() -> None:
    begin = [*sent(A, A, B), *joins("c", "d")]
    assert broken(*begin, gathers(share("c", 1), share("d", 2))) == "KEY-01"
    assert broken(*begin, gathers(share("c", 1, 2), share("d", 3))) is None


def test_a_key_moves_after_its_messages_are_acked_or_their_consumer_left() -> None:
    begin = [*sent(A, A), *joins("c", "d"), gathers(share("c", 1), share("d"))]
    assert broken(*begin, gathers(share("c"), share("d", 2))) == "KEY-01"
    assert broken(*begin, acknowledges("c", 1), gathers(share("c"), share("d", 2))) is None
    assert broken(*begin, leaves("c"), gathers(share("d", 1, 2))) is None


def test_a_nacked_message_does_not_free_the_other_messages_of_its_key() -> None:
    begin = [*sent(A, A), *joins("c", "d"), gathers(share("c", 1, 2), share("d")), fails("c", 1)]
    assert broken(*begin, gathers(share("c"), share("d", 1, again=True))) == "KEY-01"
    assert broken(*begin, gathers(share("c", 1, again=True), share("d"))) is None


def test_messages_without_a_key_or_with_out_of_order_delivery_go_to_any_consumer() -> None:
    assert broken(*sent(None, None), *joins("c", "d"), gathers(share("c", 1), share("d", 2))) is None
    anyhow = joins("c", "d", out_of_order=True)
    assert broken(*sent(A, A), *anyhow, gathers(share("c", 2), share("d", 1))) is None


def test_messages_of_a_key_are_delivered_in_log_order() -> None:
    begin = [*sent(A, A), *joins("c")]
    assert broken(*begin, gathers(share("c", 2, 1))) == "KEY-02"
    assert broken(*begin, gathers(share("c", 1, 2))) is None


def test_what_was_read_for_replay_overtakes_only_a_consumer_that_has_just_left() -> None:
    known = "replay-read-overtakes-leaver"
    queued: Happened = (ReceiveDue("t", "s"), DueReceived((share("c", 1), share("d")), in_replay=1))
    begin = [*sent(A, A), *joins("c", "d"), queued]
    overtaken = gathers(share("d", 2, 1))
    nothing_queued = [*sent(A, A), *joins("c", "d"), gathers(share("c", 1), share("d")), leaves("c")]
    assert broken(*nothing_queued, overtaken, known=known) == "KEY-06"
    assert broken(*begin, leaves("c"), overtaken) == "KEY-06"
    assert broken(*begin, leaves("c"), overtaken, known=known) is None
    published_later = [*begin, leaves("c"), more(Position(1, 2), 3, A), gathers(share("d", 3, 1, 2))]
    assert broken(*published_later, known=known) == "KEY-06"
    others = [*sent(A, A, B), *joins("c", "d"), queued, leaves("c")]
    assert broken(*others, gathers(share("d", 3)), gathers(share("d", 2, 1)), known=known) == "KEY-06"


def test_what_a_consumer_had_that_left_first_is_read_for_replay_ahead_of_the_next_one_that_leaves() -> None:
    known = "replay-read-overtakes-leaver"
    begin = [*sent(A, A), *joins("c", "d"), gathers(share("c", 1), share("d")), *joins("e")]
    overtaken = gathers(share("d", 2, 1))
    assert broken(*begin, permits("e"), leaves("e"), leaves("c"), overtaken, known=known) is None
    assert broken(*begin, permits("e"), leaves("c"), leaves("e"), overtaken, known=known) == "KEY-06"
    assert broken(*begin, leaves("e"), leaves("c"), overtaken, known=known) == "KEY-06", "it had no permits"


def test_messages_of_a_consumer_that_left_precede_later_messages_of_their_keys() -> None:
    begin = [*sent(A, A, B), *joins("c", "d"), gathers(share("c", 1), share("d")), leaves("c")]
    assert broken(*begin, gathers(share("d", 2, 1))) == "KEY-06"
    assert broken(*begin, gathers(share("d", 3, 1, 2))) is None
    assert {"KEY-06", "KEY-09", "KEY-02"} <= set(exercised(*begin, gathers(share("d", 1, 2))))


def test_a_new_message_waits_for_the_replay_of_its_hash() -> None:
    begin = [*sent(ONE, OTHER), *joins("c"), gathers(share("c", 1)), fails("c", 1)]
    assert broken(*begin, gathers(share("c", 2))) == "KEY-09"
    assert broken(*begin, gathers(share("c", 1, again=True), share("c", 2))) is None


def test_a_new_message_overtakes_a_replay_with_draining_hashes_only_if_earlier_messages_delay_it() -> None:
    begin, known = [*sent(B, ONE, OTHER), *joins("c"), gathers(share("c", 1, 2))], "new-message-overtakes-replay"
    overtaken = gathers(share("c"), share("d", 3))
    answer = judged(*begin, fails("c", 1, 2), *joins("d"), overtaken)
    assert isinstance(answer, Broken)
    assert (answer.rule, answer.deviation) == ("KEY-09", "new-message-overtakes-replay")
    assert broken(*begin, fails("c", 1, 2), *joins("d"), overtaken, known=known) is None
    assert broken(*begin, fails("c", 2), *joins("d"), overtaken, known=known) == "KEY-09", "it is the first one"
    assert broken(*begin, fails("c", 1, 2), gathers(share("c", 3)), known=known) == "KEY-09", "there is one consumer"


def test_a_new_message_overtakes_the_first_of_the_replay_queue_only_in_the_classic_implementation() -> None:
    begin = [*joins("c"), gathers(share("c", 1)), fails("c", 1)]
    answer = judged(*classic(A, A), *begin, gathers(share("c", 2)))
    assert isinstance(answer, Broken)
    assert (answer.rule, answer.deviation) == ("KEY-09", "new-message-overtakes-replay")
    assert broken(*sent(ONE, OTHER), *begin, gathers(share("c", 2)), known="new-message-overtakes-replay") == "KEY-09"
    assert broken(*classic(ONE, OTHER), *begin, gathers(share("c", 2))) is None  # these share no hash there


def test_a_nack_excuses_only_the_messages_that_it_names() -> None:
    begin = [*sent(A, B), *joins("c"), gathers(share("c", 1, 2)), permits("c"), fails("c", 1)]
    assert broken(*begin, gathers(share("c", 2))) == "ACK-13"
    assert broken(*begin, fails("c", 1), gathers(share("c", 1, 1, again=True))) is None


def test_nacked_messages_of_a_key_have_no_promised_order() -> None:
    begin = [*sent(A, A), *joins("c"), gathers(share("c", 1, 2)), fails("c", 1), fails("c", 2)]
    assert broken(*begin, gathers(share("c", 2, 1, again=True))) is None


def test_a_message_in_flight_before_a_nack_may_precede_the_replayed_one() -> None:
    begin = [*sent(A, A), *joins("c"), gathers(share("c", 1)), permits("c"), fails("c", 1)]
    assert broken(*begin, gathers(share("c", 2), share("c", 1, again=True))) is None


def test_a_message_is_due_at_a_consumer_with_permits_and_its_hash() -> None:
    begin = [*sent(A), *joins("c")]
    assert broken(*begin, gathers(share("c", ranges=ALL, permits=1))) == "KEY-13"
    assert broken(*begin, gathers(share("c", ranges=ALL, permits=0))) is None
    elsewhere = gathers(share("c", ranges=NONE, permits=1), share("d", ranges=ALL))
    assert broken(*begin, *joins("d"), elsewhere) is None


def test_the_consumers_ranges_cover_every_hash_exactly_once() -> None:
    low, high = HashRange(1, 30000), HashRange(30001, 65535)
    begin = joins("c", "d")
    right = gathers(share("c", ranges=(low,)), share("d", ranges=(high,)))
    assert exercised(*sent(), *begin, right) == ("KEY-17", "KEY-12")
    assert broken(*sent(), *begin, leaves("c"), leaves("d"), gathers()) is None
    for wrong in (HashRange(30002, 65535), HashRange(30000, 65535), HashRange(30001, 65534), HashRange(30001, 65536)):
        assert broken(*sent(), *begin, gathers(share("c", ranges=(low,)), share("d", ranges=(wrong,)))) == "KEY-12"


def test_a_message_blocked_by_a_draining_hash_is_due_once_the_hash_drained() -> None:
    drains = share("c", 1, ranges=NONE, draining=(DrainingHash(HASH_A, 1, 1),))
    begin = [*sent(A, A), *joins("c", "d"), gathers(drains, share("d", ranges=ALL, permits=5)), acknowledges("c", 1)]
    gone = share("c", ranges=NONE, cleared=1)
    assert broken(*begin, gathers(gone, share("d", ranges=ALL, permits=5))) == "KEY-05"
    assert {"KEY-03", "KEY-05", "KEY-11"} <= set(exercised(*begin, gathers(gone, share("d", 2, ranges=ALL, permits=4))))


def test_only_draining_hashes_are_blocked() -> None:
    drains = share("c", 1, ranges=NONE, draining=(DrainingHash(HASH_A, 1, 1),))
    begin = [*sent(A, B), *joins("c", "d"), gathers(drains, share("d", ranges=ALL))]
    still = share("c", ranges=NONE, draining=(DrainingHash(HASH_A, 1, 1),))
    assert broken(*begin, gathers(still, share("d", ranges=ALL, permits=1))) == "KEY-04"


def test_the_stats_show_exactly_the_draining_hashes() -> None:
    begin = [*sent(A, A), *joins("c", "d")]
    d = share("d", ranges=ALL)
    assert broken(*begin, gathers(share("c", 1, ranges=NONE), d)) == "KEY-11"
    assert broken(*begin, gathers(share("c", 1, ranges=NONE, draining=(DrainingHash(HASH_A, 2, 0),)), d)) == "KEY-11"
    assert broken(*begin, gathers(share("c", 1, ranges=NONE, draining=(DrainingHash(HASH_A, 1, 0),)), d)) is None
    extra = (DrainingHash(HASH_A, 1, 0), DrainingHash(HASH_B, 1, 0))
    assert broken(*begin, gathers(share("c", 1, ranges=NONE, draining=extra), d)) == "KEY-11"


def test_cleared_hashes_are_counted() -> None:
    drains = share("c", 1, ranges=NONE, draining=(DrainingHash(HASH_A, 1, 0),))
    begin = [*sent(A), *joins("c", "d"), gathers(drains, share("d", ranges=ALL)), acknowledges("c", 1)]
    assert broken(*begin, gathers(share("c", ranges=NONE), share("d", ranges=ALL))) == "KEY-11"
    assert broken(*begin, gathers(share("c", ranges=NONE, cleared=1), share("d", ranges=ALL))) is None


def test_a_message_delivered_after_its_ack_may_count_as_pending_while_its_consumer_stays() -> None:
    """The broker had read it when the ack arrived. It stays pending at the consumer until it is acked again."""
    late = [fails("c", 1), acknowledges("c", 1), gathers(share("c", 1, ranges=ALL, again=True)), *joins("d")]
    begin = [*sent(A, A), *joins("c"), gathers(share("c", 1, 2, ranges=ALL))]

    def stats(waiting: int) -> Happened:
        drains = (DrainingHash(HASH_A, waiting, 0),)
        return gathers(share("c", ranges=NONE, draining=drains), share("d", ranges=ALL))

    assert broken(*begin, *late, stats(2)) is None
    assert broken(*begin, *joins("d"), stats(1)) == "KEY-11"
    after_leaving = [*late, leaves("d"), leaves("c"), *joins("e"), gathers(share("e", ranges=ALL, permits=1))]
    assert broken(*begin, *after_leaving) == "KEY-13"


def moved_and_returned() -> list[Happened]:
    """Hash A moved to d while a message of it was pending at c, returned when d left, and still shows as draining."""
    away = gathers(share("c", 1, ranges=NONE, draining=(DrainingHash(HASH_A, 1, 0),)), share("d", ranges=ALL))
    back = gathers(share("c", ranges=ALL, draining=(DrainingHash(HASH_A, 1, 0),)))
    return [*sent(A, A), *joins("c", "d"), away, leaves("d"), back, back, *joins("e")]


def test_a_returned_hash_may_be_shown_until_a_message_of_it_is_dispatched() -> None:
    again = (DrainingHash(HASH_A, 1, 0),)
    assert (
        broken(*moved_and_returned(), gathers(share("c", ranges=NONE, draining=again), share("e", ranges=ALL))) is None
    )


def test_a_returned_hash_missing_from_the_cleared_total_is_a_deviation() -> None:
    away = gathers(share("c", 1, ranges=NONE, draining=(DrainingHash(HASH_A, 1, 0),)), share("d", ranges=ALL))
    begin = [*sent(A, A), *joins("c", "d"), away, leaves("d")]
    answer = judged(*begin, gathers(share("c", 2, ranges=ALL)))
    assert isinstance(answer, Broken)
    assert (answer.rule, answer.deviation) == ("KEY-11", "returned-hash-not-in-cleared-total")
    assert broken(*begin, gathers(share("c", 2, ranges=ALL)), known="returned-hash-not-in-cleared-total") is None
    assert broken(*begin, gathers(share("c", 2, ranges=ALL, cleared=1))) is None


def test_a_draining_hash_counted_twice_is_a_deviation_and_never_drains() -> None:
    twice, once = (DrainingHash(HASH_A, 2, 0),), (DrainingHash(HASH_A, 1, 0),)
    counted = gathers(share("c", ranges=NONE, draining=twice), share("e", ranges=ALL, permits=1))
    answer = judged(*moved_and_returned(), counted)
    assert isinstance(answer, Broken)
    assert answer.deviation == "draining-refcount-doubled"
    known = "draining-refcount-doubled"
    left = gathers(share("c", ranges=NONE, draining=once), share("e", ranges=ALL, permits=1))
    assert broken(*moved_and_returned(), counted, acknowledges("c", 1), left, known=known) is None


def test_a_missing_read_is_a_deviation_only_after_a_consumer_without_messages_left() -> None:
    begin = [*sent(A), *joins("c", "d"), gathers(share("c", ranges=ALL), share("d", ranges=NONE, permits=1))]
    stalled = gathers(share("d", ranges=ALL, permits=1))
    answer = judged(*begin, leaves("c"), stalled)
    assert isinstance(answer, Broken)
    assert answer.deviation == "leave-triggers-no-read"
    known = judged(*begin, leaves("c"), stalled, known="leave-triggers-no-read")
    assert isinstance(known, Allowed)
    assert known.deviations == ("leave-triggers-no-read",)


def test_a_skipped_rewind_may_starve_a_joining_consumer_only_after_a_replay_read() -> None:
    quiet = [*sent(A), *joins("c"), gathers(share("c", 1))]
    stalled = gathers(share("d", ranges=ALL, permits=1))
    assert broken(*quiet, leaves("c"), *joins("d"), stalled) == "KEY-13"
    assert broken(*quiet, permits("c"), leaves("c"), *joins("d"), stalled, known="rewind-skipped-after-replay-read")
    answer = judged(*quiet, fails("c", 1), leaves("c"), *joins("d"), stalled)
    assert isinstance(answer, Broken)
    assert answer.deviation == "rewind-skipped-after-replay-read"
    assert broken(*quiet, fails("c", 1), leaves("c"), *joins("d"), stalled, known=answer.deviation) is None


def test_head_of_line_blocking_in_replay_is_a_deviation_only_with_out_of_order_delivery() -> None:
    low, high = (A, B) if HASH_A < HASH_B else (B, A)
    halves = (HashRange(1, sticky_hash(low.encode())), HashRange(sticky_hash(low.encode()) + 1, 65535))
    stalled = gathers(share("c", ranges=halves[:1]), share("d", ranges=halves[1:], permits=1))
    answer = judged(*sent(low, high), *joins("c", "d", out_of_order=True), stalled)
    assert isinstance(answer, Broken)
    assert answer.deviation == "replay-head-of-line-blocking"
    assert broken(*sent(low, high), *joins("c", "d"), stalled, known="replay-head-of-line-blocking") == "KEY-13"


def classic(*keys: str | None) -> list[Happened]:
    """The same on a release without draining hashes."""
    create, *rest = sent(*keys)
    return [(create[0], Created(deduplication=False, snapshot_room=9, has_draining_hashes=False)), *rest]


def unloads_to(*, classic: bool) -> Happened:
    return Unload("t", classic=classic), Done()


def more(position: Position, number: int, key: str) -> Happened:
    entry = Entry((Message(number, str(number), key),))
    return Send("p", (entry,)), Sent((Stored(position),))


def test_a_consumer_that_joins_the_classic_implementation_waits_for_messages_read_before() -> None:
    begin = [*classic(A), *joins("c"), gathers(share("c", 1)), *joins("d"), more(Position(1, 1), 2, B)]
    assert broken(*begin, gathers(share("c"), share("d", 2))) == "KEY-14"
    assert broken(*begin, acknowledges("c", 1), gathers(share("c"), share("d", 2))) is None
    assert broken(*begin, leaves("c"), gathers(share("d", 1, 2))) is None


def test_a_message_nacked_twice_before_redelivery_may_be_redelivered_twice() -> None:
    begin = [*sent(A, A), *joins("c", "d"), gathers(share("c", 1), share("d")), permits("c"), fails("c", 1)]
    twice = [*begin, fails("c", 1), gathers(share("c", 1, again=True), share("d"))]
    assert broken(*twice, gathers(share("c", 1, again=True), share("d"))) is None
    assert broken(*twice, gathers(share("c"), share("d", 1, again=True))) is None
    once = [*begin, gathers(share("c", 1, again=True), share("d"))]
    assert broken(*once, gathers(share("c", 1, again=True), share("d"))) == "ACK-12"


def test_the_classic_implementation_may_replay_a_pending_key_to_a_recently_joined_consumer() -> None:
    begin = [*classic(A, A), *joins("c"), gathers(share("c", 1)), *joins("d")]
    answer = judged(*begin, gathers(share("c"), share("d", 2)))
    assert isinstance(answer, Broken)
    assert (answer.rule, answer.deviation) == ("KEY-01", "recently-joined-receives-replay")
    known = judged(*begin, gathers(share("c"), share("d", 2)), known="recently-joined-receives-replay")
    assert isinstance(known, Allowed)
    assert known.deviations == ("recently-joined-receives-replay",)
    drains = [*sent(A, A), *joins("c"), gathers(share("c", 1)), *joins("d")]
    assert broken(*drains, gathers(share("c"), share("d", 2)), known="recently-joined-receives-replay") == "KEY-01"


def test_a_new_message_may_overtake_pending_acks_without_hash_in_the_classic_implementation() -> None:
    begin = [*classic(A), *joins("c", "d"), gathers(share("c", 1), share("d"))]
    new = [more(Position(1, 1), 2, A), gathers(share("d", 2))]
    assert broken(*begin, leaves("c"), gathers(share("d")), *new, known="pending-acks-without-hash") is None
    both = [
        *classic(A, A),
        *joins("c", "d"),
        gathers(share("c", 1, 2), share("d")),
        leaves("c"),
        gathers(share("d", 1)),
    ]
    third = [more(Position(1, 2), 3, A), gathers(share("d", 3))]  # nothing is being read, and nobody else has the hash
    assert broken(*both, *third, known="pending-acks-without-hash") == "KEY-06"
    passes = [leaves("c"), *new]
    assert broken(*begin, *passes, known="pending-acks-without-hash") is None
    answer = judged(*begin, *joins("e"), *passes)
    assert isinstance(answer, Broken)
    assert (answer.rule, answer.deviation) == ("KEY-06", "pending-acks-without-hash")
    later = gathers(share("d", 1), share("e"))
    assert broken(*begin, *joins("e"), *passes, later, known="pending-acks-without-hash") is None
    assert (
        broken(*sent(A), *begin[len(classic(A)) :], *joins("e"), *passes, known="pending-acks-without-hash") == "KEY-06"
    )


def test_a_new_message_may_overtake_nacked_messages_of_its_key_in_the_classic_implementation() -> None:
    again = [fails("c", 1), gathers(share("c", 1, again=True)), *joins("d")]
    passes = [leaves("c"), more(Position(1, 1), 2, A), gathers(share("d", 2))]
    answer = judged(*classic(A), *joins("c"), gathers(share("c", 1)), *again, *passes)
    assert isinstance(answer, Broken)
    assert answer.deviation == "pending-acks-without-hash"
    assert broken(*sent(A), *joins("c"), gathers(share("c", 1)), *again, *passes) == "KEY-09"


def test_an_unload_may_switch_a_topic_to_the_other_implementation() -> None:
    reloaded = [*joins("c"), gathers(share("c", 1)), *joins("d"), more(Position(1, 1), 2, B)]
    too_soon = gathers(share("c"), share("d", 2))
    assert broken(*sent(A), unloads_to(classic=True), *reloaded, too_soon) == "KEY-14"
    assert broken(*classic(A), unloads_to(classic=False), *reloaded, too_soon) is None


@pytest.mark.parametrize("is_seen_by", ["subscribing", "looking"])
def test_a_takeover_in_a_rolling_upgrade_may_switch_a_topic_to_the_other_implementation(is_seen_by: str) -> None:
    def begins(*, drains: bool) -> list[Happened]:
        subscribed, looked = (drains, None) if is_seen_by == "subscribing" else (None, drains)
        look, seen = gathers(share("c", 1))[:2]
        assert isinstance(seen, DueReceived)
        joined = Subscribe("c", "t", "s", kind="Key_Shared"), Subscribed(drains=subscribed)
        return [joined, (look, replace(seen, drains=looked)), *joins("d"), more(Position(1, 1), 2, B)]

    taken_over = TakeOver("t"), TakenOver(("t",))
    too_soon = gathers(share("c"), share("d", 2))
    assert broken(*sent(A), taken_over, *begins(drains=False), too_soon) == "KEY-14"
    assert broken(*classic(A), taken_over, *begins(drains=True), too_soon) is None


def test_a_hash_that_moved_and_returned_between_two_reads_may_be_shown_as_draining() -> None:
    begin = [*sent(A), *joins("c"), gathers(share("c", 1, ranges=ALL))]
    stats = gathers(share("c", ranges=ALL, draining=(DrainingHash(HASH_A, 1, 0),)))
    assert broken(*begin, *joins("d"), leaves("d"), stats) is None
    assert broken(*begin, stats) == "KEY-11"


def test_any_count_is_allowed_for_a_hash_with_an_unconfirmed_ack() -> None:
    maybe = Acknowledge("c", (0,)), Acknowledged((message(1),), receipt=False)
    begin = [*sent(A), *joins("c", "e"), gathers(share("c", 1, ranges=ALL), share("e", ranges=NONE))]
    drains = share("d", ranges=NONE, draining=(DrainingHash(HASH_A, 1, 0),))
    for drained in (drains, share("d", ranges=NONE)):
        stats = gathers(drained, share("e", ranges=ALL))
        given = gathers(share("d", 1, ranges=ALL), share("e", ranges=NONE))
        assert broken(*begin, maybe, leaves("c"), *joins("d"), given, stats) is None


def test_a_hash_that_returned_and_moved_between_two_reads_may_be_counted_twice() -> None:
    away = gathers(share("c", 1, ranges=NONE, draining=(DrainingHash(HASH_A, 1, 0),)), share("d", ranges=ALL))
    twice = gathers(share("c", ranges=NONE, draining=(DrainingHash(HASH_A, 2, 0),)), share("e", ranges=ALL))
    answer = judged(*sent(A, A), *joins("c", "d"), away, leaves("d"), *joins("e"), twice)
    assert isinstance(answer, Broken)
    assert answer.deviation == "draining-refcount-doubled"
    stays = judged(*sent(A, A), *joins("c", "d"), away, *joins("e"), twice)
    assert isinstance(stays, Broken)
    assert stays.deviation is None


def test_a_hash_blocked_by_an_acked_message_in_the_replay_queue_is_a_deviation() -> None:
    begin = [*sent(A, A), *joins("c"), gathers(share("c", 1, ranges=ALL))]
    nothing = gathers(share("c", ranges=ALL, permits=1))
    answer = judged(*begin, fails("c", 1), acknowledges("c", 1), nothing)
    assert isinstance(answer, Broken)
    assert answer.deviation == "replay-hash-kept-after-ack"
    without_nack = judged(*begin, acknowledges("c", 1), nothing)
    assert isinstance(without_nack, Broken)
    assert without_nack.deviation is None


@pytest.mark.parametrize(("cleared", "rule"), [(0, None), (1, "KEY-11")], ids=["uncounted", "counted"])
def test_a_hash_that_returned_uncounted_may_be_shown_while_it_drains_for_another(
    cleared: int, rule: str | None
) -> None:
    once = (DrainingHash(HASH_A, 1, 0),)
    away = gathers(share("c", 1, ranges=NONE, draining=once), share("d", ranges=ALL))
    is_back = gathers(share("c", ranges=ALL, cleared=cleared))
    of_e = [*joins("e"), more(Position(1, 1), 2, A)]
    taken = gathers(share("c", ranges=NONE, cleared=cleared), share("e", 2, ranges=ALL))
    c, e = share("c", ranges=NONE, draining=once, cleared=cleared), share("e", ranges=NONE, draining=once)
    begin = [*sent(A), *joins("c", "d"), away, leaves("d"), is_back, acknowledges("c", 1), is_back]
    both = gathers(c, e, share("f", ranges=ALL))
    assert broken(*begin, *of_e, taken, *joins("f"), both, known="returned-hash-not-in-cleared-total") == rule
