"""The machines of document 000, as tests: each runs for its share of the budget on the session's broker."""

from __future__ import annotations

from conformance.engine.machines import machines
from stateful.deduplication.inactivity import InactivityMachine
from stateful.deduplication.machines import DeduplicationMachine, FailuresMachine, KillsMachine, SettingsMachine
from stateful.deduplication.network import NetworkMachine
from stateful.machine_tests import exploring

MACHINES = machines(
    {
        "deduplication-settings": SettingsMachine,
        "deduplication": DeduplicationMachine,
        "deduplication-failures": FailuresMachine,
        "deduplication-inactivity": InactivityMachine,
        "deduplication-network": NetworkMachine,
        "deduplication-kills": KillsMachine,
    }
)


test_no_rule_is_broken_by = exploring(MACHINES)
