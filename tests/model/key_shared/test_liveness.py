"""What must come on a Key_Shared subscription, where the dispatcher reads ahead of what waits only so far."""

from __future__ import annotations

import pytest

from model.key_shared.liveness import LookAhead, Open, Receiver, due
from model.log import Position
from model.vocabulary import HashRange

LOW, HIGH = 10, 50_000
SLOW = Receiver("slow", 0, (HashRange(1, 30_000),))
QUICK = Receiver("quick", 9, (HashRange(30_001, 65_535),))


def entries(*hashes: int, held: int = 0) -> list[Open]:
    """Entries of these hashes, of which the first ones are with the slow consumer."""
    return [Open(Position(1, at), hashed, "slow" if at < held else None) for at, hashed in enumerate(hashes)]


def comes(*hashes: int, held: int = 0, look_ahead: LookAhead) -> list[int]:
    return [at.entry for at in due(entries(*hashes, held=held), [SLOW, QUICK], look_ahead=look_ahead)]


@pytest.mark.parametrize(
    "look_ahead", [LookAhead(0, 0), LookAhead(), LookAhead(2, 0), LookAhead(0, 3), LookAhead(9, 3)]
)
def test_what_comes_after_what_waits_must_come_below_the_limit(look_ahead: LookAhead) -> None:
    assert comes(LOW, LOW, HIGH, look_ahead=look_ahead) == [2]


@pytest.mark.parametrize("look_ahead", [LookAhead(1, 0), LookAhead(0, 2), LookAhead(9, 1), LookAhead(1, 9)])
def test_nothing_that_comes_after_as_much_as_may_wait_must_come(look_ahead: LookAhead) -> None:
    assert comes(HIGH, LOW, LOW, HIGH + 1, look_ahead=look_ahead) == [0]


def test_what_consumers_have_does_not_wait_nor_does_what_follows_what_comes() -> None:
    assert comes(LOW, LOW, HIGH, HIGH, HIGH, HIGH + 1, held=2, look_ahead=LookAhead(0, 1)) == [2, 5]
