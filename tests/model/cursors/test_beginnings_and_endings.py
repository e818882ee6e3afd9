"""Where a subscription begins, and how it ends (ACK-18, ACK-19)."""

from __future__ import annotations

import pytest

from model.events import Abandoned, Created, CursorReset, Done, Refused, Subscribed
from model.explain import judge
from model.judgement import Allowed
from model.log import Position
from model.operations import CreateTopic, Kill, Unload
from model.service.unexpected import Overdue
from model.subscription_operations import (
    CloseConsumer,
    CrashConsumer,
    CreateSubscription,
    CutConnection,
    DeleteSubscription,
    ReadCursor,
    ResetCursor,
    Seek,
    Subscribe,
    Unsubscribe,
)
from tests.model.cursors.test_trimmed_topics import (
    ALL_DELETED,
    BEGIN,
    FIRST_DELETED,
    NEW,
    allowed,
    at,
    broken,
    reads,
    sent,
)
from tests.verdicts import Happened, allowed_by, exercised, judged

SENT = (*BEGIN, sent(0, 7))
NOT_THERE: Happened = ReadCursor("t", "new"), Refused("404", "there is no such subscription")
JOINED: Happened = Subscribe("c", "t", "new"), Subscribed()
ENDINGS: tuple[tuple[Happened, ...], ...] = (
    (NEW, (DeleteSubscription("t", "new"), Done())),
    (JOINED, (DeleteSubscription("t", "new", by_force=True), Done())),
    (JOINED, (Unsubscribe("c"), Done())),
)


def created_at(number: int) -> Happened:
    return CreateSubscription("t", "new", at=f"b{number}"), CursorReset(at(number))


def reset_to(position: Position | None) -> Happened:
    return ResetCursor("t", "new", "b1"), CursorReset(position)


def test_a_subscription_begins_with_the_message_that_it_asked_for() -> None:
    assert allowed(*SENT, created_at(3), reads(at(2), 4)) == ()
    assert broken(*SENT, created_at(3), reads(at(3), 3))[0] == "ACK-18"
    assert broken(*SENT, created_at(3), reads(at(1), 5))[0] == "ACK-18"
    assert "ACK-18" in exercised(*SENT, created_at(3), reads(at(2), 4))


def test_a_reset_begins_with_the_first_retained_message() -> None:
    for begun in (reset_to(None), reset_to(at(1)), (Seek("c", "b1", by_time=True), CursorReset(at(1)))):
        asked = (*FIRST_DELETED, JOINED, begun)
        assert allowed(*asked, reads(at(4), 2)) == ()
        assert broken(*asked, reads(at(5), 1))[0] == "ACK-18"
    later = (*FIRST_DELETED, NEW, reset_to(at(6)))
    assert allowed(*later, reads(at(5), 1)) == ()
    assert broken(*later, reads(at(4), 2))[0] == "ACK-18"


def test_a_reset_past_the_end_begins_after_the_last_message() -> None:
    past: Happened = ResetCursor("t", "new", "b6", by_time=True, later_ms=1000), CursorReset(Position(2, 2))
    assert allowed(*SENT, NEW, past, reads(at(6), 0)) == ()
    assert broken(*SENT, NEW, past, reads(at(5), 1))[0] == "ACK-18"


def test_a_reset_where_all_is_deleted_may_be_miscounted_by_one_entry_by_a_deviation() -> None:
    asked, known = (*ALL_DELETED, NEW, reset_to(None)), "beginning-in-deleted-ledger-miscounted"
    assert allowed(*asked, reads(Position(2, 4), 0)) == ()
    assert allowed(*asked, reads(Position(2, 4), 1), known=known) == (known,)
    assert broken(*asked, reads(Position(2, 4), 2), known=known) == ("SERVE-04", None)
    reloaded: Happened = Unload("t"), Done()
    assert broken(*asked, reloaded, reads(Position(2, 4), 1), known=known) == ("SERVE-04", None)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("later", [(), ((Unload("t"), Done()),), ((Kill(), Done()),)])
def test_a_subscription_that_ended_does_not_come_back(
    ending: tuple[Happened, ...], later: tuple[Happened, ...]
) -> None:
    ended = (*SENT, *ending, *later)
    assert "ACK-19" in exercised(*ended, NOT_THERE)
    assert broken(*ended, reads(Position(1, -1), 7))[0] == "ACK-19"


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_subscription_that_is_created_again_begins_where_it_asked_to(ending: tuple[Happened, ...]) -> None:
    latest: Happened = CreateSubscription("t", "new", "latest"), Done()
    assert {"ACK-18", "ACK-19"} <= set(exercised(*SENT, *ending, latest, reads(at(6), 0)))
    assert broken(*SENT, *ending, latest, reads(Position(1, -1), 7))[0] == "ACK-19"


def test_a_consumer_unsubscribes_only_alone() -> None:
    other: Happened = Subscribe("c2", "t", "new"), Subscribed()
    refused: Happened = Unsubscribe("c"), Refused("MetadataError", "Unconnected or shared consumer")
    assert "SERVE-05" in allowed_by(*SENT, JOINED, other, refused).exercised
    assert broken(*SENT, JOINED, refused)[0] == "SERVE-01"
    assert broken(*SENT, JOINED, other, (Unsubscribe("c"), Done()))[0] == "SERVE-05"


def test_a_deletion_by_force_is_not_refused() -> None:
    refused: Happened = DeleteSubscription("t", "new", by_force=True), Refused("412", "it has consumers")
    assert broken(*SENT, JOINED, refused)[0] == "SERVE-01"


BUSY: Happened = Subscribe("other", "t", "new"), Refused("ConsumerBusy", "Exclusive consumer is already connected")
BY_FORCE: Happened = DeleteSubscription("t", "new", by_force=True), Done()


@pytest.mark.parametrize(
    ("between", "may_be_busy"),
    [
        ((), True),
        (((Unsubscribe("c"), Refused("UnknownError", "unsubscribing: Pulsar error: UnknownError")),), True),
        (((CloseConsumer("c"), Done()),), False),
        (((CrashConsumer("c"), Done()),), False),
        (((Unsubscribe("c"), Done()),), False),
    ],
)
def test_a_consumer_that_reconnects_after_a_forced_deletion_may_be_connected_to_the_next_subscription(
    between: tuple[Happened, ...], *, may_be_busy: bool
) -> None:
    connected: Happened = Subscribe("c", "t", "new", client="official"), Subscribed()
    again = (*SENT, connected, BY_FORCE, *between, NEW)
    assert isinstance(judged(*again, BUSY), Allowed) == may_be_busy
    twice = (*SENT, connected, BY_FORCE, (Subscribe("c", "t", "new", client="official"), Subscribed()), BY_FORCE)
    assert isinstance(judged(*twice, *between, NEW, BUSY), Allowed) == may_be_busy
    assert broken(*SENT, JOINED, BY_FORCE, NEW, BUSY)[0] == "SERVE-05"  # the wire client does not reconnect


def test_only_a_consumer_whose_subscription_was_deleted_need_not_reconnect() -> None:
    connected: Happened = Subscribe("c", "t", "new", client="official"), Subscribed()
    late = Overdue("SERVE-02", "in 30 s pulsar-client did not reconnect")
    for steps, need_not in (
        ((connected, BY_FORCE, NEW), True),
        ((connected,), False),
        ((connected, BY_FORCE, (CloseConsumer("c"), Done()), NEW, connected), False),
    ):
        state = allowed_by(*SENT, *steps).state
        found = judge(state, CutConnection("c"), Abandoned("it did not reconnect"), unexpected=(late,))
        assert isinstance(found, Allowed) == need_not, (steps, found)


def test_only_a_consumer_that_reconnects_to_a_partition_fails_to_unsubscribe() -> None:
    failed: Happened = Unsubscribe("c"), Refused("UnknownError", "unsubscribing: Pulsar error: UnknownError")
    unloaded: Happened = Unload("t-partition-0"), Done()
    for client, partitions, steps, explained in (
        ("official", 2, (unloaded, failed), True),
        ("wire", 2, (failed,), False),
        ("official", 2, (failed,), False),
        ("official", 0, ((Unload("t"), Done()), failed), False),
    ):
        begin: tuple[Happened, ...] = (
            (CreateTopic("t", partitions=partitions), Created(deduplication=False, snapshot_room=6)),
            (Subscribe("c", "t", "s", client=client), Subscribed()),  # type: ignore[arg-type]
        )
        found = judged(*begin, *steps, known=("unsubscribe-while-disconnected-fails",))
        assert isinstance(found, Allowed) == explained, found
