"""The machines of document 000's applications, as tests: each runs for its share of the budget."""

from __future__ import annotations

from conformance.engine.machines import machines
from stateful.deduplication.applications import ApplicationsKillsMachine, ApplicationsMachine
from stateful.deduplication.network import ApplicationsNetworkMachine
from stateful.machine_tests import exploring

MACHINES = machines(
    {
        "effectively-once": ApplicationsMachine,
        "effectively-once-network": ApplicationsNetworkMachine,
        "effectively-once-kills": ApplicationsKillsMachine,
    }
)


test_no_rule_is_broken_by = exploring(MACHINES)
