"""The observer of one cursor: what it is after an unload or a kill."""

from __future__ import annotations

from model.cursors import acked, cursor
from model.cursors.acked import Acked, acknowledge_all, everything
from model.cursors.cursor import Cursor
from model.cursors.ledger import Interval
from model.cursors.log import Place, TopicLog, appended
from model.judgement import Broken
from model.log import Position

BATCH, SINGLE, LAST = (Position(1, entry) for entry in range(3))
PART = Place(BATCH, 0)


def _log() -> TopicLog:
    log = TopicLog()
    for position, ids in ((BATCH, ("b1", "b2")), (SINGLE, ("b3",)), (LAST, ("b4",))):
        longer = appended(log, position, ids)
        assert not isinstance(longer, Broken)
        log = longer
    return log


LOG = _log()


def at(number_ms: float) -> Interval:
    return Interval(number_ms, number_ms + 1)


def acks(before: Cursor, *places: Place, at_ms: float) -> Cursor:
    return before.on_each(lambda state: acknowledge_all(state, LOG, places), at(at_ms))


def test_a_reset_is_persisted_when_it_is_confirmed_so_no_ledger_is_opening() -> None:
    reset = cursor.reset(cursor.created(Acked(), at(0)), Acked(), at(1))
    assert not acks(reset, Place(LAST), at_ms=2).ledger.is_opening(at(3))


def killed(state: cursor.Cursor, at_ms: float) -> cursor.Cursor:
    """The cursor after a kill; there is no rate limit."""
    return cursor.killed(state, at(at_ms), cursor.Persisting(0, 2000))


def test_a_reset_is_there_after_a_kill() -> None:
    reset = cursor.reset(acks(cursor.created(Acked(), at(0)), Place(LAST), at_ms=1), Acked(), at(2))
    assert killed(reset, 3).possible == {Acked()}
    assert "ACK-16" in killed(reset, 3).since


def test_an_ack_of_a_part_of_a_batch_is_there_after_a_kill_once_it_had_time_to_be_persisted() -> None:
    part = cursor.Ack((Place(BATCH, 0),))
    once = cursor.created(Acked(), at(0)).on_each(lambda one: part.on(one, LOG), at(1), is_individual=True)
    with_part = next(iter(once.possible))
    assert killed(once, 5000).possible == {with_part}
    assert killed(once, 2).possible == {with_part, Acked()}


def test_a_skip_is_there_after_a_kill() -> None:
    begin = acks(cursor.created(Acked(), at(0)), Place(LAST), at_ms=1)
    skipped = begin.on_each(lambda _: everything(LOG), at(2), is_confirmed=True)
    assert killed(skipped, 3).possible == {everything(LOG)}
    assert cursor.killed(skipped, at(3), cursor.Persisting(1000, 2000)).possible == {everything(LOG)}


def test_a_loss_after_a_kill_breaks_ack_16_only_if_the_skip_is_the_last_that_surely_was_persisted() -> None:
    limited = cursor.Persisting(1000, 2000)
    begin = cursor.created(Acked(), at(0))
    skipped = begin.on_each(lambda one: acked.skip(one, LOG, 1), at(2), is_confirmed=True, is_placing=True)
    later = acks(skipped, Place(LAST), at_ms=3)
    assert "ACK-16" in cursor.killed(later, at(5), limited).since
    assert "ACK-16" not in cursor.killed(later, at(9999), limited).since
