"""Chunks as entries of subscriptions: judged like all others, and which of them may starve a Shared subscription."""

from __future__ import annotations

import pytest

from model.deviations import DEVIATIONS
from model.events import (
    Acknowledged,
    ConsumerRead,
    Created,
    CursorRead,
    Delivery,
    Done,
    Late,
    Opened,
    Range,
    ReceivedMessages,
    RedeliveryRequested,
    Sent,
    Starved,
    Stored,
    Subscribed,
    Unknown,
)
from model.log import Position
from model.operations import CrashProducer, CreateTopic, OpenProducer, Send, Unload
from model.subscription_operations import (
    AckById,
    CrashConsumer,
    CutDuring,
    Nack,
    Permit,
    ReadCursor,
    Receive,
    Skip,
    Subscribe,
)
from model.vocabulary import ChunkNumber, CutAt, Entry, Message, SubscriptionType
from tests.verdicts import Happened, allowed_by, broken_by, deviates

BEYOND_PERMITS = "chunk-assigned-beyond-permits"
OUTLIVES = "chunk-assignment-outlives-consumer"
BLOCKS_OTHERS = "chunk-without-permits-blocks-others"
KNOWN = frozenset(DEVIATIONS)
LOG = ("a0", "a1", "a2", "x")
"""A message in three chunks, and another one."""
LEAVES: Happened = (CrashConsumer("c1"), Done())
UNLOADED: Happened = (Unload("t"), Done())
UNSETTLED: Happened = (ReadCursor("t", "s"), Starved("nothing comes"))


def topic(*consumers: str, kind: SubscriptionType = "Shared") -> tuple[Happened, ...]:
    sent = (Send("p", (entry(name),)) for name in LOG)
    return (
        (CreateTopic("t", persistence="every-ack"), Created(deduplication=False, snapshot_room=5)),
        (OpenProducer("p", "t", "p"), Opened(-1)),
        *((send, Sent((Stored(at(number)),))) for number, send in enumerate(sent)),
        *(subscribed(name, kind=kind) for name in consumers),
    )


def entry(name: str) -> Entry:
    chunk = ChunkNumber(int(name[1]), 3, name[0]) if len(name) > 1 else None
    return Entry((Message(1 if chunk else 2, name, chunk=chunk),))


def at(number: int) -> Position:
    return Position(7, number)


def subscribed(name: str, *, kind: SubscriptionType = "Shared") -> Happened:
    return Subscribe(name, "t", "s", kind=kind), Subscribed()


def delivered(*names: str) -> tuple[Delivery, ...]:
    return tuple(Delivery(at(LOG.index(name)), -1, 0, name, 0) for name in names)


def receives(consumer: str, *names: str) -> Happened:
    """A consumer receives these, and has no permits then."""
    return Receive(consumer, len(names)), ReceivedMessages(delivered(*names), settled=True)


def acknowledges(consumer: str, *names: str) -> Happened:
    return AckById(consumer, names), Acknowledged(delivered(*names), receipt=True)


def starves(consumer: str, *names: str) -> Happened:
    """A consumer receives these, and then nothing, although the broker has a backlog."""
    return Receive(consumer, 9), Starved("nothing comes", delivered(*names))


def test_a_first_chunk_in_flight_to_a_consumer_that_left_may_be_assigned_to_it() -> None:
    cut_off: Happened = (CutDuring(Receive("c1", 9), CutAt("MESSAGE")), ReceivedMessages((), settled=False))
    left = (*topic("c1"), cut_off, subscribed("c2"))
    assert deviates(OUTLIVES, *left, starves("c2", "x"))
    settled = (*topic("c1"), receives("c1", *LOG), LEAVES, subscribed("c2"), starves("c2", "x"))
    assert broken_by(*settled, known=KNOWN).deviation is None
    again = (*left, starves("c2", "a0", "a1", "a2"))
    assert broken_by(*again, known=KNOWN).deviation is None, "the first chunk was sent again"


def test_a_chunk_that_a_consumer_nacks_was_sent_to_it_even_if_it_never_received_it() -> None:
    returns: Happened = Nack("c1"), RedeliveryRequested(delivered("a0"))
    blocked = (*topic("c1", "c2"), returns, starves("c2"))
    assert deviates(BLOCKS_OTHERS, *blocked)
    nothing: Happened = Nack("c1"), RedeliveryRequested(())
    assert broken_by(*topic("c1", "c2"), nothing, starves("c2"), known=KNOWN).deviation is None


def test_the_ack_of_a_chunk_is_the_ack_of_one_entry() -> None:
    before = (*topic("c1", kind="Exclusive"), receives("c1", *LOG), acknowledges("c1", "a1"))
    allowed_by(*before, (ReadCursor("t", "s"), CursorRead(Position(7, -1), (Range(at(0), at(1)),), 3, 3)))
    assert broken_by(*before, (ReadCursor("t", "s"), CursorRead(at(2), (), 1, 1))).rule == "ACK-03"


@pytest.mark.parametrize(
    ("history", "deviation"),
    [
        ((receives("c1", "a0"), LEAVES, starves("c2")), OUTLIVES),
        ((acknowledges("c1", "a0"), starves("c2")), OUTLIVES),
        ((receives("c1", "a0"), starves("c2")), BLOCKS_OTHERS),
        ((receives("c1", "a0", "a1"), acknowledges("c2", "x"), starves("c1")), BEYOND_PERMITS),
    ],
    ids=["its consumer left", "the first chunk is acknowledged", "its consumer has no permits", "the last chunk"],
)
def test_a_chunk_that_cannot_be_sent_explains_that_a_consumer_is_starved(
    history: tuple[Happened, ...], deviation: str
) -> None:
    assert deviates(deviation, *topic("c1", "c2"), *history)


@pytest.mark.parametrize(
    "history",
    [
        (*topic("c1", "c2"), starves("c1")),
        (*topic("c1", "c2"), receives("c1", "a0", "a1", "a2"), LEAVES, starves("c2")),
        (*topic("c1", "c2"), receives("c1", "a0"), acknowledges("c1", "a0", "a1", "a2"), starves("c2")),
        (*topic("c1"), receives("c1", "a0"), starves("c1")),
        (*topic("c1", kind="Failover"), receives("c1", "a0"), LEAVES, subscribed("c2", kind="Failover"), starves("c2")),
        (*topic("c1"), receives("c1", "a0"), UNLOADED, subscribed("c2"), starves("c2")),
    ],
    ids=["not begun", "its consumer had all", "nothing left", "its consumer has permits", "Failover", "reloaded"],
)
def test_another_starvation_of_a_shared_subscription_has_no_known_reason(history: tuple[Happened, ...]) -> None:
    broken = broken_by(*history, known=KNOWN)
    assert broken.deviation is None
    assert broken.rule in ("ACK-12", "SERVE-03")


@pytest.mark.parametrize(
    ("early", "received", "is_explained"),
    [
        ((), (receives("c1", "a0", "a1"), starves("c1")), True),
        ((), (starves("c1", "a0", "a1"),), False),
        ((), (receives("c1", "a0"), starves("c1", "a1")), False),
        (((Receive("c1", 2), ReceivedMessages((), settled=True)),), (starves("c1", "a0", "a1"),), True),
        (((Permit("c1", 2), Done()),), (starves("c1", "a0", "a1"),), True),
    ],
    ids=["used up", "given at once", "the second one within them", "two left", "two given"],
)
def test_a_last_chunk_is_lost_by_a_deviation_only_if_the_permits_may_have_been_used_up(
    early: tuple[Happened, ...], received: tuple[Happened, ...], *, is_explained: bool
) -> None:
    created, sent = topic()[:2], topic()[2:]
    history = (*created, subscribed("c1"), subscribed("c2"), *early, *sent, *received)
    if is_explained:
        assert deviates(BEYOND_PERMITS, *history)
    else:
        broken = broken_by(*history, known=KNOWN)
        assert (broken.rule, broken.deviation) == ("SERVE-03", None)


def test_a_chunk_that_waits_for_its_consumer_is_not_due_to_another_one() -> None:
    before = (*topic("c1", "c2"), receives("c1", "a0"), acknowledges("c2", "x"))
    for waiting in (starves("c2"), UNSETTLED):
        assert allowed_by(*before, waiting).deviations == ()


def test_a_cursor_that_does_not_settle_has_the_same_reasons() -> None:
    assert deviates(OUTLIVES, *topic("c1", "c2"), receives("c1", "a0"), LEAVES, UNSETTLED)
    broken = broken_by(*topic("c1", "c2"), UNSETTLED, known=KNOWN)
    assert (broken.rule, broken.deviation) == ("SERVE-03", None)


def test_nor_is_it_judged_where_subscriptions_are_not_tracked_so_that_the_reasons_are_unknown() -> None:
    unanswered = (Send("p", (Entry((Message(3, "y"),)),), wait=False), Sent(()))
    crashed = CrashProducer("p"), Done(), (Late("p", (Unknown("the connection was lost"),)),)
    lost: Happened = Skip("t", "s", 1), Done()
    untracked = (*topic("c1", "c2"), unanswered, crashed, lost)
    for before in ((), (receives("c1", "a0"),)):
        history = (*topic("c1", "c2"), *before, unanswered, crashed, lost)
        assert allowed_by(*history, UNSETTLED).excused == ("SERVE-03",)
    without_chunks = [step for step in untracked if not isinstance(step[0], Send) or step is unanswered]
    assert broken_by(*without_chunks, UNSETTLED).rule == "SERVE-03"
    opened: Happened = OpenProducer("q", "t", "q"), Opened(-1)
    perhaps: Happened = Send("q", (entry("a0"),)), Sent((Unknown("the connection was lost"),))
    assert allowed_by(*without_chunks, opened, perhaps, UNSETTLED).excused == ("SERVE-03",)


def counts(*, at_c2: int, in_all: int, acknowledged: tuple[Range, ...] = ()) -> Happened:
    """The stats of the subscription, where nothing is acknowledged but these."""
    arrived = (ConsumerRead("c2", (), at_c2),)
    left = 4 - len(acknowledged)
    return ReadCursor("t", "s"), CursorRead(at(-1), acknowledged, backlog=left, unacknowledged=in_all, arrived=arrived)


def test_a_chunk_that_was_sent_to_a_consumer_that_left_counts_only_in_the_subscription() -> None:
    left = (*topic("c1"), receives("c1", "a0", "x"), subscribed("c2"), LEAVES, receives("c2", "x"))
    allowed_by(*left, counts(at_c2=1, in_all=1), known=KNOWN)
    assert deviates(OUTLIVES, *left, counts(at_c2=1, in_all=2))
    assert broken_by(*left, counts(at_c2=1, in_all=5), known=KNOWN).rule == "SERVE-04", "it has three chunks"
    whole = (*topic("c1"), receives("c1", "a0", "a1", "a2"), subscribed("c2"), LEAVES, receives("c2", "x"))
    assert broken_by(*whole, counts(at_c2=1, in_all=2), known=KNOWN).rule == "SERVE-04"


def test_an_ack_by_another_consumer_does_not_take_such_a_chunk_off_the_count() -> None:
    history = (*topic("c1"), receives("c1", "a0", "x"), subscribed("c2"), LEAVES, receives("c2", "x"))
    acknowledged, second = (*history, acknowledges("c2", "a1")), (Range(at(0), at(1)),)
    assert deviates(OUTLIVES, *acknowledged, counts(at_c2=1, in_all=2, acknowledged=second))
    assert broken_by(*acknowledged, counts(at_c2=1, in_all=5, acknowledged=second), known=KNOWN).rule == "SERVE-04"


@pytest.mark.parametrize(("order", "is_stuck"), [(("x", "a2", "a0"), True), (("x", "a0", "a2"), False)])
def test_a_chunk_before_the_first_one_of_its_message_blocks_what_comes_later(
    order: tuple[str, ...], *, is_stuck: bool
) -> None:
    """The dispatcher rereads it before any new message, so it never reads the first chunk."""
    sent = [(Send("p", (entry(name),)), Sent((Stored(at(number)),))) for number, name in enumerate(order)]
    starved: Happened = (Receive("c1", 9), Starved("nothing comes", (Delivery(at(0), -1, 0, "x", 0),)))
    broken = broken_by(*topic()[:2], *sent, subscribed("c1"), starved, known=KNOWN - {OUTLIVES})
    assert broken.deviation == (OUTLIVES if is_stuck else None)
