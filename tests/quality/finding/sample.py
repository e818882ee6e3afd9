"""Which seeded defects are measured: a random sample of each family that one broker of one cluster can show.

Left out are the defects that need several clusters (all of REPL), brokers or bookies. The sample was drawn once, of the
136 other defects of that day, so that measurements of later days are about the same ones. ``measure DEFECT`` adds more.
"""

from __future__ import annotations

from typing import Final

from conformance.faults.catalogue import find
from conformance.faults.defect import Defect

SAMPLE: Final[tuple[str, ...]] = (
    "unknown-stored",
    "producers-as-one",
    "failed-write-confirmed",
    "switch-ignored",
    "batch-acks-not-recovered",
    "ack-includes-previous-entry",
    "grouped-acks-lost",
    "close-stores-what-was-persisted",
    "ack-dropped",
    "draining-hashes-not-listed",
    "overlapping-claims-accepted",
    "classic-recently-joined-not-blocked",
    "read-order-reversed",
    "leave-keeps-draining",
    "chunk-not-assigned",
    "chunk-goes-to-next-consumer",
    "wire-chunk-id-changed",
    "cancelled-read-counts-as-pending",
    "subscribe-unanswered",
    "unacked-limit-in-all-ignored",
)
"""By family: four of DEDUP, five of ACK, five of KEY, three of CHUNK and three of SERVE, about as many as it has."""


def sample() -> list[Defect]:
    return [find(name) for name in SAMPLE]
