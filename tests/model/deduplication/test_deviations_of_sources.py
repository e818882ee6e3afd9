"""The known deviations of sources: each excuses what its cause explains, and nothing else."""

from __future__ import annotations

import pytest

from model.deviations import DEVIATIONS
from model.events import Created, Done, LoggedEntry, LogRead
from model.judgement import Allowed
from model.log import Position
from model.operations import CreateTopic, GoesOn, ReadLog, Unload
from tests.model.deduplication.test_effectively_once import (
    BY_PULSAR_CLIENT,
    CLEAR,
    IN_FLIGHT,
    KILL,
    STALLED,
    TRUSTED,
    UNLOAD,
    WITHOUT_2,
    WRITES_FAIL,
    broken,
    crash,
    entry,
    exercised,
    finish,
    log,
    run,
    start,
)
from tests.verdicts import Happened

UNNAMED = ("DEDUP-13", None)


def met(*history: Happened, created: Happened | None = None) -> tuple[str, ...]:
    """The deviations of a history that breaks no rule while all of them are known, each once."""
    judged = run(*history, known=DEVIATIONS) if created is None else run(*history, known=DEVIATIONS, created=created)
    assert isinstance(judged, Allowed), judged
    return tuple(dict.fromkeys(judged.deviations))


# -------------------------------------------------------------------------------- a producer closed while it is created


@pytest.mark.parametrize(
    "history",
    [
        (BY_PULSAR_CLIENT, UNLOAD, STALLED),
        (WRITES_FAIL, BY_PULSAR_CLIENT, STALLED),
        (WRITES_FAIL, CLEAR, BY_PULSAR_CLIENT, STALLED),
    ],
)
def test_a_client_stuck_after_its_producer_was_closed_is_a_deviation(history: tuple[Happened, ...]) -> None:
    assert broken(run(*history)) == ("DEDUP-13", "close-overtakes-producer-success")
    tolerated = run(*history, log(1), known="close-overtakes-producer-success")
    assert isinstance(tolerated, Allowed)
    assert (exercised(tolerated), tolerated.deviations) == (("DEDUP-13",), ("close-overtakes-producer-success",))


def test_only_pulsar_client_may_wait_forever_and_only_if_its_producer_was_closed_since_it_started() -> None:
    assert met(BY_PULSAR_CLIENT, UNLOAD, STALLED) == ("close-overtakes-producer-success",)
    others: dict[str, tuple[Happened, ...]] = {
        "the wire client notices that its producer is closed": (start(1), UNLOAD, STALLED),
        "the topic was unloaded before it started": (BY_PULSAR_CLIENT, UNLOAD, crash(1), BY_PULSAR_CLIENT, STALLED),
        "another topic was unloaded": (BY_PULSAR_CLIENT, CREATED_TOO, (Unload("t1"), Done()), STALLED),
        "the message is stored twice": (BY_PULSAR_CLIENT, UNLOAD, STALLED, log(1, 1)),
    }
    for why, history in others.items():
        assert broken(run(*history, known=DEVIATIONS)) == UNNAMED, why


CREATED_TOO: Happened = (CreateTopic("t1"), Created(deduplication=True, snapshot_room=10))


# ------------------------------------------------------------------------------ a last sequence id whose write fails


@pytest.mark.parametrize(
    "history",
    [
        pytest.param((WRITES_FAIL, *IN_FLIGHT, TRUSTED, finish(_3=1)), id="writes-fail-from-the-start"),
        pytest.param((WRITES_FAIL, *IN_FLIGHT, CLEAR, TRUSTED, finish(_3=1)), id="a-delayed-write-fails-later"),
        pytest.param((*IN_FLIGHT, WRITES_FAIL, TRUSTED, finish(_3=1)), id="writes-fail-before-reopening"),
        pytest.param((*IN_FLIGHT, TRUSTED, WRITES_FAIL, finish(_3=1)), id="writes-fail-after-it"),
        pytest.param((*IN_FLIGHT, TRUSTED, UNLOAD, finish(_3=1)), id="unloaded-after-it"),
        pytest.param((*IN_FLIGHT, TRUSTED, KILL, finish(_3=1)), id="killed-after-it"),
    ],
)
def test_a_last_sequence_id_whose_write_can_have_failed_is_a_deviation(history: tuple[Happened, ...]) -> None:
    assert broken(run(*history, WITHOUT_2)) == ("DEDUP-13", "source-resumes-from-pushed-id")
    tolerated = run(*history, WITHOUT_2, known="source-resumes-from-pushed-id")
    assert isinstance(tolerated, Allowed)
    assert (exercised(tolerated), tolerated.deviations) == ((), ("source-resumes-from-pushed-id",))


def test_the_deviation_is_met_once_however_often_the_log_is_read() -> None:
    read_twice = run(*IN_FLIGHT, TRUSTED, UNLOAD, finish(_3=1), WITHOUT_2, WITHOUT_2, known=DEVIATIONS)
    assert isinstance(read_twice, Allowed)
    assert read_twice.deviations == ("source-resumes-from-pushed-id",)


def test_the_deviation_excuses_only_the_trusted_entries() -> None:
    history = (*IN_FLIGHT, TRUSTED, UNLOAD, finish(_3=1))
    assert broken(run(*history, log(2, 3), known=DEVIATIONS)) == UNNAMED
    assert broken(run(*history, log(1, 3, 2), known=DEVIATIONS)) == UNNAMED


def test_a_duplicate_does_not_show_that_a_trusted_entry_is_stored() -> None:
    again = (start(last_id=3), finish(_2=None))
    history = (*IN_FLIGHT, TRUSTED, UNLOAD, finish(_3=1), *again, WITHOUT_2)
    assert broken(run(*history)) == ("DEDUP-13", "source-resumes-from-pushed-id")


def test_a_source_loses_no_entry_before_a_stored_one_that_the_same_last_sequence_id_covers() -> None:
    """Once a write fails, those after it fail too. A later life may have another last sequence id."""
    from_id: GoesOn = "from-told-id"
    in_flight = (start(1, 2, 3, goes_on=from_id), crash(2, _1=0), WRITES_FAIL)
    at_once = (*in_flight, start(4, goes_on=from_id, last_id=3), finish(_4=None))
    assert met(*at_once, log(1, 4)) == ("source-resumes-from-pushed-id",)
    assert met(*at_once, log(1, 2, 4)) == ("source-resumes-from-pushed-id",)
    assert broken(run(*at_once, log(1, 3, 4), known=DEVIATIONS)) == UNNAMED
    one_by_one = (*in_flight, start(goes_on=from_id, last_id=2), crash(1), start(4, goes_on=from_id, last_id=3))
    assert met(*one_by_one, finish(_4=None), log(1, 3, 4)) == ("source-resumes-from-pushed-id",)


# ---------------------------------------------------------------------------------------- an unload during a rollover

ROOM_FOR_2: Happened = (CreateTopic("t0"), Created(deduplication=True, snapshot_room=10, ledger_room=2))
UNLOADED: tuple[Happened, ...] = (
    start(1, 2, 3, 4),
    UNLOAD,
    crash(4),
    start(5, last_id=4),
    finish(_1=None, _2=None, _3=None, _4=None, _5=None),
)
"""Four entries were in flight during an unload, and count as duplicates in the next life."""


def ledgers(*contents: tuple[int, ...]) -> Happened:
    """The log, ledger by ledger."""
    found = (
        LoggedEntry(Position(9 + number, at), "a0", entry(sequence_id))
        for number, ids in enumerate(contents)
        for at, sequence_id in enumerate(ids)
    )
    return ReadLog("t0"), LogRead(tuple(found))


def test_a_gap_in_the_entries_in_flight_after_an_unload_is_a_deviation_if_a_later_one_is_in_a_new_ledger() -> None:
    gap = (*UNLOADED, ledgers((1, 2), (4, 5)))
    assert broken(run(*gap, created=ROOM_FOR_2)) == ("DEDUP-13", "rollover-reopens-closed-ledger")
    tolerated = run(*gap, known="rollover-reopens-closed-ledger", created=ROOM_FOR_2)
    assert isinstance(tolerated, Allowed)
    assert (exercised(tolerated), tolerated.deviations) == ((), ("rollover-reopens-closed-ledger",))
    assert exercised(run(*UNLOADED, ledgers((1, 2), (3, 4), (5,)), created=ROOM_FOR_2)) == ("DEDUP-13",)


def test_without_a_rollover_or_a_later_entry_in_flight_an_unload_leaves_no_gap() -> None:
    assert met(*UNLOADED, ledgers((1, 2), (4, 5)), created=ROOM_FOR_2) == ("rollover-reopens-closed-ledger",)
    others = {
        "one ledger": ledgers((1, 3), (4, 5)),
        "the ledger before is not full": ledgers((1,), (3, 4), (5,)),
        "no later entry was in flight": ledgers((1, 2), (3, 5)),
        "all are lost": ledgers((5,)),
    }
    for why, wrong in others.items():
        assert broken(run(*UNLOADED, wrong, known=DEVIATIONS, created=ROOM_FOR_2)) == UNNAMED, why


def test_an_entry_confirmed_with_its_position_must_be_stored() -> None:
    stored = (start(1, 2, 3), UNLOAD, finish(came_back=1, _1=None, _2=1, _3=None))
    assert broken(run(*stored, ledgers((1,), (3,)), known=DEVIATIONS)) == UNNAMED
