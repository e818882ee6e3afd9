"""The machines of document 000's applications, as tests: each runs for its share of the budget."""

from __future__ import annotations

from conformance.brokers.interface import Capability
from conformance.engine.machines import Machine
from stateful.effectively_once import ApplicationsKillsMachine, ApplicationsMachine
from stateful.exploring import exploring
from stateful.network import ApplicationsNetworkMachine

MACHINES = (
    Machine(
        name="effectively-once",
        factory=ApplicationsMachine,
        decides=("DEDUP-13", "DEDUP-15", "DEDUP-16", "DEDUP-17", "DEDUP-18"),
        share=4.0,
        steps=8,
    ),
    Machine(
        name="effectively-once-network",
        factory=ApplicationsNetworkMachine,
        decides=("DEDUP-13", "DEDUP-15"),
        share=2.0,
        steps=8,
    ),
    Machine(
        name="effectively-once-kills",
        factory=ApplicationsKillsMachine,
        decides=("DEDUP-13", "DEDUP-15", "DEDUP-16", "DEDUP-17", "DEDUP-18"),
        needs=frozenset({Capability.KILL, Capability.RESTART}),
        share=2.0,
        steps=2,
        examples=2,
    ),
)


test_no_rule_is_broken_by = exploring(MACHINES)
