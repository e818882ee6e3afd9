"""Many holes between acknowledgments (ACK-21): what an unload or a kill may lose of them, and what it may not."""

from __future__ import annotations

import pytest

from model.events import Acknowledged, Created, CursorRead, Delivery, Done, Opened, Range, Sent, Stored, Subscribed
from model.hole_operations import (
    UNKNOWN,
    HolesMade,
    HolesReceived,
    MakeHoles,
    Progression,
    ReceiveHoles,
    progressions,
)
from model.holes import bits_of, numbers_of
from model.judgement import Allowed, Broken
from model.log import Position
from model.operations import CreateTopic, Kill, OpenProducer, Send, Unload
from model.subscription_operations import AckById, CreateSubscription, ReadCursor, Subscribe
from model.vocabulary import Entry, Message
from tests.verdicts import Happened, Verdict, judged

BY_ENTRY = "persisted-ranges-counted-by-entry"
UNLOADED: Happened = (Unload("t"), Done())
KILLED: Happened = (Kill(), Done())
ROOM = 5


def ledgers(count: int) -> tuple[int, ...]:
    """Ledgers of five messages."""
    return (*[ROOM] * (count // ROOM), *([count % ROOM] if count % ROOM else []))


def made(count: int, stride: int, first: int = 0, *, total: int | None = None, persisted: bool = False) -> Happened:
    return MakeHoles("t", count, stride, first, persisted), HolesMade(ledgers(total or count), persisted)


def received(total: int, *numbers: int) -> Happened:
    return ReceiveHoles("t"), HolesReceived(ledgers(total), progressions(numbers))


def verdict(*happened: Happened, limit: int = 10_000, known: str = "") -> Verdict:
    created = Created(deduplication=False, snapshot_room=6, persisted_ranges=limit)
    return judged((CreateTopic("t"), created), *happened, known=known)


def rule_of(verdict: Verdict) -> str | None:
    return verdict.rule if isinstance(verdict, Broken) else None


@pytest.mark.parametrize("numbers", [[], [4], [0, 2, 4, 6], [0, 1, 5, 5, 9], [UNKNOWN, 3, 2, 1], list(range(100))])
def test_progressions_have_the_numbers_in_their_order(numbers: list[int]) -> None:
    assert [number for one in progressions(numbers) for number in one] == numbers


def test_sets_are_bits() -> None:
    assert numbers_of(bits_of(range(3, 100_000, 7))) == list(range(3, 100_000, 7))
    assert progressions(range(0, 200_000, 2)) == (Progression(0, 2, 100_000),)


def test_an_unload_loses_no_ack_and_adds_none() -> None:
    acked = made(20, 2)
    left = (*range(1, 20, 2), 20)
    allowed = verdict(acked, UNLOADED, received(21, *left))
    assert isinstance(allowed, Allowed)
    assert "ACK-21" in allowed.exercised
    assert rule_of(verdict(acked, UNLOADED, received(21, *sorted({*left, 18})))) == "ACK-21"
    assert rule_of(verdict(acked, UNLOADED, received(21, *left[1:]))) == "ACK-21"
    assert rule_of(verdict(acked, received(21, *left[1:]))) == "ACK-01"


def test_a_kill_loses_what_was_not_persisted() -> None:
    everything = received(21, *range(21))
    assert rule_of(verdict(made(20, 2), KILLED, everything)) is None
    assert rule_of(verdict(made(20, 2, persisted=True), KILLED, everything)) == "ACK-21"
    assert rule_of(verdict(made(20, 2), UNLOADED, KILLED, everything)) == "ACK-21"
    later = (made(20, 2, persisted=True), made(0, 3, total=20), KILLED)
    assert rule_of(verdict(*later, received(21, *range(1, 20, 2), 20))) is None
    assert rule_of(verdict(*later, received(21, *range(20), 20))) == "ACK-21"
    assert rule_of(verdict(*later, received(21, 7))) == "ACK-21"


def test_past_the_limit_only_the_first_ranges_have_to_be_there() -> None:
    """Mark-delete is no range: ten entries are acknowledged up to 18, of which the first one is mark-delete."""
    acked, left = made(20, 2), {*range(1, 20, 2), 20}
    cases = ((9, {18}, "ACK-21"), (8, {18}, None), (8, {16}, "ACK-21"), (0, {2, 18}, None), (0, {0}, "ACK-21"))
    for limit, lost, rule in cases:
        assert rule_of(verdict(acked, UNLOADED, received(21, *sorted(left | lost)), limit=limit)) == rule
    assert rule_of(verdict(acked, UNLOADED, received(21, *sorted(left - {19})), limit=2)) == "ACK-21"
    again = (acked, UNLOADED, UNLOADED)
    assert rule_of(verdict(*again, received(21, *sorted(left | {18})), limit=8)) is None
    assert rule_of(verdict(*again, received(21, *sorted(left | {16})), limit=8)) == "ACK-21"


def test_a_range_does_not_extend_across_ledgers() -> None:
    """One to eleven are acknowledged, in three ledgers."""
    acked = made(12, 1, 1)
    assert rule_of(verdict(acked, UNLOADED, received(13, 0, 10, 11, 12), limit=2)) is None
    assert rule_of(verdict(acked, UNLOADED, received(13, 0, 10, 11, 12), limit=3)) == "ACK-21"


def test_what_is_received_was_sent_and_comes_once_and_to_the_end() -> None:
    acked = made(4, 2)
    assert rule_of(verdict(acked, received(5, 1, UNKNOWN, 4))) == "ACK-06"
    assert rule_of(verdict(acked, received(5, 1, 1, 3, 4))) == "ACK-12"
    cut_short = ReceiveHoles("t"), HolesReceived(ledgers(5), progressions((1, 3)), is_cut_short=True)
    assert rule_of(verdict(acked, cut_short)) == "SERVE-03"


def test_arrays_of_longs_lose_whole_ledgers_only() -> None:
    """The second of four ledgers passes the limit of eight entries: from it on, or after it, all acks are lost."""
    acked = made(20, 1, 1)
    for lost in (range(10, 21), range(5, 21)):
        broken = verdict(acked, UNLOADED, received(21, 0, *lost), limit=8)
        assert isinstance(broken, Broken)
        assert (broken.rule, broken.deviation) == ("ACK-21", BY_ENTRY)
        assert isinstance(verdict(acked, UNLOADED, received(21, 0, *lost), limit=8, known=BY_ENTRY), Allowed)
    for others in ((0, *range(9, 21)), (0, *range(11, 21)), (0, *range(4, 21)), range(10, 21)):
        assert rule_of(verdict(acked, UNLOADED, received(21, *others), limit=8, known=BY_ENTRY)) == "ACK-21"
    assert (
        rule_of(verdict(made(9, 1, 1), UNLOADED, received(10, 0, *range(5, 10)), limit=8, known=BY_ENTRY)) == "ACK-21"
    )


NAMES = tuple(f"b{number}" for number in range(1, 13))
PLACES = tuple(Position(number // ROOM, number % ROOM) for number in range(12))


def of_subscription(limit: int, acked: tuple[int, ...], *after: Happened, known: str = "") -> Verdict:
    """Twelve messages, of which a subscription acknowledges these."""
    created = Created(deduplication=False, snapshot_room=6, ledger_room=ROOM, persisted_ranges=limit)
    entries = tuple(Entry((Message(number, name),)) for number, name in enumerate(NAMES, 1))
    messages = tuple(Delivery(PLACES[number], business_id=NAMES[number]) for number in acked)
    happened: tuple[Happened, ...] = (
        (CreateTopic("t", persistence="every-ack"), created),
        (OpenProducer("p", "t", "p"), Opened(-1)),
        (CreateSubscription("t", "s"), Done()),
        (Send("p", entries), Sent(tuple(map(Stored, PLACES)))),
        (Subscribe("c", "t", "s"), Subscribed()),
        (AckById("c", tuple(NAMES[number] for number in acked)), Acknowledged(messages, receipt=True)),
    )
    return judged(*happened, *after, known=known)


def shown(*acked: int) -> Happened:
    ranges = tuple(Range(Position(at.ledger, at.entry - 1), at) for at in (PLACES[number] for number in acked))
    return ReadCursor("t", "s"), CursorRead(Position(0, -1), ranges, 12 - len(acked), 0, written=1)


def test_a_subscription_of_the_example_may_lose_the_last_ranges_past_the_limit() -> None:
    acked = (1, 3, 6, 8)
    for count, rule in ((4, None), (3, None), (2, None), (1, "ACK-21")):
        assert rule_of(of_subscription(2, acked, UNLOADED, shown(*acked[:count]))) == rule
    assert rule_of(of_subscription(2, acked, UNLOADED, shown(1, 3, 8))) == "ACK-21"
    assert rule_of(of_subscription(4, acked, UNLOADED, shown(1, 3, 6))) == "ACK-10"
    assert isinstance(allowed := of_subscription(2, acked, UNLOADED, shown(1, 3)), Allowed)
    assert "ACK-21" in allowed.exercised
