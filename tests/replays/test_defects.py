"""Each seeded defect, by its stored minimal history: it breaks a rule with the defect, and none without.

So a defect is real, and the machines' model notices it. ``defects --hunt`` shows that the machines find it unaided.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from conformance.brokers.interface import Capability
from conformance.faults import catalogue
from conformance.history import document
from conformance.history.document import Violation
from model.judgement import Broken
from tests import verdicts
from tests.faults.experiments import EXPERIMENTS
from tests.faults.replication_effects import REPLICATION_EFFECTS
from tests.lockstep.test_takeovers_on_a_real_broker import HISTORIES as OF_LARGER_DEPLOYMENTS
from tests.replays import stored
from tests.replays.seeded_world import SeededWorld
from tests.replays.test_upgrades import HISTORIES as OF_UPGRADES

each = pytest.mark.parametrize(
    "path", [pytest.param(path, id=name, marks=stored.tier(path)) for name, path in stored.histories().items()]
)


def test_every_defect_has_a_history_or_an_experiment() -> None:
    shown = [*stored.histories(), *EXPERIMENTS, *REPLICATION_EFFECTS, *OF_LARGER_DEPLOYMENTS, *OF_UPGRADES]
    assert sorted(shown) == [defect.name for defect in catalogue.defects()]


ALSO = {"ledger-deleted-too-soon": ("ACK-01", "SERVE-03"), "entry-not-in-journal": ("DEDUP-01",)}
"""The rules that a defect breaks instead on a slow machine: the ledger may be deleted before a consumer has read it;
the bookie confirms an entry while it still receives it, and the answer may get lost."""


@each
def test_a_defect_breaks_the_rule_of_its_history_and_without_it_no_rule_is_broken(
    seeded: SeededWorld, path: Path, record_property: Callable[[str, object], None]
) -> None:
    history, broker = document.read(path), seeded.world.broker
    assert history.violation is not None
    if Capability.DEFECTS not in broker.capabilities:
        pytest.skip(f"{broker.name} has no agent inside, which a defect needs")
    operations = [step.operation for step in history.steps]
    if history.violation.rule.startswith("KEY") and not seeded.world.key_shared.can_drain:
        pytest.skip(f"{broker.name} is from before document 004")
    violations: list[Violation] = []
    with seeded.defective(catalogue.find(path.stem)):
        for _ in range(stored.TRIES):
            if (violation := seeded.perform(operations).violation) is not None:
                violations.append(violation)
            if violations and not stored.is_race(history):
                break
    if stored.is_race(history):
        stored.record_rate(record_property, history, len(violations), stored.TRIES)
    else:
        assert violations
    assert {one.rule for one in violations} <= {history.violation.rule, *ALSO.get(path.stem, ())}, violations
    assert seeded.perform(operations).violation is None


def test_the_history_of_a_defect_was_recorded_with_it() -> None:
    for name, path in stored.histories().items():
        history = document.read(path)
        assert history.defect == name
        assert history.minimal, name
        assert history.violation is not None, name
        assert path.parent.name == stored.family(catalogue.find(name).breaks)


def test_the_model_finds_the_violation_in_the_recorded_outcomes() -> None:
    for name, path in stored.histories().items():
        history = document.read(path)
        assert history.violation is not None
        broken = verdicts.judged(*history.steps)
        assert isinstance(broken, Broken), name
        assert (broken.rule, len(history.steps)) == (history.violation.rule, history.violation.step), name
