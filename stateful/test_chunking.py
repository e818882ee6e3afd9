"""The machines of document 002, as tests: each runs for its share of the budget on the session's broker."""

from __future__ import annotations

from conformance.engine.machines import machines
from stateful.chunking.machines import ChunksMachine
from stateful.chunking.variations import (
    ChunksCraftedMachine,
    ChunksInterruptedMachine,
    ChunksKillsMachine,
    ChunksManyMachine,
    ChunksSharedMachine,
    ChunksStatsMachine,
)
from stateful.machine_tests import exploring

MACHINES = machines(
    {
        "chunks": ChunksMachine,
        "chunks-interrupted": ChunksInterruptedMachine,
        "chunks-crafted": ChunksCraftedMachine,
        "chunks-shared": ChunksSharedMachine,
        "chunks-many": ChunksManyMachine,
        "chunks-stats": ChunksStatsMachine,
        "chunks-kills": ChunksKillsMachine,
    }
)


test_no_rule_is_broken_by = exploring(MACHINES)
