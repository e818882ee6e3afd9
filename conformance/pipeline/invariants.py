"""All invariants: the rule that each decides, and the function of its document's module.

To add one: write its function, put it here, and break it in ``tests/pipeline`` in three ways at least.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from conformance.pipeline import acknowledgment, chunking, deduplication, key_shared
from conformance.pipeline.topic import Found, Topic


@dataclass(frozen=True, slots=True)
class Invariant:
    """What must hold in every history, if the rule of this id does; ``decide`` judges one topic."""

    rule: str
    decide: Callable[[Topic], Found]

    @property
    def name(self) -> str:
        """Its name in reports: the function's, in words."""
        return self.decide.__name__.replace("_", " ")


INVARIANTS = (
    Invariant("DEDUP-02", deduplication.stored_twice),
    Invariant("DEDUP-03", deduplication.falsely_confirmed),
    Invariant("DEDUP-13", deduplication.out_of_order),
    Invariant("DEDUP-15", deduplication.lost),
    Invariant("DEDUP-16", deduplication.missed),
    Invariant("CHUNK-02", chunking.chunks_agree),
    Invariant("CHUNK-04", chunking.delivered_whole),
    Invariant("CHUNK-13", chunking.stored_once_in_order),
    Invariant("ACK-01", acknowledgment.mark_delete_over_a_hole),
    Invariant("ACK-02", acknowledgment.mark_delete_back),
    Invariant("ACK-06", acknowledgment.positions_rise),
    Invariant("ACK-09", acknowledgment.delivered_again),
    Invariant("KEY-01", key_shared.one_consumer_at_a_time),
)

BY_NAME = {invariant.name: invariant for invariant in INVARIANTS}
