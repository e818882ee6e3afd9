"""A new subscription at the earliest message of a topic whose acknowledged ledgers are deleted begins after these."""

from __future__ import annotations

import pytest

from model.events import (
    Acknowledged,
    AllReceived,
    Created,
    CursorRead,
    CursorReset,
    Delivery,
    Done,
    Opened,
    ReceivedMessages,
    Sent,
    Stored,
    StoredCursorRead,
    Subscribed,
    Trimmed,
)
from model.judgement import Allowed
from model.log import Position
from model.operations import CreateTopic, OpenProducer, Send, Trim, Unload
from model.subscription_operations import (
    AckById,
    Acknowledge,
    CreateSubscription,
    DeleteSubscription,
    ReadCursor,
    ReadStoredCursor,
    Receive,
    ReceiveAll,
    ResetCursor,
    SkipAll,
    Subscribe,
)
from model.vocabulary import Entry, Message
from tests import verdicts
from tests.verdicts import Happened

ROOM = 5
STEP_MS = 1000.0


def at(number: int) -> Position:
    """The position of the n-th entry, from 0."""
    return Position(1 + number // ROOM, number % ROOM)


def sent(first: int, count: int) -> Happened:
    numbers = range(first, first + count)
    entries = tuple(Entry((Message(number + 1, f"b{number}"),)) for number in numbers)
    return Send("p", entries), Sent(tuple(Stored(at(number)) for number in numbers))


def trimmed(*ledgers: int) -> Happened:
    return Trim("t"), Trimmed(ledgers)


def reads(mark_delete: Position, backlog: int, name: str = "new") -> Happened:
    return ReadCursor("t", name), CursorRead(mark_delete, (), backlog, 0)


def receives(*numbers: int) -> Happened:
    messages = tuple(Delivery(at(number), -1, 0, f"b{number}", 0) for number in numbers)
    return ReceiveAll("t", "new"), AllReceived(messages)


BEGIN: tuple[Happened, ...] = (
    (
        CreateTopic("t", persistence="every-ack", is_trimmed=True),
        Created(deduplication=False, snapshot_room=6, ledger_room=ROOM, flush_s=60.0),
    ),
    (OpenProducer("p", "t", "p"), Opened(-1)),
    (CreateSubscription("t", "old"), Done()),
)
NEW: Happened = (CreateSubscription("t", "new", "earliest"), Done())
ALL_DELETED = (*BEGIN, sent(0, 10), (SkipAll("t", "old"), Done()), (DeleteSubscription("t", "old"), Done()), trimmed(3))
FIRST_DELETED = (*BEGIN, sent(0, 7), (SkipAll("t", "old"), Done()), trimmed(2))


def allowed(*history: Happened, known: str = "") -> tuple[str, ...]:
    return verdicts.allowed_by(*history, known=known, step_ms=STEP_MS).deviations


def broken(*history: Happened, known: str = "") -> tuple[str, str | None]:
    found = verdicts.broken_by(*history, known=known, step_ms=STEP_MS)
    return found.rule, found.deviation


def test_it_begins_after_what_was_deleted() -> None:
    """If all ledgers were, its mark-delete position is shown before the last one's first entry."""
    for mark_delete in (Position(2, -1), Position(2, 4)):
        assert allowed(*ALL_DELETED, NEW, reads(mark_delete, 0), receives()) == ()
    later = (*ALL_DELETED, NEW, reads(Position(2, -1), 0), sent(10, 2))
    assert allowed(*later, reads(Position(2, -1), 2), receives(10, 11)) == ()
    assert allowed(*FIRST_DELETED, NEW, reads(Position(1, 4), 2), receives(5, 6)) == ()


def test_an_ack_by_id_of_a_deleted_entry_moves_its_mark_delete_position_and_nothing_else() -> None:
    """Seen on 4.0.8: the entries between, which are deleted, do not hold it up."""
    subscribed: Happened = (Subscribe("c", "t", "new", "Shared", start="earliest"), Subscribed())
    begun = (*ALL_DELETED, subscribed, reads(Position(2, -1), 0), sent(10, 2))
    deleted = tuple(Delivery(at(number), -1, 0, f"b{number}") for number in (6, 7))
    acknowledged: Happened = (AckById("c", ("b6", "b7")), Acknowledged(deleted, receipt=True))
    assert allowed(*begun, acknowledged, reads(Position(2, 2), 2)) == ()
    assert broken(*begun, acknowledged, reads(Position(2, 2), 4))[0] == "ACK-02", "they are in the backlog"
    kept = (*BEGIN, sent(0, 10), subscribed, reads(Position(1, -1), 10), acknowledged)
    assert broken(*kept, reads(Position(2, 2), 2))[0] == "ACK-03", "they are not deleted"


def test_it_begins_after_what_was_deleted_or_before_it_also_if_it_acknowledged_part_of_a_batch() -> None:
    """The stats do not show the part, so they show the state before it."""
    batches = tuple(
        Entry((Message(2 * number + 1, f"a{number}"), Message(2 * number + 2, f"b{number}"))) for number in range(ROOM)
    )
    filled: Happened = (Send("p", batches), Sent(tuple(Stored(at(number)) for number in range(ROOM))))
    first = Delivery(at(0), 0, 2, "a0", 0)
    begun = (*BEGIN[:2], filled, (Subscribe("c", "t", "new", durable=False), Subscribed()))
    received: Happened = (Receive("c", 1), ReceivedMessages((first, Delivery(at(0), 1, 2, "b0", 0))))
    acknowledged: Happened = (Acknowledge("c", (0,), cumulative=True), Acknowledged((first,), receipt=True))
    assert allowed(*begun, received, acknowledged, reads(Position(1, -1), 5)) == ()
    assert broken(*begun, received, acknowledged, reads(Position(1, -1), 4))[0] == "SERVE-04"


def test_it_is_stored_before_the_last_deleted_ledger_and_recovered_after_it() -> None:
    """Seen on 4.0.8."""
    unloaded: tuple[Happened, ...] = (*ALL_DELETED, NEW, reads(Position(2, -1), 0), (Unload("t"), Done()))
    stored: Happened = (ReadStoredCursor("t", "new"), StoredCursorRead(Position(2, -1), ()))
    assert allowed(*unloaded, stored, reads(Position(2, -1), 0), receives()) == ()
    too_early: Happened = (ReadStoredCursor("t", "old"), StoredCursorRead(Position(2, -1), ()))
    kept = (*BEGIN, sent(0, 7), (SkipAll("t", "old"), Done()), (Unload("t"), Done()))
    assert broken(*kept, too_early)[0] == "ACK-10"


def test_it_does_not_begin_later_or_at_what_was_deleted() -> None:
    for wrong in (reads(Position(2, 0), 1), reads(Position(1, -1), 7), receives(6)):
        assert broken(*FIRST_DELETED, NEW, wrong)[0] in ("ACK-18", "SERVE-04")
    assert broken(*FIRST_DELETED, NEW, reads(Position(1, 4), 3)) == ("SERVE-04", None)


@pytest.mark.parametrize(("mark_delete", "backlog"), [(Position(1, -1), 7), (Position(1, 4), 2)])
def test_a_ledger_may_have_been_deleted_once_every_durable_subscription_acknowledged_it(
    mark_delete: Position, backlog: int
) -> None:
    """A broker also deletes ledgers without a request."""
    acknowledged = (*BEGIN, sent(0, 7), (SkipAll("t", "old"), Done()))
    assert allowed(*acknowledged, NEW, reads(mark_delete, backlog)) == ()
    kept = (*BEGIN, sent(0, 7))
    at_first = backlog == 7
    assert isinstance(verdicts.judged(*kept, NEW, reads(mark_delete, backlog), step_ms=STEP_MS), Allowed) == at_first


def test_a_backlog_has_the_last_deleted_ledger_by_a_deviation_and_nothing_else() -> None:
    known, before = "deleted-ledger-in-backlog", Position(2, -1)
    begun = (*ALL_DELETED, NEW)
    assert broken(*begun, reads(before, 5)) == ("SERVE-04", known)
    assert set(allowed(*begun, reads(before, 5), sent(10, 2), reads(before, 7), known=known)) == {known}
    for other in (4, 6, 10):
        assert broken(*begun, reads(before, other), known=known) == ("SERVE-04", None)
    reloaded = (*begun, reads(before, 5), (Unload("t"), Done()))
    assert set(allowed(*reloaded, reads(before, 0), known=known)) == {known}
    assert broken(*reloaded, reads(before, 5), known=known) == ("SERVE-04", None)
    assert broken(*FIRST_DELETED, NEW, reads(Position(1, 4), 7), known=known) == ("SERVE-04", None)


def test_a_backlog_has_one_entry_too_many_by_a_deviation_where_a_subscription_began_in_a_deleted_ledger() -> None:
    known = "beginning-in-deleted-ledger-miscounted"
    deleted: tuple[Happened, ...] = (*BEGIN, sent(0, 10), (DeleteSubscription("t", "old"), Done()))
    begun = (*deleted, (CreateSubscription("t", "new", "latest"), Done()))
    assert broken(*begun, reads(Position(3, -1), 1)) == ("SERVE-04", known)
    at_deleted: Happened = (CreateSubscription("t", "new", at="b3"), CursorReset(at(3)))
    assert broken(*deleted, at_deleted, reads(Position(3, -1), 1)) == ("SERVE-04", known)
    assert broken(*deleted, at_deleted, reads(Position(3, -1), 2), known=known) == ("SERVE-04", None)
    more = (*begun, reads(Position(3, -1), 1), sent(10, 2), reads(Position(3, -1), 3))
    assert set(allowed(*more, known=known)) == {known}
    for other in (2, 5, 10):
        assert broken(*begun, reads(Position(3, -1), other), known=known) == ("SERVE-04", None)
    reset: Happened = (ResetCursor("t", "old", None), CursorReset(None))
    consumed: tuple[Happened, ...] = (*BEGIN, sent(0, 10), (SkipAll("t", "old"), Done()), sent(10, 2), reset)
    assert broken(*consumed, reads(Position(3, -1), 3, "old")) == ("SERVE-04", known)
    with_room: tuple[Happened, ...] = (*BEGIN, sent(0, 7), (DeleteSubscription("t", "old"), Done()))
    latest: Happened = (CreateSubscription("t", "new", "latest"), Done())
    assert broken(*with_room, latest, reads(Position(2, 1), 1), known=known) == ("SERVE-04", None)
    kept = (*BEGIN, sent(0, 10), latest)
    assert broken(*kept, reads(Position(2, 4), 1), known=known) == ("SERVE-04", None)
    assert broken(*deleted, NEW, reads(Position(2, -1), 1), known=known) == ("SERVE-04", None)
    reloaded = (*begun, reads(Position(3, -1), 1), (Unload("t"), Done()))
    assert broken(*reloaded, reads(Position(3, -1), 1), known=known) == ("SERVE-04", None)
