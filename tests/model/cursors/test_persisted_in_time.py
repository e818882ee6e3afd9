"""How late a cursor may be persisted (ACK-08): what counts is how long it was seen not to be."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from conformance.history.document import Step
from model.deviations import DEVIATIONS
from model.events import Acknowledged, Created, CursorRead, CursorReset, Delivery, Done, NotPersisted, Persisted
from model.judgement import Allowed, Broken
from model.log import Position
from model.operations import Disturbance, DisturbMetadataStore, Unload
from model.subscription_operations import Acknowledge, AwaitPersisted, ReadCursor, ResetCursor
from tests.notation import steps
from tests.verdicts import Happened, deviates, judged


def flushed_by_timer(history: str) -> list[Happened]:
    """A history on a topic whose flush interval is two seconds."""
    (create, created, *_), *rest = steps(history)
    assert isinstance(created, Created)
    return [(create, replace(created, persisted_per_s=1.0, flush_s=2.0)), *rest]


def acks(entry: int) -> Happened:
    delivered = Delivery(Position(1, entry), -1, 0, f"p{entry + 1}")
    return Acknowledge("c", (0,)), Acknowledged((delivered,), receipt=True)


def broken_by(outcome: Persisted | NotPersisted, *, step_ms: float) -> str | None:
    """The rule that is broken if a cursor of a flush interval of two seconds is awaited for so long."""
    received = flushed_by_timer("t off; p opens -1; p sends 1@0; c subscribes; c gets p1@0")
    found = judged(*received, acks(0), (AwaitPersisted("t", "s"), outcome), step_ms=step_ms)
    return found.rule if isinstance(found, Broken) else None


@pytest.mark.parametrize(("waited_ms", "rule"), [(661.0, None), (5500.0, "ACK-08")])
def test_a_cursor_that_is_persisted_late_was_seen_to_be_late(waited_ms: float, rule: str | None) -> None:
    assert broken_by(Persisted(after_ms=5500.0, entries=1), step_ms=waited_ms) == rule


def test_a_cursor_that_is_never_persisted_breaks_the_rule() -> None:
    assert broken_by(NotPersisted(5000.0), step_ms=5000.0) == "ACK-08"


def test_acks_after_a_reset_may_not_be_persisted_only_until_mark_delete_advances() -> None:
    sent = "t off; p opens -1; p sends 1@0 2@1 3@2; c subscribes; c gets p1@0 p2@1 p3@2"
    reset: Happened = ResetCursor("t", "s", to="p2"), CursorReset(Position(1, 1))
    again = [*flushed_by_timer(sent), reset, *steps("c subscribes; c gets p2@1 p3@2")]
    waits: Happened = AwaitPersisted("t", "s"), NotPersisted(5000.0)
    assert deviates("acks-after-reset-not-persisted", *again, acks(2), waits)
    assert broken_or_known(*again, acks(1), waits) == "ACK-08", "mark-delete advanced"
    assert broken_or_known(*flushed_by_timer(sent), acks(2), waits) == "ACK-08", "nothing was reset"


def broken_or_known(*happened: Happened) -> str | None:
    """The rule that the last of these breaks, with all deviations known."""
    found = judged(*happened, known=DEVIATIONS)
    return found.rule if isinstance(found, Broken) else None


@pytest.mark.parametrize(
    ("how", "waits_ms", "may_lose"),
    [("expire", 6_000.0, True), ("expire", 60_000.0, False), ("freeze", 6_000.0, False)],
)
def test_an_unload_may_lose_acks_by_a_deviation_only_while_the_session_may_have_expired(
    how: Disturbance, waits_ms: float, may_lose: bool
) -> None:
    received = flushed_by_timer("t off; p opens -1; p sends 1@0 2@1; c subscribes; c gets p1@0 p2@1")
    disturbed: Happened = DisturbMetadataStore(how), Done()
    before = judged(*received, acks(0), acks(1), disturbed, step_ms=800)
    assert isinstance(before, Allowed)
    unload = Step(operation=Unload("t"), outcome=Done(), invoked_ms=waits_ms, completed_ms=waits_ms)
    lost = replace(unload, operation=ReadCursor("t", "s"), outcome=CursorRead(Position(1, 0), (), 1, 0))
    found = judged(unload, lost, start=before.state)
    assert isinstance(found, Broken)
    assert (found.deviation == "unload-without-session-loses-acks") is may_lose


def test_an_unload_without_a_session_loses_only_what_was_not_persisted() -> None:
    """Seen on 4.0.8 and 4.2.4: it lost the acks within the rate limit, and not the reset before them."""
    received = flushed_by_timer("t off; p opens -1; p sends 1@0 2@1 3@2; c subscribes; c gets p1@0 p2@1 p3@2")
    reset: Happened = ResetCursor("t", "s", to="p2"), CursorReset(Position(1, 1))
    again = [*received, reset, *steps("c subscribes; c gets p2@1 p3@2"), acks(1), acks(2)]
    expired: Happened = DisturbMetadataStore("expire"), Done()
    unloaded: Happened = Unload("t"), Done()

    def read(entry: int, *, backlog: int) -> Happened:
        return ReadCursor("t", "s"), CursorRead(Position(1, entry), (), backlog, 0)

    assert deviates("unload-without-session-loses-acks", *again, expired, unloaded, read(0, backlog=2), step_ms=100)
    named = "unload-without-session-loses-acks"
    reset_lost = judged(*again, expired, unloaded, read(-1, backlog=3), known=named, step_ms=100)
    assert isinstance(reset_lost, Broken), "it was persisted before it was confirmed"
    with_session = judged(*again, unloaded, read(0, backlog=2), known=named, step_ms=100)
    assert isinstance(with_session, Broken)
