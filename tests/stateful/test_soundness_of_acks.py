"""No false alarms of document 003: on a broker that does what it says no rule is broken, in whatever order it works.

The broker is a simulated one, whose subscriptions are plain sets (:mod:`tests.lockstep.simulated_subscription`) and
whose time passes as it likes. The same runs show that judging a history again comes to the same.
"""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

from conformance.engine.machines import Machine
from model.example import Example, judge
from model.judgement import Allowed
from stateful.test_acks import MACHINES
from tests.lockstep.campaigns import Campaign, play
from tests.lockstep.simulated import SimulatedPerformer

EXAMPLES = 200
machines = pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)


@cache
def on_the_document(name: str) -> Campaign:
    (machine,) = [m for m in MACHINES if m.name == name]
    return play(machine.factory, SimulatedPerformer, examples=EXAMPLES, steps=machine.steps)


@machines
def test_no_rule_is_broken_by_a_broker_that_does_as_the_document_says(machine: Machine) -> None:
    campaign = on_the_document(machine.name)
    assert [f"{found.violation.rule}: {found.violation.because}" for found in campaign.found] == []
    assert campaign.deviations == {}
    assert set(machine.decides) <= set(campaign.exercised)


@machines
def test_a_history_is_judged_again_to_the_same_end(machine: Machine) -> None:
    campaign = on_the_document(machine.name)
    exercised: Counter[str] = Counter()
    for steps in campaign.histories:
        state = Example()
        for step in steps:
            judged = judge(state, step.operation, step.outcome, step.late, step.at)
            assert isinstance(judged, Allowed)
            state = judged.state
            exercised.update(judged.exercised)
    assert exercised == campaign.exercised
