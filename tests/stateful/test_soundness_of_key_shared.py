"""Soundness of document 004: a broker that follows the document breaks no rule, in any order of its actions.

The broker is the reference (:mod:`model.key_shared.dispatcher`), whose exploration showed that the rules hold in all
states of small configurations. Here it serves the machines' consumers, in any order.
"""

from __future__ import annotations

from functools import cache

import pytest

from conformance.engine.machines import Machine
from stateful.test_key_shared import MACHINES
from tests.lockstep.campaigns import Campaign, exercised, play_until_exercised, refused
from tests.lockstep.simulated.world import SimulatedPerformer

SEEDS, MOST_SEEDS = 2, 8
"""How many seeds a machine runs, and how many at most until it has exercised every rule that it decides."""
EXAMPLES = {"keys": 8, "keys-again": 16, "keys-chunks": 8, "keys-network": 8, "keys-races": 24, "keys-claimed": 16}
"""How many examples each machine runs for a seed; 16 for the others."""
UNDECIDED = {"KEY-14", "KEY-16"}
"""Rules that the reference does not exercise: it is not the classic implementation."""
machines = pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)


@cache
def on_the_document(name: str) -> list[Campaign]:
    (machine,) = [m for m in MACHINES if m.name == name]
    examples = EXAMPLES.get(name, 16)
    return play_until_exercised(
        machine, SimulatedPerformer, decided(machine), examples=examples, seeds=SEEDS, most_seeds=MOST_SEEDS
    )


def decided(machine: Machine) -> set[str]:
    return set(machine.decides) - UNDECIDED


@machines
def test_a_correct_broker_breaks_no_rule(machine: Machine) -> None:
    campaigns = on_the_document(machine.name)
    assert [f"{found.violation.rule}: {found.violation.because}" for one in campaigns for found in one.found] == []
    assert [one.deviations for one in campaigns if one.deviations] == []
    assert decided(machine) <= exercised(campaigns)


@machines
def test_every_history_can_be_replayed(machine: Machine) -> None:
    assert [why for one in on_the_document(machine.name) for why in refused(one)] == []
