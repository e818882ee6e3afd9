"""The observer of one cursor, in states that no short history reaches: acks that a release lost or may lose next."""

from __future__ import annotations

from dataclasses import replace

from immutables import Map

from model.cursors import cursor
from model.cursors.acked import Acked, acknowledge_all
from model.cursors.cursor import Cursor, Interval
from model.cursors.log import Place, TopicLog, appended
from model.deviations.cursors import BATCH_INDEX_ACKS_NOT_RECOVERED, UNLOAD_WHILE_CURSOR_LEDGER_OPENS
from model.judgement import Allowed, Broken
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


def test_after_a_deviation_it_is_unknown_whether_a_cursor_ledger_was_requested() -> None:
    """The ledger was requested in another state, so the next ack may be the first to request it."""
    lost, kept = Acked(), acknowledge_all(Acked(), LOG, [PART])
    before = replace(cursor.created(kept, at(0)), deviating=Map({lost: BATCH_INDEX_ACKS_NOT_RECOVERED}))
    asking = acks(before, Place(BATCH, 1), at_ms=0)
    assert asking.is_asked_for
    deviated = asking.observed(
        lambda state: None if state.has(BATCH) else state, frozenset({BATCH_INDEX_ACKS_NOT_RECOVERED})
    )
    assert isinstance(deviated, Allowed)
    assert deviated.deviations == (BATCH_INDEX_ACKS_NOT_RECOVERED,)
    assert cursor.is_opening(acks(deviated.state, Place(SINGLE), at_ms=10_000), at(10_010))
    assert not cursor.is_opening(acks(asking, Place(SINGLE), at_ms=10_000), at(10_010))


def test_an_unload_while_the_cursor_ledger_opens_may_persist_an_earlier_mark_delete_with_the_ranges_of_now() -> None:
    acked = acks(cursor.created(Acked(), at(0)), PART, Place(SINGLE), at_ms=1)
    (before,) = acked.possible
    moved = cursor.moved(acks(acked, Place(BATCH, 1), at_ms=2), at(3))
    (after,) = moved.possible
    lost = replace(after, mark_delete=before.mark_delete)
    named = {state for state, name in moved.deviating.items() if name == UNLOAD_WHILE_CURSOR_LEDGER_OPENS}
    assert named == {lost}
    assert before not in moved.deviating


def test_acks_that_one_unload_may_have_lost_may_be_lost_by_the_next() -> None:
    """A client may have sent the lost ack again, so that the cursor looked as if nothing had been lost."""
    acked = acks(cursor.created(Acked(), at(0)), PART, Place(BATCH, 1), at_ms=1)
    once = cursor.moved(acked, at(2))
    assert once.deviating[Acked()] == UNLOAD_WHILE_CURSOR_LEDGER_OPENS
    seen = once.observed(lambda state: state if state.has(BATCH) else None, frozenset())
    assert isinstance(seen, Allowed)
    twice = cursor.moved(acks(seen.state, Place(LAST), at_ms=3), at(4))
    only_last = acknowledge_all(Acked(), LOG, [Place(LAST)])
    assert twice.deviating[only_last] == UNLOAD_WHILE_CURSOR_LEDGER_OPENS


def test_a_reset_is_persisted_when_it_is_confirmed_so_no_ledger_is_opening() -> None:
    reset = cursor.set_anew(cursor.created(Acked(), at(0)), Acked(), at(1))
    assert not cursor.is_opening(acks(reset, Place(LAST), at_ms=2), at(3))
