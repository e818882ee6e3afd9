"""How the observer treats known deviations: each is recognized, and none is tolerated silently."""

from __future__ import annotations

from model.deviations import DEVIATIONS
from model.judgement import Allowed, Broken
from tests import verdicts
from tests.notation import steps

FULL_LEDGER = "t on; p opens -1; p sends 1@0 2@1 3@2 4@3 5@4"
AWAITED = "t off; p opens -1; p sends 5; t enables-in-flight"
"""Deduplication was enabled while 5 was in flight."""


def judged(history: str, *known: str) -> verdicts.Verdict:
    return verdicts.judged(*steps(history), known=known)


def deviates(deviation: str, history: str) -> bool:
    return verdicts.deviates(deviation, *steps(history))


def is_sound(history: str) -> bool:
    """Whether a history is allowed without any deviation."""
    found = judged(history, *DEVIATIONS)
    return isinstance(found, Allowed) and not found.deviations


def broken_without_a_name(history: str) -> str | None:
    """The rule that a history breaks although all deviations are known."""
    broken = judged(history, *DEVIATIONS)
    assert isinstance(broken, Broken)
    assert broken.deviation is None
    return broken.rule


def test_an_overlapping_batch_confirmed_as_a_duplicate_was_dropped() -> None:
    history = "t on; p opens -1; p sends 1@0"
    assert deviates("overlapping-batch-dropped", f"{history}; p sends 1-2=dup")
    assert is_sound(f"{history}; p sends 1-2=UnknownStatus")


def test_a_batch_may_be_dropped_while_entries_before_it_are_in_flight() -> None:
    history, later = "t on; p opens -1; p sends 20@0", "23@2 21=UnknownStatus"
    assert deviates("overlapping-batch-dropped", f"{history}; p sends 22@1 20-21=dup {later}")
    assert is_sound(f"{history}; p sends 22@1 {later}")
    assert broken_without_a_name(f"{history}; p sends 21@1; p sends 22@2 20-21=dup 23@3 21=UnknownStatus") == "DEDUP-05"


def test_a_batch_may_be_dropped_before_entries_whose_write_failed() -> None:
    history = "t on; p opens -1; t fails-late; p sends 30 34 35 41; p crashes ~ p ? ? ? ?; p opens 41; t cleared"
    pushed, dropped = f"{history}; p sends 34=dup 35=UnknownStatus 34-37=dup 41=UnknownStatus; p crashes", "p opens 34"
    found = judged(f"{pushed}; {dropped}", "overlapping-batch-dropped", "pushed-id-in-producer-success")
    assert isinstance(found, Allowed)
    assert set(found.deviations) == {"overlapping-batch-dropped", "pushed-id-in-producer-success"}
    assert broken_without_a_name(f"{pushed}; p opens 30") == "DEDUP-09"


def test_a_batch_may_be_dropped_before_the_entries_that_have_its_messages_are_written() -> None:
    history = "t on; p opens -1; p sends 34@0; p sends 35 41 42; p crashes ~ p ? ? ?; p opens 42"
    early, again = "p sends 34-37=dup 41=UnknownStatus; p crashes; p opens 42", "p sends 35=UnknownStatus"
    assert deviates("overlapping-batch-dropped", f"{history}; {early}; {again}")
    assert is_sound(f"{history}; p sends 41=UnknownStatus; p crashes; p opens 42; {again}")
    assert broken_without_a_name(f"{history}; p sends 35=dup 41=UnknownStatus; {again}") == "DEDUP-05"


def test_the_messages_of_a_batch_without_highest_id_are_stored_again() -> None:
    history = "t on; p opens -1 official; p sends 1-3@0"
    assert deviates("batch-without-highest-id", f"{history}; p sends 2@1")
    assert is_sound(f"{history}; p sends 2=dup")
    assert is_sound(f"{history}; p sends 4@1")


def test_the_snapshot_has_only_the_lowest_id_of_a_batch_without_highest_id() -> None:
    history = "t on; p opens -1 official; p sends 1-3@0"
    assert deviates("batch-without-highest-id", f"{history}; snapshot @0 p=1")
    assert is_sound(f"{history}; snapshot @0 p=3")


def test_the_same_by_the_wire_client_is_a_violation_without_a_name() -> None:
    assert broken_without_a_name("t on; p opens -1; p sends 1-3@0; p sends 2@1") == "DEDUP-03"


def test_a_producer_may_learn_an_id_whose_write_fails_later() -> None:
    history = "t on; p opens -1; t fails-late; p sends 1; p crashes ~ p ?; p opens 1; t cleared; q opens -1"
    assert deviates("pushed-id-in-producer-success", f"{history}; q sends 1@0; log q:1")
    assert is_sound(f"{history}; q sends 1@1; log p:1 q:1")


def test_a_log_that_may_grow_says_nothing_of_what_is_not_in_it() -> None:
    assert is_sound("t on; p opens -1; p sends 1; p crashes ~ p ?; log; p opens 1; log p:1")


def test_the_last_id_of_a_full_ledger_is_lost_in_a_recovery() -> None:
    assert deviates("snapshot-position-ahead", f"{FULL_LEDGER}; t unloads; p opens 4")
    assert is_sound(f"{FULL_LEDGER}; t unloads; p opens 5")


def test_the_last_id_of_a_full_ledger_is_stored_again_after_a_recovery() -> None:
    history = f"{FULL_LEDGER}; t unloads; p opens 4; p sends 5@2:0; p sends 5=dup"
    found = judged(history, "snapshot-position-ahead")
    assert isinstance(found, Allowed)
    assert found.deviations == ("snapshot-position-ahead",)


def test_a_snapshot_at_the_last_entry_of_a_full_ledger_lacks_its_id() -> None:
    assert deviates("snapshot-position-ahead", f"{FULL_LEDGER}; snapshot @4 p=4")
    broken = judged(f"{FULL_LEDGER}; snapshot @4 p=4")
    assert isinstance(broken, Broken)
    assert broken.rule == "DEDUP-10"


def test_the_position_of_such_a_snapshot_moves_to_the_next_ledger() -> None:
    assert deviates("snapshot-position-ahead", f"{FULL_LEDGER}; p sends 6@2:0; snapshot @2:-1 p=4")
    two_missing = judged(f"{FULL_LEDGER}; p sends 6@2:0; snapshot @2:-1 p=3", "snapshot-position-ahead")
    assert isinstance(two_missing, Broken)
    assert two_missing.deviation is None


def test_a_snapshot_may_be_at_an_entry_that_was_in_flight_during_the_unload() -> None:
    history = "t on; p opens -1; p sends 1@0; p sends 2; t unloads ~ p @1; snapshot @1 p=1"
    assert deviates("snapshot-position-ahead", history)
    confirmed = judged("t on; p opens -1; p sends 1@0 2@1; t unloads; snapshot @1 p=1", "snapshot-position-ahead")
    assert isinstance(confirmed, Broken)
    assert confirmed.deviation is None


def test_a_second_recovery_may_set_the_ids_back_before_the_producer_reopens() -> None:
    """Seen on 4.0.8: the first read of the log after the second reload had the message that was in flight."""
    history = "p opens -1; p sends 1@0 2@1; t unloads; p opens 2; p sends 3; p crashes ~ p ?; p opens"
    assert deviates("second-recovery-not-awaited", f"t topic-on; {history} 2; t unloads; p opens 3")
    assert is_sound(f"t topic-on; {history} 3; t unloads; p opens 3")
    assert broken_without_a_name(f"t on; {history} 2; t unloads; p opens 3") == "DEDUP-12"
    assert broken_without_a_name(f"t topic-on; {history} 1") == "DEDUP-09"


def test_a_snapshot_taken_during_a_second_recovery_lacks_the_entries_not_yet_replayed() -> None:
    """Seen on 4.0.8, on a topic with its own policy; the topic was unloaded again before the snapshot was read."""
    once, known = "t topic-on; p opens -1; p sends 1@0", "second-recovery-not-awaited"
    assert deviates(known, f"{once}; t unloads; p opens 1; snapshot @0")
    raced = f"{once}; t unloads; p opens -1; p sends 1@2:0; t unloads; p opens 1; snapshot @0"
    assert isinstance(judged(raced, known), Allowed)
    never_moved = judged(f"{once}; snapshot @0", known)
    assert isinstance(never_moved, Broken)
    assert never_moved.deviation is None


def test_no_other_id_may_be_missing_from_a_snapshot_or_after_a_recovery() -> None:
    broken_without_a_name(f"{FULL_LEDGER}; snapshot @4 p=3")
    broken_without_a_name(f"{FULL_LEDGER}; snapshot @3 p=3")
    broken_without_a_name(f"{FULL_LEDGER}; t unloads; p opens 3")
    broken_without_a_name("t on; p opens -1; p sends 1@0; snapshot @0")
    broken_without_a_name("t on; p opens -1; p sends 1@0; t unloads; p opens -1")


def test_a_snapshot_position_ahead_is_forgotten_once_a_higher_id_is_stored() -> None:
    history = f"{FULL_LEDGER}; t unloads; p opens 4"
    once = judged(history, "snapshot-position-ahead")
    later = judged(f"{history}; p sends 6@2:0; p sends 5=dup", "snapshot-position-ahead")
    assert isinstance(once, Allowed)
    assert isinstance(later, Allowed)
    assert once.deviations == later.deviations


def test_an_entry_in_flight_while_deduplication_is_enabled_may_count_or_not() -> None:
    assert is_sound(f"{AWAITED}; p sends 6@1 ~ p @0")
    assert is_sound(f"{AWAITED}; p sends 5=dup ~ p @0")
    assert is_sound(f"{AWAITED}; p sends 5@1 ~ p @0")


def test_an_entry_in_flight_while_deduplication_is_enabled_is_stored_again() -> None:
    history = f"{AWAITED}; snapshot @0 p=5 ~ p @0"
    assert deviates("deduplication-enabled-in-flight", f"{history}; p sends 5@1")
    assert deviates("deduplication-enabled-in-flight", f"{history}; p closes; p opens -1")
    assert is_sound(f"{history}; p sends 5=dup")
    assert is_sound(f"{history}; p closes; p opens 5")


def test_an_entry_in_flight_is_stored_again_only_once_and_not_after_a_duplicate() -> None:
    history = f"{AWAITED}; snapshot @0 p=5 ~ p @0"
    for allowed in (f"{history}; p sends 5@1; p sends 5=dup", f"{history}; p sends 4@1; p sends 5@2"):
        found = judged(allowed, *DEVIATIONS)
        assert isinstance(found, Allowed)
        assert found.deviations == ("deduplication-enabled-in-flight",)
    assert isinstance(judged(f"{history}; p sends 2@1 2-3=dup 4@2 5@3", *DEVIATIONS), Allowed)
    for wrong in (
        f"{history}; p sends 5@1; p sends 5@2",
        f"{history}; p sends 5=dup; p sends 5@1",
        f"{history}; p sends 4=dup; p sends 5@1",
        f"{history}; p sends 6@1; p sends 6@2",
        f"{history}; p closes; p opens 5; p sends 5@1",
        f"{AWAITED}; q opens -1; q sends 3@1 ~ p @0; q sends 3@2",
    ):
        assert broken_without_a_name(wrong) == "DEDUP-03", wrong


def test_a_lower_id_that_is_stored_again_becomes_the_highest() -> None:
    """Seen on 2.11.0 and 4.0.8: the id recorded last counts, even if it is lower."""
    history = "t off; p opens -1; p sends 1 5; t enables-in-flight; snapshot @1 p=5 ~ p @0 @1"
    again = f"{history}; p sends 1@2"
    for allowed in (
        f"{again}; snapshot @2 p=1",
        f"{history}; p sends 1@2 5@3; snapshot @2 p=1; p closes; p opens 5",
        f"{again}; p sends 1-5=UnknownStatus 3@3",
        f"{again}; t unloads; p opens 1",
    ):
        assert isinstance(judged(allowed, *DEVIATIONS), Allowed)
    assert isinstance(judged(f"{again}; t unloads; p opens 3", *DEVIATIONS), Broken)


def test_entries_of_a_crashed_producer_may_be_stored_after_deduplication_is_enabled() -> None:
    """Seen on 4.0.8, where writes were slow."""
    history = "t off; p opens -1; p sends 5 7; p crashes ~ p ? ?"
    for last_sequence_id in (-1, 5, 7):
        assert is_sound(f"{history}; t enables; t unloads; p opens {last_sequence_id}")
    assert isinstance(judged(f"{history}; t enables; t unloads; p opens 6"), Broken)
    settled = f"{history}; p opens -1; p sends 1@2; t enables; t unloads"
    assert is_sound(f"{settled}; p opens -1")
    assert isinstance(judged(f"{settled}; p opens 7"), Broken)
    assert deviates("deduplication-enabled-in-flight", f"{history}; t enables; snapshot @1 p=7; p opens -1")


def test_entries_of_before_a_reload_do_not_count_after_deduplication_is_enabled() -> None:
    """The writes that were in flight have ended, whether or not their entries are stored."""
    history = "t off; p opens -1; p sends 5 7; p crashes ~ p ? ?; t unloads; t enables"
    assert is_sound(f"{history}; p opens -1")
    assert isinstance(judged(f"{history}; p opens 7", *DEVIATIONS), Broken)
    assert isinstance(judged(f"{history}; snapshot @1 p=7; p opens -1", *DEVIATIONS), Broken)
    again = "t on; t disables; p opens -1; p sends 5 7; p crashes ~ p ? ?; t enables; t unloads; t disables; t enables"
    assert is_sound(f"{again}; p opens -1")
    assert isinstance(judged(f"{again}; p opens 7", *DEVIATIONS.keys() - {"deduplication-off-keeps-snapshot"}), Broken)


def test_an_entry_in_flight_while_deduplication_is_enabled_is_a_duplicate_after_a_recovery() -> None:
    history = f"{AWAITED}; snapshot @0 p=5 ~ p @0; t unloads; p opens 5"
    assert is_sound(f"{history}; p sends 5=dup")
    broken_without_a_name(f"{history}; p sends 5@1")


def test_a_snapshot_rules_out_the_states_that_contradict_it() -> None:
    history = "t on; p opens -1; p sends 1; p crashes ~ p ?; snapshot @0 p=1; p opens -1"
    broken = judged(history, *DEVIATIONS)
    assert isinstance(broken, Broken)
    assert broken.rule == "DEDUP-09"
