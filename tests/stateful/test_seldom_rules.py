"""Rules that few operations exercise are exercised in few examples, whatever the seed."""

from __future__ import annotations

import pytest

from model.deviations import DEVIATIONS
from stateful import test_cursors, test_deduplication
from tests.lockstep.campaigns import Campaign, play
from tests.lockstep.simulated.world import SimulatedPerformer

MACHINES = {machine.name: machine for machine in (*test_deduplication.MACHINES, *test_cursors.MACHINES)}


@pytest.mark.parametrize("seed", range(16))
@pytest.mark.parametrize(
    ("machine", "rule", "examples"),
    # Not more examples than `check` has the time for by default: kills take long.
    [("deduplication", "DEDUP-11a", 10), ("acknowledgment-kills", "ACK-16", 4)],
)
def test_few_examples_exercise_the_rule(machine: str, rule: str, examples: int, seed: int) -> None:
    def is_exercised(campaign: Campaign) -> bool:
        return campaign.exercised[rule] > 0

    campaign = play(
        MACHINES[machine].factory,
        SimulatedPerformer,
        examples=examples,
        steps=MACHINES[machine].steps,
        seeded=seed,
        known=frozenset(DEVIATIONS),
        until=is_exercised,
    )
    assert is_exercised(campaign)
    assert not campaign.found
