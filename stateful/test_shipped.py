"""Machines of each document once more, as tests, on the settings that the release ships: after all others in a run."""

from __future__ import annotations

from conformance.engine.machines import machines, on_shipped_settings
from stateful.chunking.machines import ChunksMachine
from stateful.cursors.machines import AcknowledgmentMachine
from stateful.deduplication.machines import DeduplicationMachine
from stateful.key_shared.machines import KeysMachine
from stateful.machine_tests import exploring

MACHINES = tuple(
    on_shipped_settings(machine)
    for machine in machines(
        {
            "deduplication": DeduplicationMachine,
            "acknowledgment": AcknowledgmentMachine,
            "keys": KeysMachine,
            "chunks": ChunksMachine,
        }
    )
)

test_no_rule_is_broken_on_shipped_settings_by = exploring(MACHINES)
