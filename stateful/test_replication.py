"""The machines of document 001, as tests: each runs for its share of the budget on three clusters of the session."""

from __future__ import annotations

from conformance.engine.machines import machines
from stateful.machine_tests import exploring
from stateful.replication.machines import ClustersIdleMachine, ClustersKillsMachine, ClustersMachine

MACHINES = machines(
    {
        "clusters": ClustersMachine,
        "clusters-idle": ClustersIdleMachine,
        "clusters-kills": ClustersKillsMachine,
    }
)


test_no_rule_is_broken_by = exploring(MACHINES)
