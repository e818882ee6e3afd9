"""Soundness: a broker that follows the document breaks no rule, in any order of its actions.

The same holds for a broker with all known deviations of releases. The same runs show that few states are possible, and
that judging a history is quick and gives the same verdict again.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from functools import cache, partial

import pytest

from conformance.engine.machines import Machine
from model.deduplication.variants import Variant
from model.deviations import DEVIATIONS
from model.judgement import Allowed
from stateful.test_deduplication import MACHINES
from tests import verdicts
from tests.lockstep.campaigns import Campaign, play, refused
from tests.lockstep.simulated.world import SimulatedPerformer
from tests.stateful.machines import OwnPolicyMachine, SwitchingMachine

EXAMPLES = {
    "deduplication": 64,
    "deduplication-failures": 32,
    "deduplication-network": 32,
    "deduplication-kills": 32,
    "deduplication-settings": 32,
}
OF_THE_DOCUMENT = [machine for machine in MACHINES if machine.name in EXAMPLES]
OURS = [
    Machine(name="own policy", factory=OwnPolicyMachine, decides=()),
    Machine(name="switched in flight", factory=SwitchingMachine, decides=()),
]
AS_RELEASES_DO = partial(
    SimulatedPerformer,
    variant=Variant(
        overlapping_batch_dropped=True,
        pushed_id_in_producer_success=True,
        snapshot_position_ahead=True,
        deduplication_enabled_in_flight=True,
    ),
    recovery_races=True,
    ends_of_batches=False,
    account="latest",
)

machines = pytest.mark.parametrize("machine", OF_THE_DOCUMENT, ids=lambda machine: machine.name)


@cache
def on_the_document(name: str) -> Campaign:
    (machine,) = [m for m in MACHINES if m.name == name]
    return play(machine.factory, SimulatedPerformer, examples=EXAMPLES[name], steps=machine.steps)


def violations(campaign: Campaign) -> list[str]:
    return [f"{found.violation.rule}: {found.violation.because}" for found in campaign.found]


@machines
def test_a_correct_broker_breaks_no_rule(machine: Machine) -> None:
    campaign = on_the_document(machine.name)
    assert violations(campaign) == []
    assert campaign.deviations == {}
    assert set(machine.decides) <= set(campaign.exercised)


@pytest.mark.parametrize("machine", OF_THE_DOCUMENT + OURS, ids=lambda machine: machine.name)
def test_a_correct_broker_with_small_snapshots_breaks_no_rule(machine: Machine) -> None:
    performer = partial(SimulatedPerformer, snapshot_room=2)
    campaign = play(machine.factory, performer, examples=16, steps=machine.steps, seeded=1)
    assert violations(campaign) == []


@pytest.mark.parametrize("machine", OF_THE_DOCUMENT + OURS, ids=lambda machine: machine.name)
def test_a_broker_with_all_known_deviations_breaks_no_rule(machine: Machine) -> None:
    known = frozenset(DEVIATIONS)
    campaign = play(machine.factory, AS_RELEASES_DO, examples=24, steps=machine.steps, seeded=2, known=known)
    assert violations(campaign) == []
    assert campaign.deviations.total() > 0


@machines
def test_few_states_are_possible(machine: Machine) -> None:
    sizes = on_the_document(machine.name).sizes
    ordered = sorted(sizes.elements())
    assert ordered[int(0.999 * len(ordered))] <= 64


@machines
def test_judging_a_history_again_gives_the_same_verdict(
    machine: Machine, record_property: Callable[[str, object], None]
) -> None:
    campaign = on_the_document(machine.name)
    exercised: Counter[str] = Counter()
    began_s = time.process_time()
    for steps in campaign.histories:
        judged = verdicts.judged(*steps)
        assert isinstance(judged, Allowed)
        exercised.update(judged.exercised)
    per_step_ms = (time.process_time() - began_s) * 1000 / campaign.steps
    record_property("judge_ms_per_step", round(per_step_ms, 4))
    print(f"{machine.name}: {campaign.steps} steps, judged in {per_step_ms:.3f} ms each")
    assert exercised == campaign.exercised


@machines
def test_every_history_can_be_replayed(machine: Machine) -> None:
    assert refused(on_the_document(machine.name)) == []
