"""No false alarms of document 003: on a broker that does what it says no rule is broken, in whatever order it works.

The broker is a simulated one, whose subscriptions are the model's reference (:mod:`model.cursors.reference`) and whose
time passes as it likes. Nor on one that deviates in every known way at once, as releases do. The same runs show
that judging a history again comes to the same.
"""

from __future__ import annotations

from collections import Counter
from functools import cache, partial

import pytest

from conformance.engine.machines import Machine
from model.deviations import DEVIATIONS
from model.judgement import Allowed
from stateful.test_cursors import MACHINES
from tests.judging_again import judged_again
from tests.lockstep.campaigns import Campaign, play, refused
from tests.lockstep.cursor_variants import AS_RELEASES, SimulatedVariant
from tests.lockstep.simulated.world import SimulatedPerformer

SEEDS, MORE_SEEDS, EXAMPLES = range(4), range(4, 20), 75
AS_RELEASES_DO = partial(SimulatedPerformer, cursors=AS_RELEASES)
BY_ENTRIES = partial(SimulatedPerformer, cursors=SimulatedVariant(acknowledges_entries=True))
machines = pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)


@cache
def on_the_document(name: str) -> list[Campaign]:
    """Campaigns of several seeds, and of more until each rule is exercised: half of them never exercise ACK-14."""
    (machine,) = [m for m in MACHINES if m.name == name]
    campaigns: list[Campaign] = []
    for seed in (*SEEDS, *MORE_SEEDS):
        if seed in MORE_SEEDS and set(machine.decides) <= {rule for one in campaigns for rule in one.exercised}:
            break
        campaigns.append(play(machine.factory, SimulatedPerformer, examples=EXAMPLES, steps=machine.steps, seeded=seed))
    return campaigns


def violations(campaigns: list[Campaign]) -> list[str]:
    return [f"{found.violation.rule}: {found.violation.because}" for one in campaigns for found in one.found]


@machines
def test_no_rule_is_broken_by_a_broker_that_does_as_the_document_says(machine: Machine) -> None:
    campaigns = on_the_document(machine.name)
    assert violations(campaigns) == []
    assert [one.deviations for one in campaigns if one.deviations] == []
    assert set(machine.decides) <= {rule for one in campaigns for rule in one.exercised}


@machines
def test_nor_by_one_that_deviates_as_releases_do_when_that_is_known(machine: Machine) -> None:
    known = frozenset(DEVIATIONS)
    campaign = play(machine.factory, AS_RELEASES_DO, examples=100, steps=machine.steps, seeded=2, known=known)
    assert violations([campaign]) == []
    assert campaign.deviations.total() > 0


@machines
def test_nor_where_clients_acknowledge_whole_entries_only(machine: Machine) -> None:
    campaign = play(machine.factory, BY_ENTRIES, examples=100, steps=machine.steps, seeded=3)
    assert violations([campaign]) == []
    assert campaign.deviations.total() == 0


@machines
def test_a_history_is_judged_again_to_the_same_end(machine: Machine) -> None:
    campaign = on_the_document(machine.name)[0]
    exercised: Counter[str] = Counter()
    for steps in campaign.histories:
        judged = judged_again(steps)
        assert isinstance(judged, Allowed)
        exercised.update(judged.exercised)
    assert exercised == campaign.exercised


@machines
def test_each_of_its_histories_can_be_replayed(machine: Machine) -> None:
    assert [why for one in on_the_document(machine.name) for why in refused(one)] == []
