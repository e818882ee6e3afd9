"""The observer of one cursor, in states that no short history reaches: acks that a release lost or may lose next."""

from __future__ import annotations

from dataclasses import replace

from model.cursors import acked, cursor, placed
from model.cursors.acked import Acked, acknowledge_all, everything
from model.cursors.cursor import Cursor, Interval
from model.cursors.expired import unloaded_without_session
from model.cursors.log import Place, TopicLog, appended
from model.excuses.cursors import (
    BATCH_INDEX_ACKS_NOT_RECOVERED,
    PARTIAL_ACKS_NOT_PERSISTED,
    SKIP_RATE_LIMITED,
    UNLOAD_WHILE_CURSOR_LEDGER_OPENS,
    UNLOAD_WITHOUT_SESSION_LOSES_ACKS,
)
from model.excuses.ways import by
from model.immutable.map import Map
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
    before = replace(placed.created(kept, at(0)), deviating=Map({lost: by(BATCH_INDEX_ACKS_NOT_RECOVERED)}))
    asking = acks(before, Place(BATCH, 1), at_ms=0)
    assert asking.is_requested
    deviated = asking.observed(
        lambda state: None if state.has(BATCH) else state, frozenset({BATCH_INDEX_ACKS_NOT_RECOVERED})
    )
    assert isinstance(deviated, Allowed)
    assert deviated.deviations == (BATCH_INDEX_ACKS_NOT_RECOVERED,)
    assert cursor.is_opening(acks(deviated.state, Place(SINGLE), at_ms=10_000), at(10_010))
    assert not cursor.is_opening(acks(asking, Place(SINGLE), at_ms=10_000), at(10_010))


def test_a_kill_brings_back_no_ack_of_a_part_that_an_unload_was_seen_to_lose() -> None:
    """Seen on 4.0.8: the message was delivered again after the unload, and after the kill."""
    unloaded = cursor.unloaded(acks(placed.created(Acked(), at(0)), PART, at_ms=10), at(20))
    lost = unloaded.observed(
        lambda state: None if state.has_message(PART) else state, frozenset({BATCH_INDEX_ACKS_NOT_RECOVERED})
    )
    assert isinstance(lost, Allowed)
    assert lost.deviations == (BATCH_INDEX_ACKS_NOT_RECOVERED,)
    later = cursor.flushed(acks(lost.state, Place(SINGLE), at_ms=30), cursor.Persisting(0, 2000))
    killed = cursor.killed(later, at(40), cursor.Persisting(0, 2000), LOG)
    assert not any(state.has_message(PART) for state in killed.possible)
    assert all(state.has_message(Place(SINGLE)) for state in killed.possible), "acks since then are not lost"


def test_an_unload_while_the_cursor_ledger_opens_may_persist_an_earlier_mark_delete_with_the_ranges_of_now() -> None:
    acked = acks(placed.created(Acked(), at(0)), PART, Place(SINGLE), at_ms=1)
    (before,) = acked.possible
    unloaded = cursor.unloaded(acks(acked, Place(BATCH, 1), at_ms=2), at(3))
    (after,) = unloaded.possible
    lost = replace(after, mark_delete=before.mark_delete)
    named = {state for state, _ in unloaded.by(UNLOAD_WHILE_CURSOR_LEDGER_OPENS)}
    assert named == {lost}
    assert before not in unloaded.deviating


def test_acks_that_one_unload_may_have_lost_may_be_lost_by_the_next() -> None:
    """A client may have sent the lost ack again, so that the cursor looked as if nothing had been lost."""
    acked = acks(placed.created(Acked(), at(0)), PART, Place(BATCH, 1), at_ms=1)
    once = cursor.unloaded(acked, at(2))
    assert once.deviating[Acked()] == by(UNLOAD_WHILE_CURSOR_LEDGER_OPENS)
    seen = once.observed(lambda state: state if state.has(BATCH) else None, frozenset())
    assert isinstance(seen, Allowed)
    twice = cursor.unloaded(acks(seen.state, Place(LAST), at_ms=3), at(4))
    only_last = acknowledge_all(Acked(), LOG, [Place(LAST)])
    assert twice.deviating[only_last] == by(UNLOAD_WHILE_CURSOR_LEDGER_OPENS)


def test_a_reset_is_persisted_when_it_is_confirmed_so_no_ledger_is_opening() -> None:
    reset = placed.reset(placed.created(Acked(), at(0)), Acked(), at(1))
    assert not cursor.is_opening(acks(reset, Place(LAST), at_ms=2), at(3))


def killed(state: cursor.Cursor, at_ms: float) -> cursor.Cursor:
    """The cursor after a kill; there is no rate limit."""
    return cursor.killed(state, at(at_ms), cursor.Persisting(0, 2000), LOG)


def test_a_reset_is_there_after_a_kill() -> None:
    reset = placed.reset(acks(placed.created(Acked(), at(0)), Place(LAST), at_ms=1), Acked(), at(2))
    assert killed(reset, 3).possible == {Acked()}
    assert "ACK-16" in killed(reset, 3).since


def test_an_ack_of_a_part_of_a_batch_is_persisted_but_by_a_deviation() -> None:
    part = cursor.Ack((Place(BATCH, 0),))
    once = placed.created(Acked(), at(0)).on_each(lambda one: part.on(one, LOG), at(1), is_individual=True)
    with_part = next(iter(once.possible))
    late, soon = killed(once, 5000), killed(once, 2)
    assert late.possible == {with_part}
    assert dict(late.deviating) == {Acked(): by(PARTIAL_ACKS_NOT_PERSISTED)}
    assert soon.possible == {with_part, Acked()}
    assert dict(soon.deviating) == {}
    beside = acks(placed.created(Acked(), at(0)), Place(LAST), at_ms=1)
    both = beside.on_each(lambda one: part.on(one, LOG), at(2), is_individual=True)
    assert dict(killed(both, 5000).deviating) == {}


def test_a_skip_is_there_after_a_kill_unless_the_rate_limiter_of_a_release_rejected_it() -> None:
    begin = acks(placed.created(Acked(), at(0)), Place(LAST), at_ms=1)
    skipped = begin.on_each(lambda _: everything(LOG), at(2), is_confirmed=True)
    assert killed(skipped, 3).possible == {everything(LOG)}
    assert dict(killed(skipped, 3).deviating) == {}
    limited = cursor.killed(skipped, at(3), cursor.Persisting(1000, 2000), LOG)
    assert limited.possible == {everything(LOG)}
    assert any(limited.by(SKIP_RATE_LIMITED))
    assert dict(cursor.killed(skipped, at(9999), cursor.Persisting(1000, 2000), LOG).deviating) == {}


def test_a_loss_after_a_kill_breaks_ack_16_only_if_the_skip_is_the_last_that_surely_was_persisted() -> None:
    limited = cursor.Persisting(1000, 2000)
    begin = placed.created(Acked(), at(0))
    skipped = begin.on_each(lambda one: acked.skip(one, LOG, 1), at(2), is_confirmed=True, is_placing=True)
    later = acks(skipped, Place(LAST), at_ms=3)
    assert "ACK-16" in cursor.killed(later, at(5), limited, LOG).since
    assert "ACK-16" not in cursor.killed(later, at(9999), limited, LOG).since


def test_an_unload_without_a_session_loses_only_what_was_not_persisted() -> None:
    """Seen on 4.0.8 and 4.2.4: it lost the acks and skips within the rate limit."""
    limited = cursor.Persisting(1000, 60_000)
    begun = acked.skip(Acked(), LOG, 1)
    first = placed.reset(placed.created(Acked(), at(0)), begun, at(1))
    later = acks(first, Place(SINGLE), at_ms=5000)
    last = acks(later, Place(LAST), at_ms=5100)
    (persisted,), (kept,) = later.possible, last.possible
    without = unloaded_without_session(last, at(5200), limited, LOG)
    assert without.possible == {kept}
    named = {state for state, _ in without.by(UNLOAD_WITHOUT_SESSION_LOSES_ACKS)}
    assert persisted in named
    assert all(state.has(BATCH) for state in named), "it was persisted before"
    with_session = cursor.unloaded(last, at(5200))
    assert not any(with_session.by(UNLOAD_WITHOUT_SESSION_LOSES_ACKS))
