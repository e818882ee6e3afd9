"""The machines of document 002, as tests: each runs for its share of the budget on the session's broker."""

from __future__ import annotations

from conformance.brokers.interface import Capability
from conformance.engine.machines import Machine
from stateful.chunks import ChunksMachine
from stateful.exploring import exploring
from stateful.more_chunks import (
    ChunksCraftedMachine,
    ChunksInterruptedMachine,
    ChunksKillsMachine,
    ChunksSharedMachine,
    ChunksStatsMachine,
)

MACHINES = (
    Machine(
        name="chunks",
        factory=ChunksMachine,
        decides=("CHUNK-01", "CHUNK-02", "CHUNK-03", "CHUNK-04", "CHUNK-05", "CHUNK-06", "CHUNK-07"),
        share=3.0,
        steps=10,
    ),
    Machine(
        name="chunks-interrupted",
        factory=ChunksInterruptedMachine,
        decides=("CHUNK-02", "CHUNK-04", "CHUNK-05", "CHUNK-09", "CHUNK-13"),
        share=3.0,
        steps=8,
    ),
    Machine(
        name="chunks-crafted",
        factory=ChunksCraftedMachine,
        decides=("CHUNK-03", "CHUNK-04", "CHUNK-06", "CHUNK-07", "CHUNK-08", "CHUNK-09"),
        share=3.0,
        steps=8,
    ),
    Machine(
        name="chunks-shared",
        factory=ChunksSharedMachine,
        decides=("CHUNK-04", "CHUNK-06", "CHUNK-07", "CHUNK-09"),
        share=2.0,
        steps=8,
    ),
    Machine(
        name="chunks-stats",
        factory=ChunksStatsMachine,
        decides=("CHUNK-10",),
        share=1.0,
        steps=2,
        examples=2,
    ),
    Machine(
        name="chunks-kills",
        factory=ChunksKillsMachine,
        decides=("CHUNK-03", "CHUNK-13"),
        needs=frozenset({Capability.KILL, Capability.RESTART}),
        share=1.0,
        steps=2,
        examples=1,
    ),
)


test_no_rule_is_broken_by = exploring(MACHINES)
