"""Machines of each document once more, as tests, on the settings that the release ships: after all others in a run."""

from __future__ import annotations

from conformance.engine.machines import machines, on_shipped_settings
from stateful.acks import AcknowledgmentMachine
from stateful.chunks import ChunksMachine
from stateful.dedup import DeduplicationMachine
from stateful.exploring import exploring
from stateful.keys import KeysMachine

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
