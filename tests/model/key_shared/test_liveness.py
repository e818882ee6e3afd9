"""Which messages of a Key_Shared subscription are due, given that the look-ahead has a limit."""

from __future__ import annotations

import pytest

from model.key_shared.liveness import Open, Receiver, due
from model.log import Position
from model.vocabulary import HashRange, LookAhead

LOW, HIGH = 10, 50_000
SLOW = Receiver("slow", 0, (HashRange(1, 30_000),))
QUICK = Receiver("quick", 9, (HashRange(30_001, 65_535),))


def entries(*hashes: int, held: int = 0) -> list[Open]:
    """Entries of these hashes; the first ``held`` ones are pending at the slow consumer."""
    return [Open(Position(1, at), hashed, "slow" if at < held else None) for at, hashed in enumerate(hashes)]


def due_entries(*hashes: int, held: int = 0, look_ahead: LookAhead) -> list[int]:
    return [at.entry for at in due(entries(*hashes, held=held), [SLOW, QUICK], look_ahead=look_ahead)]


@pytest.mark.parametrize(
    "look_ahead", [LookAhead(0, 0), LookAhead(), LookAhead(2, 0), LookAhead(0, 3), LookAhead(9, 3)]
)
def test_a_message_after_blocked_ones_is_due_below_the_look_ahead_limit(look_ahead: LookAhead) -> None:
    assert due_entries(LOW, LOW, HIGH, look_ahead=look_ahead) == [2]


@pytest.mark.parametrize("look_ahead", [LookAhead(1, 0), LookAhead(0, 2), LookAhead(9, 1), LookAhead(1, 9)])
def test_no_message_is_due_once_the_look_ahead_limit_is_reached(look_ahead: LookAhead) -> None:
    assert due_entries(HIGH, LOW, LOW, HIGH + 1, look_ahead=look_ahead) == [0]


def test_pending_and_due_messages_do_not_count_toward_the_look_ahead_limit() -> None:
    assert due_entries(LOW, LOW, HIGH, HIGH, HIGH, HIGH + 1, held=2, look_ahead=LookAhead(0, 1)) == [2, 5]
