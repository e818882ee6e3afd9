"""How the observer treats known deviations: each is recognized, and none is tolerated silently."""

from __future__ import annotations

from model.deduplication.producer_state import UNKNOWN_STATUS
from model.deviations import DEVIATIONS
from model.deviations.deduplication import (
    BATCH_WITHOUT_HIGHEST_ID,
    DEDUPLICATION_ENABLED_IN_FLIGHT,
    OVERLAPPING_BATCH_DROPPED,
    PUSHED_ID_IN_PRODUCER_SUCCESS,
    SECOND_RECOVERY_NOT_AWAITED,
    SNAPSHOT_POSITION_AHEAD,
)
from model.events import (
    Answer,
    Cleared,
    Created,
    DeduplicationSet,
    Done,
    Duplicate,
    Late,
    LoggedEntry,
    LogRead,
    Opened,
    Refused,
    Sent,
    SnapshotRead,
    Stored,
    Unknown,
)
from model.example import judge
from model.judgement import Allowed, Broken
from model.log import Position
from model.operations import (
    ClearFailpoints,
    CloseProducer,
    CrashProducer,
    CreateTopic,
    OpenProducer,
    ReadLog,
    ReadSnapshot,
    Send,
    SetDeduplication,
    SetFailpoint,
    Switch,
    Unload,
)
from model.vocabulary import Client, Entry
from tests.judging import Happened, deviates, judged
from tests.model.deduplication.entries import entry

LEDGER_ROOM = 5


def created(switch: Switch = "own-namespace-on") -> Happened:
    outcome = Created(deduplication=switch.endswith("on"), snapshot_room=6, ledger_room=LEDGER_ROOM)
    return CreateTopic("t0", switch), outcome, ()


def opened(last_sequence_id: int, *, session: str = "s1", producer: str = "p0", client: Client = "wire") -> Happened:
    return OpenProducer(session, "t0", producer, client), Opened(last_sequence_id), ()


def sent(*answered: tuple[Entry, Answer], session: str = "s1") -> Happened:
    return Send(session, tuple(e for e, _ in answered)), Sent(tuple(a for _, a in answered)), ()


def in_flight(*entries: Entry, session: str = "s1") -> Happened:
    return Send(session, entries, wait=False), Sent(()), ()


def with_late(happened: Happened, *answers: Answer, session: str = "s1") -> Happened:
    return happened[0], happened[1], (Late(session, answers),)


def at(number: int, *, ledger: int = 1) -> Stored:
    return Stored(Position(ledger, number))


def snapshot(position: Stored, **producers: int) -> Happened:
    return ReadSnapshot("t0"), SnapshotRead(position.position, producers), ()


def log(*entries: tuple[str, int]) -> Happened:
    logged = (LoggedEntry(Position(1, n), producer, entry(number)) for n, (producer, number) in enumerate(entries))
    return ReadLog("t0"), LogRead(tuple(logged)), ()


SWITCHED_ON: Happened = (SetDeduplication("t0", "namespace", on=True, in_flight=True), DeduplicationSet(True), ())
CLOSED: Happened = (CloseProducer("s1"), Done(), ())
UNLOADED: Happened = (Unload("t0"), Done(), ())
FULL_LEDGER = (created(), opened(-1), sent(*((entry(i), at(i - 1)) for i in range(1, LEDGER_ROOM + 1))))
AWAITED = (created("own-namespace-off"), opened(-1), in_flight(entry(5)), SWITCHED_ON)
"""Deduplication was enabled while 5 was in flight."""


def is_sound(*history: Happened) -> bool:
    """Whether a history is allowed without any deviation."""
    found = judged(*history, known=DEVIATIONS)
    return isinstance(found, Allowed) and not found.deviations


def test_an_overlapping_batch_confirmed_as_a_duplicate_was_dropped() -> None:
    history = (created(), opened(-1), sent((entry(1), at(0))))
    assert deviates(OVERLAPPING_BATCH_DROPPED, *history, sent((entry(1, 2), Duplicate())))
    assert is_sound(*history, sent((entry(1, 2), Refused("UnknownStatus"))))


def test_the_messages_of_a_batch_without_highest_id_are_stored_again() -> None:
    history = (created(), opened(-1, client="official"), sent((entry(1, 2, 3), at(0))))
    assert deviates(BATCH_WITHOUT_HIGHEST_ID, *history, sent((entry(2), at(1))))
    assert is_sound(*history, sent((entry(2), Duplicate())))
    assert is_sound(*history, sent((entry(4), at(1))))


def test_the_snapshot_has_only_the_lowest_id_of_a_batch_without_highest_id() -> None:
    history = (created(), opened(-1, client="official"), sent((entry(1, 2, 3), at(0))))
    assert deviates(BATCH_WITHOUT_HIGHEST_ID, *history, snapshot(at(0), p0=1))
    assert is_sound(*history, snapshot(at(0), p0=3))


def test_the_same_by_the_wire_client_is_a_violation_without_a_name() -> None:
    history = (created(), opened(-1), sent((entry(1, 2, 3), at(0))), sent((entry(2), at(1))))
    broken = judged(*history, known=DEVIATIONS)
    assert isinstance(broken, Broken)
    assert (broken.rule, broken.deviation) == ("DEDUP-03", None)


def test_a_producer_may_learn_an_id_whose_write_fails_later() -> None:
    crashed = with_late((CrashProducer("s1"), Done(), ()), Unknown("cut"))
    failing = (SetFailpoint("t0", "write-fails-late", 1, 100), Done(), ())
    cleared = (ClearFailpoints(), Cleared(()), ())
    history = (created(), opened(-1), failing, in_flight(entry(1)), crashed, opened(1, session="s2"), cleared)
    other = opened(-1, session="s3", producer="p1")
    failed = (other, sent((entry(1), at(0)), session="s3"))
    assert deviates(PUSHED_ID_IN_PRODUCER_SUCCESS, *history, *failed, log(("p1", 1)))
    succeeded = (other, sent((entry(1), at(1)), session="s3"))
    assert is_sound(*history, *succeeded, log(("p0", 1), ("p1", 1)))


def test_a_log_that_may_grow_says_nothing_of_what_is_not_in_it() -> None:
    crashed = with_late((CrashProducer("s1"), Done(), ()), Unknown("cut"))
    history = (created(), opened(-1), in_flight(entry(1)), crashed)
    assert is_sound(*history, log(), opened(1, session="s2"), log(("p0", 1)))


def test_the_last_id_of_a_full_ledger_is_lost_in_a_recovery() -> None:
    assert deviates(SNAPSHOT_POSITION_AHEAD, *FULL_LEDGER, UNLOADED, opened(4))
    assert is_sound(*FULL_LEDGER, UNLOADED, opened(5))


def test_the_last_id_of_a_full_ledger_is_stored_again_after_a_recovery() -> None:
    again = sent((entry(5), at(0, ledger=2)))
    found = judged(
        *FULL_LEDGER, UNLOADED, opened(4), again, sent((entry(5), Duplicate())), known=SNAPSHOT_POSITION_AHEAD
    )
    assert isinstance(found, Allowed)
    assert found.deviations == (SNAPSHOT_POSITION_AHEAD,)


def test_a_snapshot_at_the_last_entry_of_a_full_ledger_lacks_its_id() -> None:
    assert deviates(SNAPSHOT_POSITION_AHEAD, *FULL_LEDGER, snapshot(at(4), p0=4))
    broken = judged(*FULL_LEDGER, snapshot(at(4), p0=4))
    assert isinstance(broken, Broken)
    assert broken.rule == "DEDUP-10"


def test_a_snapshot_may_be_at_an_entry_that_was_in_flight_during_the_unload() -> None:
    unloaded = with_late(UNLOADED, at(1))
    history = (created(), opened(-1), sent((entry(1), at(0))), in_flight(entry(2)))
    assert deviates(SNAPSHOT_POSITION_AHEAD, *history, unloaded, snapshot(at(1), p0=1))
    confirmed = (
        created(),
        opened(-1),
        sent((entry(1), at(0)), (entry(2), at(1))),
        UNLOADED,
        snapshot(at(1), p0=1),
    )
    broken = judged(*confirmed, known=SNAPSHOT_POSITION_AHEAD)
    assert isinstance(broken, Broken)
    assert broken.deviation is None


def test_a_snapshot_taken_during_a_second_recovery_lacks_the_entries_not_yet_replayed() -> None:
    """Seen on 4.0.8, on a topic with its own policy; the topic was unloaded again before the snapshot was read."""
    once = (created("topic-on"), opened(-1), sent((entry(1), at(0))))
    assert deviates(SECOND_RECOVERY_NOT_AWAITED, *once, UNLOADED, opened(1), snapshot(at(0)))
    raced = judged(
        *once, UNLOADED, opened(-1), sent((entry(1), at(0, ledger=2))), UNLOADED, known=SECOND_RECOVERY_NOT_AWAITED
    )
    assert isinstance(raced, Allowed)
    assert isinstance(judged(opened(1, session="s2"), snapshot(at(0)), start=raced.state), Allowed)
    never_moved = judged(*once, snapshot(at(0)), known=SECOND_RECOVERY_NOT_AWAITED)
    assert isinstance(never_moved, Broken)
    assert never_moved.deviation is None


def test_no_other_id_may_be_missing_from_a_snapshot_or_after_a_recovery() -> None:
    first_of_a_ledger = (created(), opened(-1), sent((entry(1), at(0))))
    for history in (
        (*FULL_LEDGER, snapshot(at(4), p0=3)),
        (*FULL_LEDGER, snapshot(at(3), p0=3)),
        (*FULL_LEDGER, UNLOADED, opened(3)),
        (*first_of_a_ledger, snapshot(at(0))),
        (*first_of_a_ledger, UNLOADED, opened(-1)),
    ):
        broken = judged(*history, known=DEVIATIONS)
        assert isinstance(broken, Broken)
        assert broken.deviation is None


def test_a_snapshot_position_ahead_is_forgotten_once_a_higher_id_is_stored() -> None:
    forgotten = judged(*FULL_LEDGER, UNLOADED, opened(4), known=SNAPSHOT_POSITION_AHEAD)
    assert isinstance(forgotten, Allowed)
    after = judge(forgotten.state, *sent((entry(6), at(0, ledger=2))))
    assert isinstance(after, Allowed)
    again = judge(after.state, *sent((entry(5), Duplicate())))
    assert isinstance(again, Allowed)
    assert again.deviations == ()


def test_an_entry_in_flight_while_deduplication_is_enabled_may_count_or_not() -> None:
    stored = with_late(sent((entry(6), at(1))), at(0))
    assert is_sound(*AWAITED, stored)
    assert is_sound(*AWAITED, with_late(sent((entry(5), Duplicate())), at(0)))
    assert is_sound(*AWAITED, with_late(sent((entry(5), at(1))), at(0)))


def test_an_entry_in_flight_while_deduplication_is_enabled_is_stored_again() -> None:
    history = (*AWAITED, with_late(snapshot(at(0), p0=5), at(0)))
    assert deviates(DEDUPLICATION_ENABLED_IN_FLIGHT, *history, sent((entry(5), at(1))))
    assert deviates(DEDUPLICATION_ENABLED_IN_FLIGHT, *history, CLOSED, opened(-1, session="s2"))
    assert is_sound(*history, sent((entry(5), Duplicate())))
    assert is_sound(*history, CLOSED, opened(5, session="s2"))


def test_a_lower_id_that_is_stored_again_becomes_the_highest() -> None:
    """Seen on 2.11.0 and 4.0.8: the id recorded last counts, even if it is lower."""
    history = (
        created("own-namespace-off"),
        opened(-1),
        in_flight(entry(1), entry(5)),
        SWITCHED_ON,
        with_late(snapshot(at(1), p0=5), at(0), at(1)),
    )
    again = sent((entry(1), at(2)))
    assert isinstance(judged(*history, again, snapshot(at(2), p0=1), known=DEVIATIONS), Allowed)
    both = sent((entry(1), at(2)), (entry(5), at(3)))
    assert isinstance(
        judged(*history, both, snapshot(at(2), p0=1), CLOSED, opened(5, session="s2"), known=DEVIATIONS), Allowed
    )
    refused = sent((entry(1, 5), Refused(UNKNOWN_STATUS)), (entry(3), at(3)))
    assert isinstance(judged(*history, again, refused, known=DEVIATIONS), Allowed)
    assert isinstance(judged(*history, again, UNLOADED, opened(1, session="s2"), known=DEVIATIONS), Allowed)
    assert isinstance(judged(*history, again, UNLOADED, opened(5, session="s2"), known=DEVIATIONS), Broken)


def test_entries_of_a_crashed_producer_may_be_stored_after_deduplication_is_enabled() -> None:
    """Seen on 4.0.8, where writes were slow."""
    switched: Happened = (SetDeduplication("t0", "namespace", on=True), DeduplicationSet(True), ())
    lost = with_late((CrashProducer("s1"), Done(), ()), Unknown("cut"), Unknown("cut"))
    history = (created("own-namespace-off"), opened(-1), in_flight(entry(5), entry(7)), lost)
    for last_sequence_id in (-1, 5, 7):
        assert is_sound(*history, switched, UNLOADED, opened(last_sequence_id, session="s2"))
    assert isinstance(judged(*history, switched, UNLOADED, opened(6, session="s2")), Broken)
    settled = (*history, opened(-1, session="s2"), sent((entry(1), at(2)), session="s2"))
    assert is_sound(*settled, switched, UNLOADED, opened(-1, session="s3"))
    assert isinstance(judged(*settled, switched, UNLOADED, opened(7, session="s3")), Broken)
    assert deviates(
        DEDUPLICATION_ENABLED_IN_FLIGHT, *history, switched, snapshot(at(1), p0=7), opened(-1, session="s2")
    )


def test_an_entry_in_flight_while_deduplication_is_enabled_is_a_duplicate_after_a_recovery() -> None:
    history = (*AWAITED, with_late(snapshot(at(0), p0=5), at(0)), UNLOADED, opened(5, session="s2"))
    assert is_sound(*history, sent((entry(5), Duplicate()), session="s2"))
    broken = judged(*history, sent((entry(5), at(1)), session="s2"), known=DEVIATIONS)
    assert isinstance(broken, Broken)
    assert broken.deviation is None


def test_a_snapshot_rules_out_the_states_that_contradict_it() -> None:
    lost = with_late((CrashProducer("s1"), Done(), ()), Unknown("cut"))
    history = (created(), opened(-1), in_flight(entry(1)), lost, snapshot(at(0), p0=1), opened(-1, session="s2"))
    broken = judged(*history, known=DEVIATIONS)
    assert isinstance(broken, Broken)
    assert broken.rule == "DEDUP-09"
