"""The marks of the rules of document 003: each marked function of the reference runs when it is explored."""

from __future__ import annotations

from model.explorations import cursors
from model.explorations.cursors.world import Setup
from tests.model.explored import called_while, carried_by

REFERENCE = ("model.cursors.reference", "model.cursors.dispatch")

LITTLE = (
    Setup(cumulative=True, subscriptions=2, trims=True),
    Setup(is_limited=True, is_quick=False, kills=1, unloads=1, administration=1),
    Setup(sizes=(1, 1), acks="received", consumers=2, leaves=1, nacks=1),
)


def test_the_explorations_exercise_every_rule_of_the_reference() -> None:
    carried = carried_by(REFERENCE)
    assert set(carried) == {f"ACK-{number:02}" for number in (1, 2, 3, 4, 5, 7, 8, 9, 10, 12, 13, 14)}
    called = called_while(lambda: [cursors.EXPLORED.run(setup) for setup in LITTLE], REFERENCE)
    assert {rule: found - called for rule, found in carried.items() if found - called} == {}
