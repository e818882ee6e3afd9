"""Document 000 from its applications' side, in histories of a few steps, sound and unsound."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from model.applications.tracker import settling, winding_up
from model.events import (
    Cleared,
    Confirmed,
    Consumed,
    Created,
    DatabaseRead,
    Delivery,
    Done,
    Drained,
    LoggedEntry,
    LogRead,
    Ran,
    SourceEnded,
    SourceStarted,
    Stuck,
)
from model.example import Example
from model.judgement import Allowed, Broken
from model.log import Position
from model.operations import (
    AnyOperation,
    ClearFailpoints,
    Consume,
    CrashSource,
    CreateTopic,
    Death,
    Drain,
    FinishSource,
    GoesOn,
    Kill,
    ReadDatabase,
    ReadLog,
    RunReader,
    RunSubscriber,
    SetFailpoint,
    StartSource,
    Then,
    Unload,
)
from model.vocabulary import Client, Entry, Message
from tests import verdicts
from tests.verdicts import Happened

CREATED: Happened = (CreateTopic("t0"), Created(deduplication=True, snapshot_room=10))


def run(*steps: Happened, known: str | Iterable[str] = (), created: Happened = CREATED) -> Allowed[Example] | Broken:
    """Judge a history; the exercised rules and the deviations are those of all steps."""
    return verdicts.judged(created, *steps, known=known)


def broken(judged: Allowed[Example] | Broken) -> tuple[str, str | None]:
    assert isinstance(judged, Broken), judged
    return judged.rule, judged.deviation


def exercised(judged: Allowed[Example] | Broken) -> tuple[str, ...]:
    assert isinstance(judged, Allowed), judged
    return tuple(rule for rule in judged.exercised if not rule.startswith("SERVE"))


def entry(*ids: int) -> Entry:
    return Entry(tuple(Message(i, f"b{i}") for i in ids))


def start(
    *entries: Entry | int, goes_on: GoesOn = "from-checkpoint", last_id: int = -1, client: Client = "wire"
) -> Happened:
    came = tuple(entry(e) if isinstance(e, int) else e for e in entries)
    return StartSource("a0", "t0", came, goes_on=goes_on, client=client), SourceStarted(last_id)


def confirmed(**ids: int | None) -> tuple[Confirmed, ...]:
    """``_3=0``: 3 is at 9:0; None for a duplicate."""
    pairs = ((int(name[1:]), at) for name, at in ids.items())
    return tuple(Confirmed(i, None if at is None else Position(9, at)) for i, at in pairs)


def finish(came_back: int = 0, **ids: int | None) -> Happened:
    return FinishSource("a0"), SourceEnded(confirmed(**ids), left=0, came_back=came_back)


def crash(left: int, **ids: int | None) -> Happened:
    return CrashSource("a0", len(ids)), SourceEnded(confirmed(**ids), left=left, came_back=0)


def log(*entries: Entry | int) -> Happened:
    whole = (entry(e) if isinstance(e, int) else e for e in entries)
    return ReadLog("t0"), LogRead(tuple(LoggedEntry(Position(9, at), "a0", e) for at, e in enumerate(whole)))


UNLOAD: Happened = (Unload("t0"), Done())
KILL: Happened = (Kill(), Done())
WRITES_FAIL: Happened = (SetFailpoint("t0", "write-fails-late", count=1, delay_ms=20), Done())
CLEAR: Happened = (ClearFailpoints(), Cleared(()))


# ------------------------------------------------------------------------------------------------- DEDUP-13: replayable

DIED: tuple[Happened, ...] = (start(1, entry(2, 3), 4), crash(2, _1=0))
"""A source that crashed after one of its three entries was confirmed."""
CAME_BACK: tuple[Happened, ...] = (start(5), finish(_2=None, _4=2, _5=3))
"""It resumed; the broker had stored the batch already."""
WHOLE = log(1, entry(2, 3), 4, 5)


def test_a_source_that_crashed_and_resumed_has_each_entry_once() -> None:
    assert exercised(run(*DIED, *CAME_BACK, WHOLE)) == ("DEDUP-13",)


def test_a_source_without_an_interruption_does_not_exercise_the_rule() -> None:
    assert exercised(run(start(1, 2), finish(_1=0, _2=1), log(1, 2))) == ()


def test_a_source_that_reconnected_was_interrupted() -> None:
    assert exercised(run(start(1, 2), finish(came_back=1, _1=0, _2=1), log(1, 2))) == ("DEDUP-13",)


@pytest.mark.parametrize(
    "unsound",
    [
        pytest.param(log(1, entry(2, 3), 5), id="lost"),
        pytest.param(log(1, entry(2, 3), entry(2, 3), 4, 5), id="twice"),
        pytest.param(log(1, entry(2, 3), 4, 5, 1), id="twice-at-the-end"),
        pytest.param(log(1, 4, entry(2, 3), 5), id="out-of-order"),
        pytest.param(log(1, 2, 3, 4, 5), id="not-as-it-was-sent"),
        pytest.param(log(1, entry(2, 3), 4, 5, 6), id="never-sent"),
    ],
)
def test_a_log_that_differs_from_the_source_breaks_the_rule(unsound: Happened) -> None:
    assert broken(run(*DIED, *CAME_BACK, unsound)) == ("DEDUP-13", None)


def test_an_entry_is_at_its_confirmed_position() -> None:
    assert broken(run(start(1, 2), finish(_1=0, _2=7), log(1, 2))) == ("DEDUP-13", None)


def test_an_unconfirmed_entry_that_was_not_resent_may_be_stored_or_not() -> None:
    assert exercised(run(*DIED, log(1))) == ()
    assert exercised(run(*DIED, log(1, entry(2, 3)))) == ()


@pytest.mark.parametrize("operation", [start(1)[0], FinishSource("a0"), CrashSource("a0", 1)])
def test_a_source_that_never_finishes_breaks_the_rule(operation: AnyOperation) -> None:
    assert broken(run(start(1), (operation, Stuck("1 entry is not confirmed")))) == ("DEDUP-13", None)


BY_PULSAR_CLIENT = start(1, client="official")
STALLED: Happened = (FinishSource("a0"), SourceEnded(confirmed(_1=None), left=0, came_back=1, stalled=1))


def test_pulsar_client_must_reconnect_by_itself() -> None:
    assert broken(run(BY_PULSAR_CLIENT, STALLED)) == ("DEDUP-13", None)


def test_a_client_may_reconnect_late_after_a_broker_kill() -> None:
    assert exercised(run(BY_PULSAR_CLIENT, KILL, STALLED, log(1))) == ("DEDUP-13",)


def test_without_deduplication_a_source_has_no_guarantee() -> None:
    off = (CreateTopic("t0", "namespace-off"), Created(deduplication=False, snapshot_room=10))
    twice = log(1, entry(2, 3), entry(2, 3), 4, 5)
    assert exercised(run(*DIED, *CAME_BACK, twice, created=off)) == ()


def test_entries_of_other_producers_are_not_blamed_on_a_source() -> None:
    both = LogRead((LoggedEntry(Position(9, 0), "a0", entry(1)), LoggedEntry(Position(9, 1), "somebody", entry(1))))
    assert broken(run(start(1), finish(_1=0), (ReadLog("t0"), both))) == ("DEDUP-07", None)


# ------------------------------------------------------------- DEDUP-13: resuming from the last sequence id

IN_FLIGHT = (start(1, 2, goes_on="from-told-id"), crash(1, _1=0))
"""A source that crashed with 2 in flight, …"""
TRUSTED = start(3, goes_on="from-told-id", last_id=2)
"""… and skipped it, because the last sequence id includes it."""
WITHOUT_2 = log(1, 3)


def test_a_source_that_resumes_from_the_last_sequence_id_has_each_entry_once() -> None:
    assert exercised(run(*IN_FLIGHT, TRUSTED, finish(_3=2), log(1, 2, 3))) == ("DEDUP-13",)


def test_entries_after_the_last_sequence_id_are_sent_again() -> None:
    again = start(3, goes_on="from-told-id", last_id=1)
    assert exercised(run(*IN_FLIGHT, again, finish(_2=1, _3=2), log(1, 2, 3))) == ("DEDUP-13",)
    assert broken(run(*IN_FLIGHT, again, finish(_2=1, _3=2), WITHOUT_2)) == ("DEDUP-13", None)


def test_a_missing_last_sequence_id_breaks_the_rule_if_no_write_can_have_failed() -> None:
    assert broken(run(*IN_FLIGHT, TRUSTED, finish(_3=1), WITHOUT_2)) == ("DEDUP-13", None)
    assert broken(run(*IN_FLIGHT, UNLOAD, TRUSTED, finish(_3=1), WITHOUT_2)) == ("DEDUP-13", None)
    assert broken(run(*IN_FLIGHT, TRUSTED, finish(_3=1), WRITES_FAIL, WITHOUT_2)) == ("DEDUP-13", None)


def test_resuming_from_a_checkpoint_is_safe_when_the_last_sequence_id_is_not() -> None:
    died = (WRITES_FAIL, start(1, 2), crash(1, _1=0), CLEAR)
    safe = (start(3, last_id=2), UNLOAD, finish(_2=1, _3=2))
    assert exercised(run(*died, *safe, log(1, 2, 3))) == ("DEDUP-13",)
    known = frozenset({"source-resumes-from-pushed-id"})
    assert broken(run(*died, *safe, WITHOUT_2, known=known)) == ("DEDUP-13", None)


def test_a_write_confirmed_after_the_failpoint_shows_that_no_write_is_delayed() -> None:
    """Delayed writes fail before those after them: with 2 and 3 sent after that, no write of theirs can fail."""
    over = (WRITES_FAIL, CLEAR, start(1, goes_on="from-told-id"), finish(_1=0))
    died = (start(2, goes_on="from-told-id", last_id=1), crash(1))
    assert broken(run(*over, *died, TRUSTED, finish(_3=1), WITHOUT_2)) == ("DEDUP-13", None)


# ----------------------------------------------------------------------------------------- DEDUP-15: no replay

GAVE_UP = (
    start(1, 2, goes_on="with-new-only"),
    crash(1, _1=0),
    start(3, goes_on="with-new-only", last_id=1),
    finish(_3=1),
)


def test_a_source_that_cannot_replay_may_lose_unconfirmed_entries() -> None:
    assert exercised(run(*GAVE_UP, log(1, 3))) == ("DEDUP-15",)
    assert exercised(run(*GAVE_UP[:-1], finish(_3=2), log(1, 2, 3))) == ("DEDUP-15",)


@pytest.mark.parametrize("unsound", [log(3), log(1), log(1, 3, 3), log(1, 2, 2, 3), log(3, 1), log(2, 1, 3)])
def test_a_source_that_cannot_replay_loses_and_duplicates_nothing_else(unsound: Happened) -> None:
    assert broken(run(*GAVE_UP, unsound)) == ("DEDUP-15", None)


def test_a_source_that_lost_nothing_does_not_exercise_the_rule() -> None:
    whole = (start(1, goes_on="with-new-only"), finish(_1=0), start(2, goes_on="with-new-only"), finish(_2=1))
    assert exercised(run(*whole, log(1, 2))) == ()


# ------------------------------------------------------------------------------------------- how the example is settled


def state_after(*steps: Happened) -> Example:
    judged = run(*steps)
    assert isinstance(judged, Allowed)
    return judged.state


def test_a_source_with_everything_confirmed_needs_no_further_life() -> None:
    state = state_after(start(1), finish(_1=0)).applications
    assert list(settling(lambda: state, "t0")) == []


def test_a_crashed_source_gets_one_more_life_with_one_more_message() -> None:
    state = state_after(start(1, 2, goes_on="from-told-id"), crash(1, _1=0)).applications
    last = StartSource("a0", "t0", (Entry((Message(3, "a0-last"),)),), goes_on="from-told-id")
    assert list(settling(lambda: state, "t0")) == [last, FinishSource("a0")]


def test_a_running_source_is_finished_first() -> None:
    state = state_after(start(1)).applications
    assert next(settling(lambda: state, "t0")) == FinishSource("a0")


def test_subscriptions_are_drained_and_programs_run_to_the_end() -> None:
    state = state_after(
        start(1),
        finish(_1=0),
        (Consume("c0", "t0", "s", 1, kind="Shared"), Consumed((), ())),
        (RunReader("r", "t0", Death(1, "received")), Ran(killed=True, received=1)),
        (RunSubscriber("p", "t0"), Ran(killed=False, received=1)),
    ).applications
    assert list(winding_up(state, "t0")) == [
        Drain("t0", "s", "Shared"),
        RunReader("r", "t0"),
        ReadDatabase("r"),
        RunSubscriber("p", "t0"),
        ReadDatabase("p"),
    ]


# ------------------------------------------------------------------------------------------------ DEDUP-16: subscribers

STORED = (start(1, entry(2, 3)), finish(_1=0, _2=1), log(1, entry(2, 3)))
M1, M2, M3 = (
    Delivery(Position(9, 0), -1, 0, "b1"),
    Delivery(Position(9, 1), 0, 0, "b2"),
    Delivery(Position(9, 1), 1, 0, "b3"),
)


def consume(
    *messages: Delivery,
    acks: tuple[Delivery, ...] = (),
    then: Then = "stays",
    by: str = "c0",
    client: Client = "wire",
) -> Happened:
    return Consume(by, "t0", "s", 5, then=then, client=client), Consumed(messages, acks)


def drain(*messages: Delivery) -> Happened:
    return Drain("t0", "s"), Drained(messages)


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param((consume(M1, M2, M3, acks=(M1,), then="crashes"),), id="consumer-dies"),
        pytest.param((consume(M1, M2, M3, acks=(M1,), then="closes"),), id="consumer-closes"),
        pytest.param((consume(M1, M2, M3, acks=(M1,)), UNLOAD), id="unloaded"),
        pytest.param((consume(M1, M2, M3, acks=(M1,)), KILL), id="killed"),
        pytest.param((consume(M1, M2, M3, acks=(M1,)),), id="cut-off"),
    ],
)
def test_an_unacknowledged_message_is_redelivered(failure: tuple[Happened, ...]) -> None:
    assert exercised(run(*STORED, *failure, drain(M2, M3))) == ("DEDUP-16",)
    assert exercised(run(*STORED, *failure, drain(M1, M2, M3))) == ("DEDUP-16",)
    assert broken(run(*STORED, *failure, drain(M1))) == ("DEDUP-16", None)
    assert broken(run(*STORED, *failure, drain(M2))) == ("DEDUP-16", None)


def test_an_unacknowledged_message_may_be_redelivered_to_another_consumer() -> None:
    died = consume(M1, M2, M3, acks=(M2, M3), then="crashes")
    again = consume(M1, acks=(M1,), by="c1")
    assert exercised(run(*STORED, died, again, drain())) == ("DEDUP-16",)


def test_a_redelivered_message_that_is_not_acknowledged_is_due_again() -> None:
    died = consume(M1, M2, M3, acks=(M2, M3), then="crashes")
    assert broken(run(*STORED, died, consume(M1, then="crashes", by="c1"), drain())) == ("DEDUP-16", None)


def test_a_message_acknowledged_by_one_consumer_is_not_due_at_another() -> None:
    acked = consume(M1, M2, M3, acks=(M1, M2, M3))
    late = consume(M1, then="crashes", by="c1")
    assert exercised(run(*STORED, acked, late, drain())) == ()


def test_what_another_consumer_acknowledged_is_not_due_when_the_one_that_had_it_leaves() -> None:
    """Messages that a client had in its queue when the topic was unloaded went to another consumer as well."""
    both = [consume(M1, by="c1"), consume(M1, M2, acks=(M1,), by="c0")]
    assert exercised(run(*STORED, *both, drain(M2, M3))) == ("DEDUP-16",)
    assert broken(run(*STORED, *both, drain(M1, M3))) == ("DEDUP-16", None), "M2 is still due"


def test_only_the_first_messages_are_lost_by_a_cursor_that_was_persisted_at_the_latest_one() -> None:
    name, got = "created-cursor-persisted-at-latest", consume(M1, M2, M3)
    assert broken(run(*STORED, got, UNLOAD, drain(M2, M3))) == ("DEDUP-16", name)
    assert isinstance(run(*STORED, got, UNLOAD, drain(M2, M3), known=name), Allowed)
    assert broken(run(*STORED, got, UNLOAD, drain(M1), known=name)) == ("DEDUP-16", None), "the last ones"
    assert broken(run(*STORED, got, drain(M2, M3), known=name)) == ("DEDUP-16", None), "it was not reloaded"
    acked = consume(M1, M2, M3, acks=(M3,))
    assert broken(run(*STORED, acked, UNLOAD, drain(M2), known=name)) == ("DEDUP-16", None), "an ack was persisted"
    lives: tuple[tuple[Then, bool], ...] = (("stays", True), ("crashes", True), ("closes", False))
    for then, is_excused in lives:
        grouped = consume(M1, M2, M3, acks=(M3,), then=then, client="official")
        found = run(*STORED, grouped, UNLOAD, drain(M2), known=name)
        assert isinstance(found, Allowed) == is_excused, "acks that pulsar-client groups are lost unless it is closed"


def test_every_message_of_the_log_is_delivered() -> None:
    assert exercised(run(*STORED, drain(M1, M2, M3))) == ()
    assert broken(run(*STORED, drain(M1, M2))) == ("DEDUP-16", None)
    assert broken(run(*STORED, consume(M1, acks=(M1,)), drain(M2))) == ("DEDUP-16", None)


def test_messages_sent_after_the_log_was_read_are_not_due() -> None:
    assert exercised(run(*STORED, start(4), finish(_4=2), drain(M1, M2, M3))) == ()


@pytest.mark.parametrize("operation", [consume()[0], drain()[0]])
def test_a_consumer_that_waits_forever_breaks_the_rule(operation: AnyOperation) -> None:
    assert broken(run(*STORED, (operation, Stuck("1 entry is not delivered")))) == ("DEDUP-16", None)


# ------------------------------------------------------------------------------------- DEDUP-17: scenario 1, the reader

DEATH: Happened = (RunReader("r", "t0", Death(2, "before-commit")), Ran(killed=True, received=2))
THROUGH: Happened = (RunReader("r", "t0"), Ran(killed=False, received=2))


def database(*messages: Delivery, program: str = "r") -> Happened:
    return ReadDatabase(program), DatabaseRead(messages)


def test_a_killed_reader_has_applied_each_message_once() -> None:
    assert exercised(run(*STORED, DEATH, THROUGH, database(M1, M2, M3))) == ("DEDUP-17",)


def test_a_reader_that_was_never_killed_does_not_exercise_the_rule() -> None:
    assert exercised(run(*STORED, THROUGH, database(M1, M2, M3))) == ()


@pytest.mark.parametrize(
    "applied",
    [(M1, M2), (M1, M2, M2, M3), (M2, M1, M3), (M1, M2, M3, Delivery(Position(9, 2), -1, 0, "b4"))],
    ids=["lost", "twice", "out-of-order", "from-nowhere"],
)
def test_a_reader_that_applied_anything_else_breaks_the_rule(applied: tuple[Delivery, ...]) -> None:
    assert broken(run(*STORED, DEATH, THROUGH, database(*applied))) == ("DEDUP-17", None)


def test_an_unfinished_reader_or_an_unknown_log_is_not_judged() -> None:
    assert exercised(run(*STORED, DEATH, database(M1))) == ()
    assert exercised(run(*STORED[:2], DEATH, THROUGH, database(M1))) == ()
    assert exercised(run(*STORED, DEATH, THROUGH, start(4), finish(_4=2), database(M1, M2, M3))) == ()


def test_a_reader_that_does_not_finish_breaks_the_rule() -> None:
    assert broken(run(*STORED, (RunReader("r", "t0"), Stuck("nothing came")))) == ("DEDUP-17", None)


# --------------------------------------------------------------------------------- DEDUP-18: scenario 2, the subscriber

X1, Y1, X2 = (Delivery(Position(9, at), -1, 0, text) for at, text in enumerate(("x", "y", "x")))
DOUBLED = (
    start(*(Entry((Message(i, text),)) for i, text in ((1, "x"), (2, "y"), (3, "x")))),
    finish(_1=0, _2=1, _3=2),
    log(*(Entry((Message(i, text),)) for i, text in ((1, "x"), (2, "y"), (3, "x")))),
)
SUBSCRIBER_DIED: Happened = (RunSubscriber("p", "t0", Death(1, "committed")), Ran(killed=True, received=1))
SUBSCRIBER_THROUGH: Happened = (RunSubscriber("p", "t0"), Ran(killed=False, received=3))


def test_a_killed_subscriber_has_applied_each_business_id_once() -> None:
    assert exercised(run(*DOUBLED, SUBSCRIBER_DIED, SUBSCRIBER_THROUGH, database(X1, Y1, program="p"))) == ("DEDUP-18",)
    assert exercised(run(*DOUBLED, SUBSCRIBER_DIED, SUBSCRIBER_THROUGH, database(Y1, X2, program="p"))) == ("DEDUP-18",)


def test_without_a_kill_or_without_duplicates_the_rule_is_not_exercised() -> None:
    assert exercised(run(*DOUBLED, SUBSCRIBER_THROUGH, database(X1, Y1, program="p"))) == ()
    assert exercised(run(*STORED, SUBSCRIBER_DIED, SUBSCRIBER_THROUGH, database(M1, M2, M3, program="p"))) == ()


@pytest.mark.parametrize("applied", [(X1,), (X1, Y1, X2), (X1, Y1, M1)], ids=["lost", "twice", "from-nowhere"])
def test_a_subscriber_that_applied_anything_else_breaks_the_rule(applied: tuple[Delivery, ...]) -> None:
    history = (*DOUBLED, SUBSCRIBER_DIED, SUBSCRIBER_THROUGH, database(*applied, program="p"))
    assert broken(run(*history)) == ("DEDUP-18", None)


def test_a_subscriber_that_does_not_finish_breaks_the_rule() -> None:
    assert broken(run(*STORED, (RunSubscriber("p", "t0"), Stuck("nothing came")))) == ("DEDUP-18", None)
