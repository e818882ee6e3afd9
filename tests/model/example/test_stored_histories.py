"""Histories of plain checks whose violations were the suite's mistakes, and mistakes of a broker that are near them."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from conformance.history import document
from conformance.history.document import History, Step
from conformance.known import shipped
from model.cluster_events import ClustersRead
from model.events import Created, Sent, Skipped, Stored, Subscribed
from model.judgement import Allowed, Broken
from model.log import Position
from model.operations import CreateTopic, DisturbMetadataStore
from model.service.unexpected import Closed
from model.subscription_operations import ReadCursor, Seek, Subscribe
from tests.verdicts import Verdict, judged

HISTORIES = Path(__file__).parent / "histories"
UNANSWERED_SNAPSHOTS = document.read(HISTORIES / "REPL-10-on-4.0.8-busy.json")
FAILED_WRITES = document.read(HISTORIES / "SERVE-02-on-4.0.8-seed-501.json")
FAILED_SEEK = document.read(HISTORIES / "SERVE-02-on-4.0.1-seed-503.json")


def verdict(history: History, *steps: Step) -> Verdict:
    """The verdict on these steps, with what is known of the release of a history."""
    return judged(*steps, known=[one.name for one in shipped() if one.concerns(history.release, history.clients)])


def rule_of(history: History, *steps: Step) -> str | None:
    """The rule that these steps break with the last one, if any."""
    before, broken = verdict(history, *steps[:-1]), verdict(history, *steps)
    assert isinstance(before, Allowed), before
    return broken.rule if isinstance(broken, Broken) else None


# ------------------------------------------------------------------------------------------------------------- markers


def read_later(step: Step, by_ms: int) -> Step:
    """The same reading of the clusters, which began so much later."""
    assert isinstance(step.outcome, ClustersRead)
    return replace(step, outcome=replace(step.outcome, at_ms=step.outcome.at_ms + by_ms))


def test_a_marker_may_be_unread_when_it_was_written_just_before_the_reading() -> None:
    """Nobody answers the requests of this cluster, so that it writes one every two seconds."""
    *before, last = UNANSWERED_SNAPSHOTS.steps
    assert rule_of(UNANSWERED_SNAPSHOTS, *before, last) is None
    assert rule_of(UNANSWERED_SNAPSHOTS, *before, read_later(last, 1_000)) is None
    assert rule_of(UNANSWERED_SNAPSHOTS, *before, read_later(last, 2_500)) == "REPL-10"


def test_a_backlog_is_of_no_more_markers_than_were_written_just_before() -> None:
    *before, last = UNANSWERED_SNAPSHOTS.steps
    assert isinstance(last.outcome, ClustersRead)
    there = last.outcome.clusters["A"]
    cursors = tuple(replace(one, backlog=2) for one in there.cursors)
    clusters = {**last.outcome.clusters, "A": replace(there, cursors=cursors)}
    two = replace(last, outcome=replace(last.outcome, clusters=clusters))
    assert rule_of(UNANSWERED_SNAPSHOTS, *before, two) == "REPL-10"


# ------------------------------------------------------------------------------------------------------ failed writes


def test_a_write_that_was_answered_before_the_failure_does_not_end_it() -> None:
    """Of the sends after an expired session, two entries are stored, and the next one needs a new ledger and fails."""
    assert rule_of(FAILED_WRITES, *FAILED_WRITES.steps) is None


def test_after_a_later_write_has_succeeded_no_producer_is_closed() -> None:
    *before, last = FAILED_WRITES.steps
    answered = replace(last, outcome=Sent((Stored(Position(2490, 0)),)), unexpected=())
    closed = replace(last, operation=ReadCursor("t0", "s0"), outcome=Skipped("no matter"), late=())
    assert rule_of(FAILED_WRITES, *before, answered) is None
    assert rule_of(FAILED_WRITES, *before, answered, closed) == "SERVE-02"


def test_a_store_that_was_only_away_explains_no_closed_producer() -> None:
    is_expiry = [step.operation == DisturbMetadataStore("expire") for step in FAILED_WRITES.steps]
    steps = [step for step, leave_out in zip(FAILED_WRITES.steps, is_expiry, strict=True) if not leave_out]
    broken = verdict(FAILED_WRITES, *steps)
    assert isinstance(broken, Broken)
    assert broken.rule == "SERVE-02"


# ---------------------------------------------------------------------------------------------------------- resets


def test_a_seek_disconnects_its_consumer_even_if_it_fails() -> None:
    """Its answer is an internal error, which no rule allows."""
    assert rule_of(FAILED_SEEK, *FAILED_SEEK.steps) == "SERVE-01"


def test_a_seek_disconnects_no_consumer_of_another_subscription() -> None:
    *before, last = FAILED_SEEK.steps
    assert rule_of(FAILED_SEEK, *before, replace(last, operation=ReadCursor("t0", "s0"))) == "SERVE-02"
    begin = judged(
        (CreateTopic("t", persistence="every-ack"), Created(deduplication=False, snapshot_room=5)),
        (Subscribe("c1", "t", "s1", kind="Shared"), Subscribed()),
        (Subscribe("c2", "t", "s1", kind="Shared"), Subscribed()),
        (Subscribe("c3", "t", "s2", kind="Shared"), Subscribed()),
    )
    assert isinstance(begin, Allowed)
    for closed, rule in (("c1", "SERVE-01"), ("c2", "SERVE-01"), ("c3", "SERVE-02")):
        lost = Closed(closed, "the broker closed the consumer", "t")
        step = replace(last, operation=Seek("c1", None), unexpected=(lost,))
        broken = judged(step, start=begin.state)
        assert isinstance(broken, Broken)
        assert broken.rule == rule, closed
