"""The catalogue of machines against the machines themselves."""

from __future__ import annotations

import importlib
import pkgutil
from collections import Counter

import stateful
from conformance.engine.catalogue import DESCRIPTIONS
from conformance.engine.machines import Machine
from model.rules.catalogue import RULES, Decided


def test_every_machine_of_the_catalogue_is_one_that_pytest_runs() -> None:
    modules = [
        importlib.import_module(f"stateful.{module.name}")
        for module in pkgutil.iter_modules(stateful.__path__)
        if module.name.startswith("test_") and module.name != "test_replay"
    ]
    run: list[Machine] = [machine for module in modules for machine in module.MACHINES if not machine.on_shipped]
    assert Counter(machine.name for machine in run) == Counter(described.name for described in DESCRIPTIONS)
    assert len({machine.factory for machine in run}) == len(run)


def test_every_machine_but_the_mixed_ones_decides_rules_of_one_document_and_together_all_that_a_broker_can_show() -> (
    None
):
    for machine in DESCRIPTIONS:
        assert machine.summary.endswith(".")
        assert (machine.document is None) == machine.name.startswith("mixed")
    decided = {rule for machine in DESCRIPTIONS for rule in machine.decides}
    shown = {rule.id for rule in RULES.values() if rule.decided_by != (Decided.MODEL,)}
    assert shown <= decided


def test_several_clusters_start_only_for_the_rules_about_them() -> None:
    def run_for(*rules: str) -> set[str]:
        return {machine.name for machine in DESCRIPTIONS if machine.is_for(set(rules))}

    assert run_for("REPL-01") == {"clusters", "clusters-kills", "mixed-clusters"}
    assert "mixed" in run_for("DEDUP-02")
    assert "mixed-clusters" not in run_for("DEDUP-02", "ACK-01")
