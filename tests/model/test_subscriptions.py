"""What the observer of subscriptions accepts and rejects, in short histories."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import islice

from model.events import (
    Acknowledged,
    AllReceived,
    ConsumerRead,
    Created,
    CursorRead,
    CursorReset,
    Delivery,
    Done,
    DueReceived,
    MessagePeeked,
    Opened,
    Persisted,
    Range,
    ReceivedMessages,
    RedeliveryRequested,
    Sent,
    Starved,
    Stored,
    StoredCursorRead,
    Subscribed,
    Trimmed,
)
from model.judgement import Allowed, Broken
from model.log import Position
from model.operations import CreateTopic, Kill, OpenProducer, Send, Terminate, Trim, Unload
from model.subscription_operations import (
    AckById,
    Acknowledge,
    AwaitPersisted,
    CreateSubscription,
    Nack,
    PeekMessage,
    Permit,
    ReadCursor,
    ReadStoredCursor,
    Receive,
    ReceiveAll,
    ReceiveDue,
    ResetCursor,
    Skip,
    SkipAll,
    Subscribe,
)
from model.vocabulary import Entry, Message, SubscriptionType, partition_name
from tests import verdicts
from tests.verdicts import Happened

LEDGER_ROOM = 5
STEP_MS = 1000.0
"""How long each step takes: long enough for a cursor's ledger to open in the meantime."""


def topic(*sizes: int, kind: SubscriptionType = "Shared") -> tuple[Happened, ...]:
    """A topic with entries of so many messages, b1, b2, and so on, a subscription and a consumer c1."""
    numbers = iter(range(1, sum(sizes) + 1))
    entries = tuple(Entry(tuple(Message(n, f"b{n}") for n in islice(numbers, size))) for size in sizes)
    created = Created(deduplication=False, snapshot_room=6, ledger_room=LEDGER_ROOM, flush_s=60.0, stored_ranges=100)
    return (
        (CreateTopic("t0", persistence="every-ack"), created),
        (OpenProducer("p", "t0", "p"), Opened(-1)),
        (Send("p", entries), Sent(tuple(Stored(at(number)) for number in range(len(sizes))))),
        (CreateSubscription("t0", "s0"), Done()),
        subscribed("c1", kind=kind),
    )


def at(number: int) -> Position:
    """The position of the topic's n-th entry, from 0."""
    return Position(1 + number // LEDGER_ROOM, number % LEDGER_ROOM)


def subscribed(name: str, *, kind: SubscriptionType = "Shared", queue: int = 0) -> Happened:
    return Subscribe(name, "t0", "s0", kind=kind, queue=queue), Subscribed()


def single(number: int, *, redeliveries: int = 0) -> Delivery:
    """The single message of the n-th entry, if no entry is a batch."""
    return Delivery(at(number), -1, 0, f"b{number + 1}", redeliveries)


def part(index: int, size: int) -> Delivery:
    """A message of the batch that is the topic's first entry."""
    return Delivery(at(0), index, size, f"b{index + 1}", 0)


def taken(*messages: Delivery, by: str = "c1", settled: bool = True) -> Happened:
    return Receive(by, len(messages)), ReceivedMessages(messages, settled=settled)


def acknowledged(*messages: Delivery, by: str = "c1", cumulative: bool = False) -> Happened:
    return Acknowledge(by, (0,), cumulative=cumulative), Acknowledged(messages, receipt=True)


def failed(*messages: Delivery, by: str = "c1", all_of_them: bool = False) -> Happened:
    return Nack(by, None if all_of_them else (0,)), RedeliveryRequested(messages)


def read(mark_delete: Position, *, backlog: int, unacknowledged: int = 0, ranges: tuple[Range, ...] = ()) -> Happened:
    return ReadCursor("t0", "s0"), CursorRead(mark_delete, ranges, backlog, unacknowledged)


UNLOADED: Happened = (Unload("t0"), Done())
TERMINATED: Happened = (Terminate("t0"), Done())
BEGINNING = Position(1, -1)


judged = partial(verdicts.judged, step_ms=STEP_MS)


def exercised(*history: Happened) -> tuple[str, ...]:
    """The rules that a history exercises, which breaks none."""
    return verdicts.allowed_by(*history, step_ms=STEP_MS).exercised


def rule_broken(*history: Happened, known: str | Iterable[str] = ()) -> str:
    """The rule that a history breaks with its last step."""
    return verdicts.broken_by(*history, known=known, step_ms=STEP_MS).rule


def deviation_met(*history: Happened, known: str) -> bool:
    """Whether a history shows exactly one deviation, which breaks a rule unless it is known."""
    broken, allowed = judged(*history), verdicts.allowed_by(*history, known=known, step_ms=STEP_MS)
    assert isinstance(broken, Broken), broken
    return broken.deviation == known and {*allowed.deviations} == {known}


# ---------------------------------------------------------------------------------------------------- redelivery


def test_a_message_that_is_unacknowledged_at_a_consumer_is_not_delivered_to_another() -> None:
    history = (*topic(1, 1), subscribed("c2"), taken(single(0)))
    assert rule_broken(*history, taken(single(0), by="c2")) == "ACK-12"
    assert isinstance(judged(*history, taken(single(1), by="c2")), Allowed)


def test_an_active_consumer_receives_all_again_once_per_redelivery_request() -> None:
    history = (*topic(1, 1, kind="Exclusive"), taken(single(0), single(1)))
    again = taken(single(0), single(1), settled=False)
    assert rule_broken(*history, again) == "ACK-12"
    requested_twice = (*history, failed(all_of_them=True), failed(all_of_them=True))
    # The messages in flight before the first request may be delivered as well.
    assert isinstance(judged(*requested_twice, again, again, again), Allowed)
    assert rule_broken(*requested_twice, again, again, again, again) == "ACK-12"


def test_a_message_in_flight_during_a_redelivery_request_for_all_may_come_again_when_there_are_permits() -> None:
    """Seen on 4.0.8: it was dispatched before the request and sent after it, so already with a redelivery count."""
    begun = (*topic(1, 1), subscribed("c2", queue=5), taken(single(0), by="c2", settled=False))
    late, again = single(1, redeliveries=1), taken(*(single(n, redeliveries=1) for n in range(2)), by="c2")
    asked = failed(single(0), by="c2", all_of_them=True)
    assert isinstance(judged(*begun, asked, taken(late, by="c2"), again), Allowed)
    received = (*begun, taken(single(1), by="c2"), asked, again)
    assert rule_broken(*received, taken(late, by="c2")) in ("ACK-12", "ACK-13"), "nothing was in flight"


def test_a_message_in_flight_may_be_delivered_twice_after_a_redelivery_request() -> None:
    begun = (*topic(1, 1), subscribed("c2", queue=5))
    first = taken(single(0), by="c2", settled=False)
    asked = (first, failed(single(0), by="c2"), failed(single(0), by="c2"))
    again, twice = single(0, redeliveries=1), single(0, redeliveries=2)
    assert isinstance(judged(*begun, *asked, taken(again, twice, by="c2", settled=False)), Allowed)
    is_all_there = (*begun, taken(single(0), by="c2"), *asked[1:])
    assert rule_broken(*is_all_there, taken(again, twice, by="c2", settled=False)) in ("ACK-12", "ACK-13")


def test_a_message_that_is_not_in_flight_is_redelivered_once() -> None:
    begun = (*topic(1, 1), subscribed("c2", queue=5), taken(single(0), by="c2", settled=False))
    asked = (failed(single(0), by="c2"), taken(single(0, redeliveries=1), by="c2"))
    assert rule_broken(*begun, *asked, taken(single(0, redeliveries=2), by="c2")) in ("ACK-12", "ACK-13")


def test_a_terminated_topic_dispatches_nothing_once_a_message_of_its_last_ledger_is_due_for_redelivery() -> None:
    """Old releases have no current ledger there, so a replay read of its last ledger fails."""
    nothing: Happened = (Receive("c3", 9), ReceivedMessages(()))
    ledgers = topic(*[1] * (LEDGER_ROOM + 2))

    def verdict(*before: Happened, redelivered: int) -> tuple[str, str | None]:
        had = [single(n) for n in range(redelivered + 1)]
        first = (subscribed("c2"), taken(*had, by="c2"), acknowledged(*had[:-1], by="c2"))
        last = (failed(had[-1], by="c2"), subscribed("c3"), nothing)
        broken = verdicts.broken_by(*before, *first, *last, step_ms=STEP_MS)
        return broken.rule, broken.deviation

    reloaded = (*ledgers, TERMINATED, UNLOADED)
    assert verdict(*reloaded, redelivered=LEDGER_ROOM) == ("ACK-13", "terminated-topic-without-current-ledger")
    assert verdict(*reloaded, redelivered=LEDGER_ROOM - 1) == ("ACK-13", None), "the ledger before is read"
    assert verdict(*ledgers, UNLOADED, redelivered=LEDGER_ROOM) == ("ACK-13", None), "it was not terminated"


def test_a_peek_returns_an_unacknowledged_entry_by_its_number() -> None:
    def peeked(nth: int, position: Position | None) -> Happened:
        return PeekMessage("t0", "s0", nth), MessagePeeked(position)

    history = (*topic(1, 1, 1), taken(single(0), single(1)), acknowledged(single(1)))
    for nth, position in enumerate((at(0), at(2), None), start=1):
        assert isinstance(judged(*history, peeked(nth, position)), Allowed)
    assert rule_broken(*history, peeked(2, at(1))) in ("ACK-01", "ACK-03")
    assert rule_broken(*history, peeked(2, None)) in ("ACK-01", "ACK-03")


def test_acknowledged_parts_of_a_batch_are_still_counted_by_a_deviation_and_nothing_else_is() -> None:
    def counted(number: int, backlog: int = 1) -> Happened:
        return ReadCursor("t0", "s0"), CursorRead(BEGINNING, (), backlog, number, (ConsumerRead("c1", (), number),))

    begin = (*topic(3), taken(part(0, 3), part(1, 3), part(2, 3)), acknowledged(part(0, 3)))
    known = "partial-acks-not-counted-off"
    assert rule_broken(*begin, counted(3)) == "SERVE-04"
    assert deviation_met(*begin, counted(3), known=known)
    assert rule_broken(*begin, counted(4), known=known) == "SERVE-04"
    whole = (*begin, acknowledged(part(1, 3)), acknowledged(part(2, 3)))
    done = ReadCursor("t0", "s0"), CursorRead(at(0), (), 0, 3, (ConsumerRead("c1", (), 3),))
    assert rule_broken(*whole, done, known=known) == "SERVE-04"
    skipped = (*begin, (Skip("t0", "s0", 1), Done()), done)
    assert rule_broken(*skipped, known=known) == "SERVE-04", "the others were skipped"
    both = (known, "skipped-messages-still-counted")
    assert {*verdicts.allowed_by(*skipped, known=both, step_ms=STEP_MS).deviations} == {*both}


def test_the_unacknowledged_count_of_a_consumer_matches_its_pending_acks() -> None:
    def counted(number: int) -> Happened:
        arrived = (ConsumerRead("c1", (), number),)
        return ReadCursor("t0", "s0"), CursorRead(BEGINNING, (), 2, number, arrived)

    history = (*topic(3, 1), taken(part(0, 3), part(1, 3), part(2, 3)), acknowledged(part(1, 3)))
    assert isinstance(judged(*history, counted(2)), Allowed)
    assert rule_broken(*history, counted(3), known="unacked-count-lowered-by-any-ack") == "SERVE-04"
    assert rule_broken(*history, counted(1), known="unacked-count-lowered-by-any-ack") == "SERVE-04"
    once_more: Happened = (AckById("c1", ("b2",)), Acknowledged((part(1, 3),), receipt=True))
    assert deviation_met(*history, once_more, counted(1), known="unacked-count-lowered-by-any-ack")
    assert rule_broken(*history, once_more, counted(0), known="unacked-count-lowered-by-any-ack") == "SERVE-04"
    other: Happened = (Subscribe("c2", "t0", "s1", "Shared"), Subscribed())
    pending: Happened = (Receive("c2", 3), ReceivedMessages((part(0, 3), part(1, 3), part(2, 3)), settled=True))
    elsewhere = (*history, other, pending, once_more, counted(1))
    assert deviation_met(*elsewhere, known="unacked-count-lowered-by-any-ack"), "it is pending at another subscription"


def test_the_unacknowledged_count_of_a_subscription_is_that_of_its_consumers() -> None:
    def counted(in_all: int, *numbers: int) -> Happened:
        arrived = tuple(ConsumerRead(f"c{nth}", (), number) for nth, number in enumerate(numbers, start=1))
        return ReadCursor("t0", "s0"), CursorRead(BEGINNING, (), 3, in_all, arrived)

    history = (*topic(1, 1, 1), taken(single(0), single(1)))
    assert isinstance(judged(*history, counted(2, 2)), Allowed)
    assert rule_broken(*history, counted(1, 2)) == "SERVE-04"
    assert rule_broken(*history, counted(3, 2)) == "SERVE-04"
    assert isinstance(judged(*history, counted(3)), Allowed), "the count at its consumer was not read"


def test_only_the_last_entry_is_not_in_the_backlog_of_a_non_durable_subscription_by_a_deviation() -> None:
    def shown(backlog: int, *sizes: int, durable: bool = False) -> list[Happened]:
        read_along: Happened = (Subscribe("c2", "t0", "s2", kind="Exclusive", durable=durable), Subscribed())
        return [*topic(*sizes), read_along, (ReadCursor("t0", "s2"), CursorRead(BEGINNING, (), backlog, 0))]

    known = "last-entry-not-in-backlog"
    assert deviation_met(*shown(0, 3), known=known)
    assert rule_broken(*shown(1, 1, 1), known=known) == "SERVE-04"
    assert rule_broken(*shown(0, 1, 1), known=known) == "SERVE-04"
    assert rule_broken(*shown(0, 3, durable=True), known=known) == "SERVE-04"
    assert isinstance(judged(*shown(1, 3), known=known), Allowed)


def test_a_nacked_message_is_redelivered_with_a_higher_redelivery_count() -> None:
    history = (*topic(1, 1), taken(single(0)), failed(single(0)))
    assert rule_broken(*history, taken(single(0, redeliveries=0))) == "ACK-13"
    assert isinstance(judged(*history, taken(single(0, redeliveries=1))), Allowed)


def test_a_nack_in_one_partition_redelivers_nothing_of_another() -> None:
    created = Created(deduplication=False, snapshot_room=6, ledger_room=LEDGER_ROOM, flush_s=60.0, stored_ranges=100)
    history: list[Happened] = [(CreateTopic("t0", persistence="every-ack", partitions=2), created)]
    for number in (0, 1):
        part_of, stored = partition_name("t0", number), Stored(Position(1 + number, 0))
        history += [
            (OpenProducer(f"p{number}", part_of, "p"), Opened(-1)),
            (Send(f"p{number}", (Entry((Message(1, f"b{number}"),)),)), Sent((stored,))),
        ]
    both = [Delivery(Position(1 + number, 0), -1, 0, f"b{number}", 0) for number in (0, 1)]
    history += [subscribed("c1", kind="Exclusive"), taken(*both), failed(both[0])]
    asked_for_two: Happened = (Receive("c1", 2), ReceivedMessages((both[0],), settled=True))
    assert isinstance(judged(*history, asked_for_two), Allowed)
    nothing: Happened = (Receive("c1", 2), ReceivedMessages((), settled=True))
    assert rule_broken(*history, nothing) == "ACK-13"


def test_an_acknowledged_message_is_not_delivered() -> None:
    history = (*topic(1, 1), taken(single(0)), acknowledged(single(0)), subscribed("c2"))
    assert rule_broken(*history, taken(single(0), by="c2")) in ("ACK-01", "ACK-03")


def test_a_message_in_flight_during_a_skip_may_still_be_delivered_with_its_whole_batch() -> None:
    """Seen on 4.0.8 under load: a broker does not check again what it has read."""
    skipped: Happened = (SkipAll("t0", "s0"), Done())
    begun = (*topic(2, 1), acknowledged(part(0, 2)))
    asking = (*begun, subscribed("c2", queue=5), skipped)
    came = taken(part(0, 2), part(1, 2), by="c2", settled=False)
    assert isinstance(judged(*asking, read(at(1), backlog=0), came), Allowed)
    assert rule_broken(*asking, came, came) in ("ACK-01", "ACK-04", "ACK-12")
    assert rule_broken(*begun, skipped, subscribed("c2", queue=5), came) in ("ACK-01", "ACK-03", "ACK-04")
    below_zero = CursorRead(at(1), (), 0, -1, (ConsumerRead("c2", (), -1),))
    acked: Happened = (AckById("c2", ("b2",)), Acknowledged((part(1, 2),), receipt=True))
    again = (*asking, came, acked, (ReadCursor("t0", "s0"), below_zero))
    assert deviation_met(*again, known="unacked-count-lowered-by-any-ack"), "the skip made it no pending ack any more"


# ------------------------------------------------------------------------------------------------ unloads and skips


def test_an_unload_right_after_the_first_ack_may_lose_it_only_if_that_is_known() -> None:
    acks = (*topic(1, 1), taken(single(0)), acknowledged(single(0)))
    lost = read(BEGINNING, backlog=2)
    assert deviation_met(*acks, UNLOADED, lost, known="unload-while-cursor-ledger-opens")
    later = (*acks, read(at(0), backlog=1), UNLOADED)
    assert rule_broken(*later, lost, known="unload-while-cursor-ledger-opens") == "ACK-10"


def test_the_state_of_a_cursor_may_be_in_its_ledger_if_that_was_opening_during_the_unload() -> None:
    acks = (*topic(1, 1, 1), taken(*map(single, range(3))), acknowledged(single(1)))
    only_ledger: Happened = (ReadStoredCursor("t0", "s0"), StoredCursorRead(None))
    state = CursorRead(BEGINNING, (Range(at(0), at(1)),), 2, 0)
    kept: Happened = (ReadCursor("t0", "s0"), state)
    assert isinstance(judged(*acks, UNLOADED, only_ledger, kept), Allowed)
    assert rule_broken(*acks, UNLOADED, only_ledger, read(BEGINNING, backlog=3)) == "ACK-10", "its ack must be there"
    settled = (*acks, (ReadCursor("t0", "s0"), state), UNLOADED)
    assert rule_broken(*settled, only_ledger) == "ACK-10"


def test_an_unload_may_lose_acks_of_entries_and_of_batch_indexes_together() -> None:
    first, batch = single(0), tuple(Delivery(at(1), index, 3, f"b{2 + index}", 0) for index in range(3))
    acks = (taken(first, *batch), acknowledged(batch[0]), acknowledged(first))
    both_lost = (*topic(1, 3), *acks, UNLOADED, read(BEGINNING, backlog=2), subscribed("c2"))
    known = ("unload-while-cursor-ledger-opens", "batch-index-acks-not-recovered")
    again = taken(first, *batch, by="c2")
    allowed = judged(*both_lost, again, known=known)
    assert isinstance(allowed, Allowed), allowed
    assert "unload-while-cursor-ledger-opens" in allowed.deviations


def test_a_message_whose_ack_an_unload_lost_may_be_in_flight_when_it_is_acked_again() -> None:
    """The broker may have sent it before, to a consumer that subscribed in the meantime or one with an empty queue."""
    begun = (*topic(2, 1, kind="Key_Shared"), taken(part(0, 2), part(1, 2)), acknowledged(part(0, 2)), UNLOADED)
    acked_again: Happened = (AckById("c3", ("b1",)), Acknowledged((part(0, 2),), receipt=True))
    came = taken(part(0, 2), part(1, 2), by="c2", settled=False)
    others = (subscribed("c3", kind="Key_Shared"), subscribed("c2", kind="Key_Shared", queue=5))
    assert isinstance(judged(*begun, *others, acked_again, came, known="batch-index-acks-not-recovered"), Allowed)
    nothing: Happened = (ReceiveDue("t0", "s0"), DueReceived((ConsumerRead("c2", (), permits=0, unacknowledged=0),)))
    ready = (nothing, (Permit("c2", 5), Done()))
    assert isinstance(
        judged(*begun, *others, *ready, acked_again, came, known="batch-index-acks-not-recovered"), Allowed
    )


def test_a_second_unload_may_lose_the_next_ack_too() -> None:
    lost = (*topic(1, 1), taken(single(0)), acknowledged(single(0)), UNLOADED, read(BEGINNING, backlog=2))
    once_more = (subscribed("c2"), taken(single(0), by="c2"), acknowledged(single(0), by="c2"))
    twice = judged(*lost, *once_more, UNLOADED, read(BEGINNING, backlog=2), known="unload-while-cursor-ledger-opens")
    assert isinstance(twice, Allowed), twice
    assert twice.deviations == ("unload-while-cursor-ledger-opens", "unload-while-cursor-ledger-opens")


def test_a_reloaded_terminated_topic_may_not_skip_in_its_last_ledger_only_if_that_is_known() -> None:
    skipped_six: Happened = (Skip("t0", "s0", 6), Done())
    history = (*topic(*[1] * 7), TERMINATED, UNLOADED, skipped_six)
    assert isinstance(judged(*history, read(at(5), backlog=1)), Allowed)
    assert deviation_met(*history, read(at(4), backlog=2), known="terminated-last-ledger-not-skipped")
    assert rule_broken(*history, read(at(3), backlog=3), known="terminated-last-ledger-not-skipped") in (
        "ACK-04",
        "ACK-10",
    )


def test_a_peek_into_the_last_ledger_of_a_terminated_reloaded_topic_may_return_the_entry_before_it() -> None:
    def peeked(nth: int, position: Position | None) -> Happened:
        return PeekMessage("t0", "s0", nth), MessagePeeked(position)

    history = (*topic(*[1] * 7), TERMINATED, UNLOADED)
    known = "terminated-last-ledger-not-skipped"
    assert deviation_met(*history, peeked(6, at(4)), known=known)
    assert rule_broken(*history, peeked(5, at(3)), known=known) == "ACK-10"
    assert rule_broken(*history, peeked(2, at(4)), known=known) == "ACK-10"
    assert rule_broken(*topic(*[1] * 7), TERMINATED, peeked(6, at(4)), known=known) == "ACK-18"


def test_a_topic_that_is_not_both_terminated_and_reloaded_must_skip() -> None:
    skipped: Happened = (Skip("t0", "s0", 6), Done())
    for before in ((UNLOADED,), (TERMINATED,), ()):
        history = (*topic(*[1] * 7), *before, skipped, read(at(4), backlog=2))
        assert rule_broken(*history, known="terminated-last-ledger-not-skipped") in ("ACK-04", "ACK-10")


def test_a_trimmed_ledger_stays_trimmed_after_a_cursor_reset() -> None:
    trimmed: Happened = (Trim("t0"), Trimmed((2,)))
    everything: Happened = (Skip("t0", "s0", 6), Done())
    assert rule_broken(*topic(*[1] * 7), trimmed) == "ACK-14"
    set_back: Happened = (ResetCursor("t0", "s0", None), CursorReset(None))
    again = judged(*topic(*[1] * 7), everything, trimmed, set_back, trimmed)
    assert isinstance(again, Allowed), again


def test_trimming_is_checked_wherever_a_closed_ledger_has_an_unacknowledged_entry() -> None:
    nothing_deleted: Happened = (Trim("t0"), Trimmed((1, 2)))
    everything: Happened = (Skip("t0", "s0", 6), Done())
    assert "ACK-14" in exercised(*topic(*[1] * 7), nothing_deleted)
    assert "ACK-14" not in exercised(*topic(*[1] * 7), everything, nothing_deleted), "all could have been deleted"
    assert "ACK-14" in exercised(*topic(*[1] * 7), everything, (Trim("t0"), Trimmed((2,))))


def test_a_reset_that_persists_its_read_position_acknowledges_one_entry_until_the_next_ack() -> None:
    entries = [single(number) for number in range(5)]
    reset: Happened = (ResetCursor("t0", "s0", "b2"), CursorReset(at(1)))
    begin = (*topic(*[1] * 5, kind="Exclusive"), taken(*entries), reset)

    def verdict(*happened: Happened) -> tuple[str, str | None]:
        broken = verdicts.broken_by(*begin, *happened, step_ms=STEP_MS)
        return broken.rule, broken.deviation

    killed: Happened = (Kill(), Done())
    assert verdict(killed, read(at(1), backlog=3)) == ("ACK-16", "reset-persists-read-position")
    assert verdict(killed, read(at(2), backlog=2)) == ("ACK-16", None), "two entries are acknowledged"
    assert verdict(UNLOADED, read(at(1), backlog=3))[1] is None, "an unload persists what is in memory"
    acked = (subscribed("c2", kind="Exclusive"), taken(single(1), by="c2"), acknowledged(single(1), by="c2"))
    assert verdict(*acked, killed, read(at(2), backlog=2))[1] is None, "an ack was persisted"


def test_a_kill_gives_all_batches_the_parts_of_the_first_by_a_deviation_and_no_others() -> None:
    first = [Delivery(at(0), index, 2, f"b{index + 1}", 0) for index in range(2)]
    second = [Delivery(at(1), index, 3, f"b{index + 3}", 0) for index in range(3)]
    begin = (*topic(2, 3), taken(*first, *second))

    def deviation(*happened: Happened, left: Sequence[Delivery]) -> str | None:
        came: Happened = (ReceiveAll("t0", "s0"), AllReceived(tuple(left)))
        return verdicts.broken_by(*begin, *happened, (Kill(), Done()), came, step_ms=STEP_MS).deviation

    both = (acknowledged(first[1]), acknowledged(second[1]))
    assert deviation(*both, left=(first[0], second[0])) == "partial-acks-persisted-as-first"
    assert deviation(*both, left=(second[0], second[2])) is None, "the first batch has lost a message, too"
    assert deviation(acknowledged(second[1]), left=(*first, second[0])) is None, "only one batch has acknowledged parts"


def test_an_unload_after_a_kill_loses_the_acks_of_parts_by_the_unload_s_deviation_alone() -> None:
    first = [Delivery(at(0), index, 2, f"b{index + 1}", 0) for index in range(2)]
    second = [Delivery(at(1), index, 3, f"b{index + 3}", 0) for index in range(3)]
    last = Delivery(at(2), -1, 0, "b6", 0)
    acks = (taken(*first, *second, last), acknowledged(first[1], second[1], last))
    again = taken(*first, *second, by="c2")
    broken = verdicts.broken_by(
        *topic(2, 3, 1),
        *acks,
        (AwaitPersisted("t0", "s0"), Persisted(after_ms=0.0, entries=1)),
        (Kill(), Done()),
        UNLOADED,
        subscribed("c2"),
        again,
        step_ms=STEP_MS,
    )
    assert broken.deviation == "batch-index-acks-not-recovered"


def test_a_batch_that_a_kill_leaves_without_messages_is_not_dispatched_by_a_deviation() -> None:
    """The first batch has a message left that the second is too small to have. That one counts as unacknowledged."""
    first = [Delivery(at(0), index, 3, f"b{index + 1}", 0) for index in range(3)]
    second = [Delivery(at(1), index, 2, f"b{index + 4}", 0) for index in range(2)]
    begin = (*topic(3, 2), taken(*first, *second))
    starved: Happened = (ReceiveAll("t0", "s0"), Starved("1 entry that no consumer has is not delivered"))

    def deviation(*acks: Happened) -> str | None:
        return verdicts.broken_by(*begin, *acks, (Kill(), Done()), starved, step_ms=STEP_MS).deviation

    assert deviation(acknowledged(*first[:2]), acknowledged(second[0])) == "partial-acks-persisted-as-first"
    assert deviation(acknowledged(*first[1:]), acknowledged(second[0])) is None, "the second batch has a message left"
    assert deviation(acknowledged(*first[:2])) is None, "only one batch has acknowledged parts"


def test_a_created_cursor_is_persisted_at_the_latest_message_until_the_next_ack() -> None:
    """What was in the topic when the subscription was created is lost; what came later is not."""
    later: Happened = (Send("p", (Entry((Message(9, "b9"),)),)), Sent((Stored(at(2)),)))
    killed: Happened = (Kill(), Done())
    acked = (taken(single(0)), acknowledged(single(0)))
    for end in (UNLOADED, killed):
        begin = topic(1, 1)
        broken = verdicts.broken_by(*begin, later, end, read(at(1), backlog=1), step_ms=STEP_MS)
        assert broken.deviation == "created-cursor-persisted-at-latest"
        broken = verdicts.broken_by(*begin, later, end, read(at(2), backlog=0), step_ms=STEP_MS)
        assert broken.deviation is None, "a later message is acknowledged, too"
    in_store: Happened = (ReadStoredCursor("t0", "s0"), StoredCursorRead(at(1)))
    assert deviation_met(*topic(1, 1), later, UNLOADED, in_store, known="created-cursor-persisted-at-latest")
    kept = read(BEGINNING, backlog=3)
    assert rule_broken(*begin, later, UNLOADED, in_store, kept, known="created-cursor-persisted-at-latest") == "ACK-10"
    broken = verdicts.broken_by(*topic(1, 1), *acked, later, UNLOADED, read(at(1), backlog=1), step_ms=STEP_MS)
    assert broken.deviation is None, "an ack was persisted"


def test_a_mark_delete_within_a_recovered_range_makes_the_backlog_one_too_low() -> None:
    entries = [single(number) for number in range(5)]
    acks = (*topic(*[1] * 5, kind="Exclusive"), taken(*entries), *map(acknowledged, entries[1:3]))

    def recovered(first: int, *, backlog: int) -> tuple[Happened, ...]:
        to = at(first)
        reset: Happened = (ResetCursor("t0", "s0", f"b{first + 1}"), CursorReset(to))
        told = read(at(first - 1), backlog=backlog, ranges=(Range(at(0), at(2)),))
        return (*acks, reset, (Kill(), Done()), told)

    for backlog in (2, 1):
        met = verdicts.allowed_by(*recovered(2, backlog=backlog), known="reset-keeps-former-ranges", step_ms=STEP_MS)
        assert set(met.deviations) == {"reset-keeps-former-ranges"}
    assert rule_broken(*recovered(2, backlog=0), known="reset-keeps-former-ranges") == "SERVE-04"
    assert isinstance(judged(*recovered(1, backlog=2), known="reset-keeps-former-ranges"), Allowed)
    assert rule_broken(*recovered(1, backlog=1), known="reset-keeps-former-ranges") == "SERVE-04"
