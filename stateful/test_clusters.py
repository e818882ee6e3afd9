"""The machines of document 001, as tests: each runs for its share of the budget on three clusters of the session."""

from __future__ import annotations

from conformance.brokers.interface import Capability
from conformance.engine.machines import Machine
from stateful.clusters import ClustersIdleMachine, ClustersKillsMachine, ClustersMachine
from stateful.exploring import exploring

MACHINES = (
    Machine(
        name="clusters",
        factory=ClustersMachine,
        decides=(
            "REPL-01",
            "REPL-02",
            "REPL-03",
            "REPL-04",
            "REPL-05",
            "REPL-06",
            "REPL-07",
            "REPL-08",
            "REPL-09",
            "REPL-10",
            "REPL-11",
            "REPL-12",
            "REPL-13",
            "REPL-14",
            "REPL-15",
            "REPL-18",
        ),
        needs=frozenset({Capability.CLUSTERS}),
        share=4.0,
        steps=12,
        examples=3,
    ),
    Machine(
        name="clusters-idle",
        factory=ClustersIdleMachine,
        decides=("REPL-17",),
        needs=frozenset({Capability.CLUSTERS}),
        share=1.0,
        steps=3,
        examples=1,
    ),
    Machine(
        name="clusters-kills",
        factory=ClustersKillsMachine,
        decides=("REPL-01", "REPL-13", "REPL-14"),
        needs=frozenset({Capability.CLUSTERS, Capability.KILL, Capability.RESTART}),
        share=1.0,
        steps=6,
        examples=1,
    ),
)


test_no_rule_is_broken_by = exploring(MACHINES)
