"""The marks of the deduplication rules: each marked function of the reference runs when it is explored."""

from __future__ import annotations

from model.explorations import deduplication
from model.explorations.deduplication.world import Setup
from tests.model.explored import called_while, carried_by

REFERENCE = ("model.deduplication.reference", "model.deduplication.reference_producer")

LITTLE = (
    Setup(sources=(deduplication.source("A", 1, 3),), snapshots=True, crashes=1, failures=1),
    Setup(
        sources=(deduplication.source("A", 1),), snapshots=True, crashes=1, failures=1, restart="with what comes next"
    ),
    Setup(
        sources=(deduplication.source("A", 1),),
        deduplication=False,
        switches=1,
        reconnects=1,
        restart="from the beginning",
    ),
)


def test_the_explorations_exercise_every_rule_of_the_reference() -> None:
    carried = carried_by(REFERENCE)
    assert set(carried) == {f"DEDUP-{number:02}" for number in range(1, 16)}
    called = called_while(lambda: [deduplication.EXPLORED.run(setup) for setup in LITTLE], REFERENCE)
    assert {rule: found - called for rule, found in carried.items() if found - called} == {}
