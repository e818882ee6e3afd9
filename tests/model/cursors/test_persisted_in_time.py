"""How late a cursor may be persisted (ACK-08): what counts is how long it was seen not to be."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from model.events import Acknowledged, Created, Delivery, NotPersisted, Persisted
from model.judgement import Broken
from model.log import Position
from model.subscription_operations import Acknowledge, AwaitPersisted
from tests.notation import steps
from tests.verdicts import Happened, judged


def broken_by(outcome: Persisted | NotPersisted, *, step_ms: float) -> str | None:
    """The rule that is broken if a cursor of a flush interval of two seconds is awaited for so long."""
    (create, created, *_), *rest = steps("t off; p opens -1; p sends 1@0; c subscribes; c gets p1@0")
    assert isinstance(created, Created)
    made: Happened = create, replace(created, persisted_per_s=1.0, flush_s=2.0)
    acks: Happened = Acknowledge("c", (0,)), Acknowledged((Delivery(Position(1, 0), -1, 0, "p1"),), receipt=True)
    found = judged(made, *rest, acks, (AwaitPersisted("t", "s"), outcome), step_ms=step_ms)
    return found.rule if isinstance(found, Broken) else None


@pytest.mark.parametrize(("waited_ms", "rule"), [(661.0, None), (5500.0, "ACK-08")])
def test_a_cursor_that_is_persisted_late_was_seen_to_be_late(waited_ms: float, rule: str | None) -> None:
    assert broken_by(Persisted(after_ms=5500.0, entries=1), step_ms=waited_ms) == rule


def test_a_cursor_that_is_never_persisted_breaks_the_rule() -> None:
    assert broken_by(NotPersisted(5000.0), step_ms=5000.0) == "ACK-08"
