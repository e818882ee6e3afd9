"""Two observers of deduplication that must agree: the present one, and the states of the reference.

Both accept a correct broker, and neither holds many states. Both find the violations of a variant.
"""

from __future__ import annotations

from functools import partial

import pytest

from conformance.engine.machines import Machine
from stateful.test_deduplication import MACHINES
from tests.lockstep.campaigns import play
from tests.lockstep.simulated.variants import deduplication
from tests.lockstep.simulated.world import SimulatedPerformer
from tests.model.deduplication.two_observers import Beside, watched

_, DEDUPLICATION, FAILURES, _, NETWORK, KILLS = MACHINES
ENOUGH = 100
"""How many states may be possible. ARCHITECTURE has the numbers of a longer campaign."""


@pytest.fixture
def beside(monkeypatch: pytest.MonkeyPatch) -> Beside:
    return watched(monkeypatch)


@pytest.mark.parametrize("machine", MACHINES[1:], ids=lambda machine: machine.name)
def test_both_observers_accept_a_correct_broker_and_hold_few_states(machine: Machine, beside: Beside) -> None:
    campaign = play(machine.factory, SimulatedPerformer, examples=25, steps=machine.steps)
    assert campaign.found == []
    assert beside.alone == []
    assert beside.of_reference.total() > 100
    assert max(beside.of_reference) <= ENOUGH


@pytest.mark.parametrize(
    ("name", "machine"),
    [
        ("no-check", DEDUPLICATION),
        ("strict-less-than", NETWORK),
        ("shared-maps", DEDUPLICATION),
        ("unknown-stored", DEDUPLICATION),
        ("pushed-after-write", DEDUPLICATION),
        ("failed-write-stored", FAILURES),
        ("recovery-without-replay", KILLS),
        ("replay-skips-one", KILLS),
    ],
)
def test_the_reference_states_reject_the_violations_of_the_observer(
    name: str, machine: Machine, beside: Beside
) -> None:
    performer = partial(SimulatedPerformer, variant=deduplication(name))
    play(
        machine.factory,
        performer,
        examples=100,
        steps=machine.steps,
        until=lambda campaign: len(campaign.found) > 1,
    )
    assert beside.found > 0
    assert beside.missed == []
