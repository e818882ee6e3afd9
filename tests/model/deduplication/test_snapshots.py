"""Deduplication snapshots: those that are due (DEDUP-11a), and those that deviate from the document (DEDUP-10)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace as with_fields

from model.events import (
    AnyOutcome,
    Created,
    DeduplicationSet,
    Done,
    Duplicate,
    Opened,
    Sent,
    SnapshotRead,
    Stored,
    Unknown,
)
from model.example import Example
from model.explain import judge
from model.judgement import Broken
from model.log import Position
from model.operations import (
    AnyOperation,
    CrashProducer,
    CreateTopic,
    OpenProducer,
    ReadSnapshot,
    Restart,
    Send,
    SetDeduplication,
    Unload,
)
from model.vocabulary import SnapshotSchedule
from tests.model.deduplication.entries import entry
from tests.model.deduplication.test_policies import in_turn, knowing, with_topic
from tests.notation import steps
from tests.verdicts import Happened, deviates, exercised, judged

EMPTY = "snapshot-due @-1 of @0"


def history(period_s: float | None, *texts: str) -> list[Happened]:
    """A topic whose snapshots are due every three entries, or after this period, and what happened to it."""
    (operation, outcome, *_), *rest = steps("; ".join(("t on; p opens -1", *texts)))
    assert isinstance(outcome, Created)
    return [(operation, with_fields(outcome, snapshots=SnapshotSchedule(3, period_s))), *rest]


def is_exercised(*texts: str, period_s: float | None = None) -> bool:
    return "DEDUP-11a" in exercised(*history(period_s, *texts))


def is_broken(*texts: str, period_s: float | None = None) -> bool:
    verdict = judged(*history(period_s, *texts))
    return isinstance(verdict, Broken) and verdict.rule == "DEDUP-11a"


def test_enough_entries_take_a_snapshot() -> None:
    assert is_exercised(EMPTY, "p sends 1@0 2@1 3@2 4@3; snapshot-due @2 p=3 of @3")
    assert is_broken(EMPTY, "p sends 1@0 2@1 3@2; snapshot-due @-1 of @2")


def test_fewer_entries_need_not_take_one() -> None:
    assert not is_exercised(EMPTY, "p sends 1@0 2@1; snapshot-due @-1 of @1")


def test_the_timer_takes_all_that_is_stored() -> None:
    assert is_exercised("p sends 1@0; snapshot-due @0 p=1 of @0", period_s=2.0)
    assert is_broken("p sends 1@0 2@1 3@2 4@3 5@4; snapshot-due @3 p=4 of @4", period_s=2.0)


@pytest.mark.parametrize("between", ["t unloads; p opens 3", "t fails-snapshots"])
def test_the_entries_are_counted_anew_after_an_unload_and_where_snapshots_may_fail(between: str) -> None:
    assert not is_broken(EMPTY, "p sends 1@0 2@1 3@2", between, "snapshot-due @-1 of @2")


def test_the_timer_comes_after_snapshots_have_failed() -> None:
    failed = "t fails-snapshots; p sends 1@0"
    assert not is_broken(failed, "snapshot-due @-1 of @0", period_s=2.0)
    assert is_broken(failed, "t cleared; p sends 2@1; snapshot-due @-1 of @1", period_s=2.0)


def test_a_timer_that_fails_excuses_no_snapshot_that_is_due_by_entries() -> None:
    by_timer = history(2.0, "p sends 1@0; snapshot-due @-1 of @0")
    assert deviates("timer-fails-without-deduplication", *by_timer)
    by_entries = history(2.0, EMPTY, "p sends 1@0 2@1 3@2; snapshot-due @-1 of @2")
    verdict = judged(*by_entries, known="timer-fails-without-deduplication")
    assert isinstance(verdict, Broken)
    assert (verdict.rule, verdict.deviation) == ("DEDUP-11a", None)


Step = tuple[AnyOperation, AnyOutcome]


def stored(session: str, *ids: int, ledger: int) -> Step:
    """These ids are stored in turn, from the beginning of a ledger."""
    answers = tuple(Stored(Position(ledger, number)) for number in range(len(ids)))
    return Send(session, tuple(entry(i) for i in ids)), Sent(answers)


def switched(*, on: bool) -> Step:
    return SetDeduplication("t0", "namespace", on=on), DeduplicationSet(deduplication=on)


RESTARTED_OFF: Step = Restart(deduplication=False), DeduplicationSet(deduplication=False)
RESTARTED_ON: Step = Restart(deduplication=True), DeduplicationSet(deduplication=True)
UNLOADED: Step = Unload("t0"), Done()
BEFORE = (OpenProducer("s1", "t0", "p"), Opened(-1)), stored("s1", 1, 2, ledger=1)
MEANWHILE = (OpenProducer("s2", "t0", "p"), Opened(-1)), stored("s2", 7, 8, ledger=2), (CrashProducer("s2"), Done())
SNAPSHOT: Step = ReadSnapshot("t0"), SnapshotRead(Position(1, 1), {"p": 2})
REOPENED: Step = OpenProducer("s3", "t0", "p"), Opened(8)
AGAIN: Step = Send("s3", (entry(7),)), Sent((Duplicate(),))


def broken(state: Example, step: Step) -> Broken:
    judged = judge(state, *step)
    assert isinstance(judged, Broken), judged
    return judged


@pytest.mark.parametrize(
    ("off", "on"), [((RESTARTED_OFF,), RESTARTED_ON), ((UNLOADED, switched(on=False)), switched(on=True))]
)
def test_a_kept_snapshot_is_shown_and_makes_what_was_stored_since_count(off: tuple[Step, ...], on: Step) -> None:
    topic = with_topic("broker" if len(off) == 1 else "namespace-on")
    is_off = in_turn(topic, *BEFORE, *off)
    found = broken(is_off, SNAPSHOT)
    assert (found.rule, found.deviation) == ("DEDUP-10", "deduplication-off-keeps-snapshot")
    is_on = in_turn(is_off, *MEANWHILE, on)
    found = broken(is_on, REOPENED)
    assert (found.rule, found.deviation) == ("DEDUP-09", "deduplication-off-keeps-snapshot")
    known = knowing("deduplication-off-keeps-snapshot", state=topic)
    in_turn(known, *BEFORE, *off, SNAPSHOT, *MEANWHILE, on, REOPENED, AGAIN)
    in_turn(
        known, *BEFORE, *off, *MEANWHILE, on, (OpenProducer("s3", "t0", "p"), Opened(-1)), stored("s3", 9, ledger=3)
    )


def test_a_kept_snapshot_has_what_was_stored_before_and_nothing_else() -> None:
    known = knowing("deduplication-off-keeps-snapshot", state=with_topic())
    is_off = in_turn(known, *BEFORE, UNLOADED, switched(on=False))
    found = broken(is_off, (ReadSnapshot("t0"), SnapshotRead(Position(1, 1), {"p": 1})))
    assert (found.rule, found.deviation) == ("DEDUP-10", None)
    is_on = in_turn(is_off, *MEANWHILE, switched(on=True))
    found = broken(is_on, (OpenProducer("s3", "t0", "p"), Opened(7)))
    assert (found.rule, found.deviation) == ("DEDUP-09", None)


def test_a_topic_that_was_loaded_when_deduplication_was_switched_off_keeps_no_snapshot() -> None:
    known = knowing("deduplication-off-keeps-snapshot", state=with_topic())
    is_off = in_turn(known, *BEFORE, switched(on=False))
    assert broken(is_off, SNAPSHOT).rule == "DEDUP-10"
    opened = OpenProducer("s2", "t0", "p"), Opened(-1)
    is_on = in_turn(is_off, UNLOADED, opened, stored("s2", 7, 8, ledger=2), UNLOADED, switched(on=True))
    found = broken(is_on, REOPENED)
    assert (found.rule, found.deviation) == ("DEDUP-09", None)


@pytest.mark.parametrize(("last", "is_possible"), [(-1, True), (2, True), (7, True), (8, True), (9, False)])
def test_of_a_send_without_an_answer_any_first_messages_may_be_stored(last: int, is_possible: bool) -> None:
    known = knowing("deduplication-off-keeps-snapshot", state=with_topic("broker"))
    unanswered: Step = Send("s2", (entry(7), entry(8))), Sent((Unknown("lost"), Unknown("lost")))
    opened: Step = OpenProducer("s2", "t0", "p"), Opened(-1)
    is_on = in_turn(known, *BEFORE, RESTARTED_OFF, opened, unanswered, RESTARTED_ON)
    reopened: Step = OpenProducer("s3", "t0", "p"), Opened(last)
    if is_possible:
        in_turn(is_on, reopened)
    else:
        assert broken(is_on, reopened).rule == "DEDUP-09"


TWO = (
    (OpenProducer("s1", "t0", "p"), Opened(-1)),
    (OpenProducer("s2", "t0", "q"), Opened(-1)),
    stored("s1", 1, 2, ledger=1),
    (Send("s2", (entry(1),)), Sent((Stored(Position(1, 2)),))),
    (Send("s1", (entry(3), entry(4))), Sent((Stored(Position(1, 3)), Stored(Position(1, 4))))),
)
"""The entries of p and q in one ledger: p 1, p 2, q 1, p 3, p 4."""


def with_snapshots(*known: str) -> Example:
    """A topic that takes a snapshot after every two entries."""
    created = Created(deduplication=True, snapshot_room=6, snapshots=SnapshotSchedule(2))
    return knowing(*known, state=in_turn(Example(), (CreateTopic("t0", "namespace-on"), created)))


def shown(**ids: int) -> Step:
    return ReadSnapshot("t0"), SnapshotRead(Position(1, 4), ids)


@pytest.mark.parametrize("earlier", [{"p": 1}, {"p": 2}, {"p": 2, "q": 1}])
def test_the_ids_of_an_earlier_snapshot_may_be_shown_at_the_position_of_a_later_one(earlier: dict[str, int]) -> None:
    found = broken(in_turn(with_snapshots(), *TWO), shown(**earlier))
    assert (found.rule, found.deviation) == ("DEDUP-10", "earlier-snapshot-shown")
    in_turn(with_snapshots("earlier-snapshot-shown"), *TWO, shown(**earlier))


def test_a_snapshot_with_ids_from_before_the_reload_or_of_no_earlier_snapshot_breaks_the_rule() -> None:
    known = with_snapshots("earlier-snapshot-shown")
    never = broken(in_turn(known, *TWO), shown(q=1))
    assert (never.rule, never.deviation) == ("DEDUP-10", None)
    reloaded = in_turn(known, *TWO, UNLOADED)
    before = broken(reloaded, shown(p=2, q=1))
    assert (before.rule, before.deviation) == ("DEDUP-10", None)
