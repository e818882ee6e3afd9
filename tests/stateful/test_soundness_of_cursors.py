"""Soundness of document 003: a broker that follows the document breaks no rule, in any order of its actions.

The broker is simulated; its subscriptions are the model's reference (:mod:`model.cursors.reference`), and its clock is
random. The same holds for a broker with all known deviations of releases. The same runs show that judging a history
again gives the same verdict.
"""

from __future__ import annotations

from collections import Counter
from functools import cache, partial

import pytest

from conformance.engine.machines import Machine
from model.deviations import DEVIATIONS
from model.judgement import Allowed
from stateful.test_cursors import MACHINES
from tests import verdicts
from tests.lockstep.campaigns import Campaign, exercised, play, play_until_exercised, refused
from tests.lockstep.simulated.variants import AS_RELEASES, SimulatedVariant
from tests.lockstep.simulated.world import SimulatedPerformer

SEEDS, MOST_SEEDS, EXAMPLES = 3, 20, 40
AS_RELEASES_DO = partial(SimulatedPerformer, cursors=AS_RELEASES)
BY_ENTRIES = partial(SimulatedPerformer, cursors=SimulatedVariant(acknowledges_entries=True))
machines = pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)


@cache
def on_the_document(name: str) -> list[Campaign]:
    """Campaigns of several seeds, and of more until each rule is exercised: half of them never exercise ACK-14."""
    (machine,) = [m for m in MACHINES if m.name == name]
    return play_until_exercised(
        machine,
        SimulatedPerformer,
        set(machine.decides),
        examples=EXAMPLES,
        seeds=SEEDS,
        most_seeds=MOST_SEEDS,
    )


def violations(campaigns: list[Campaign]) -> list[str]:
    return [f"{found.violation.rule}: {found.violation.because}" for one in campaigns for found in one.found]


@machines
def test_a_correct_broker_breaks_no_rule(machine: Machine) -> None:
    campaigns = on_the_document(machine.name)
    assert violations(campaigns) == []
    assert [one.deviations for one in campaigns if one.deviations] == []
    assert set(machine.decides) <= exercised(campaigns)


@machines
def test_a_broker_with_all_known_deviations_breaks_no_rule(machine: Machine) -> None:
    known = frozenset(DEVIATIONS)
    campaign = play(machine.factory, AS_RELEASES_DO, examples=48, steps=machine.steps, seeded=2, known=known)
    assert violations([campaign]) == []
    assert campaign.deviations.total() > 0


@machines
def test_a_correct_broker_whose_clients_acknowledge_whole_entries_breaks_no_rule(machine: Machine) -> None:
    campaign = play(machine.factory, BY_ENTRIES, examples=48, steps=machine.steps, seeded=3)
    assert violations([campaign]) == []
    assert campaign.deviations.total() == 0


@machines
def test_judging_a_history_again_gives_the_same_verdict(machine: Machine) -> None:
    campaign = on_the_document(machine.name)[0]
    exercised: Counter[str] = Counter()
    for steps in campaign.histories:
        judged = verdicts.judged(*steps)
        assert isinstance(judged, Allowed)
        exercised.update(judged.exercised)
    assert exercised == campaign.exercised


@machines
def test_every_history_can_be_replayed(machine: Machine) -> None:
    assert [why for one in on_the_document(machine.name) for why in refused(one)] == []
