"""The machines of document 000, as tests: each runs for its share of the budget on the session's broker."""

from __future__ import annotations

from conformance.brokers.interface import Capability
from conformance.engine.machines import Machine
from stateful.dedup import DeduplicationMachine, FailuresMachine, KillsMachine, SettingsMachine
from stateful.exploring import exploring
from stateful.network import NetworkMachine

MACHINES = (
    # First: a restart takes the longer, the more topics there are.
    Machine(
        name="deduplication-settings",
        factory=SettingsMachine,
        decides=("DEDUP-01",),
        needs=frozenset({Capability.RESTART}),
        share=2.0,
        steps=3,
        examples=1,
    ),
    Machine(
        name="deduplication",
        factory=DeduplicationMachine,
        decides=(
            "DEDUP-01",
            "DEDUP-02",
            "DEDUP-03",
            "DEDUP-07",
            "DEDUP-08",
            "DEDUP-09",
            "DEDUP-10",
            "DEDUP-12",
            "DEDUP-14",
        ),
        share=4.0,
    ),
    Machine(
        name="deduplication-failures",
        factory=FailuresMachine,
        decides=("DEDUP-04", "DEDUP-05", "DEDUP-06", "DEDUP-09", "DEDUP-11", "DEDUP-12"),
        needs=frozenset({Capability.DEFECTS}),
        share=4.0,
        steps=10,
    ),
    Machine(
        name="deduplication-network",
        factory=NetworkMachine,
        decides=("DEDUP-02", "DEDUP-03", "DEDUP-08", "DEDUP-09", "DEDUP-12"),
        share=2.0,
        steps=10,
    ),
    Machine(
        name="deduplication-kills",
        factory=KillsMachine,
        decides=("DEDUP-12",),
        needs=frozenset({Capability.KILL, Capability.RESTART}),
        share=2.0,
        steps=3,
        examples=2,
    ),
)


test_no_rule_is_broken_by = exploring(MACHINES)
