"""Seeded defects on the wire: a proxy in front of the broker changes certain commands during the whole run.

Clients and the suite cannot distinguish them from a broker's defects. They concern chunks; other commands pass
unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from conformance.faults.defect import Defect
from conformance.proxy.faults import (
    Corrupt,
    Fault,
    FewerIds,
    Lose,
    OtherChunkId,
    OtherUuid,
    PayloadByte,
    Repeat,
    Swap,
    Which,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WireDefect(Defect):
    """A small bug of the wire, for all clients; ``faults``: those of the proxy during the whole run."""

    faults: tuple[Fault, ...]


def _chunks(kind: str, chunk_id: int) -> Which:
    """All commands of a kind with this chunk id."""
    return Which(kind=kind, chunk_id=chunk_id, count=None)


WIRE_DEFECTS: Final = (
    WireDefect(
        name="wire-ack-in-part",
        breaks="CHUNK-07",
        summary="An ACK of several entries reaches the broker without the last one.",
        faults=(Corrupt(which=Which(kind="ACK", count=None), change=FewerIds(of_at_least=2)),),
    ),
    WireDefect(
        name="wire-chunk-corrupted",
        breaks="CHUNK-04",
        summary="The second chunk of a message reaches its consumer with a changed byte and a correct checksum.",
        faults=(Corrupt(which=_chunks("MESSAGE", 1), change=PayloadByte()),),
    ),
    WireDefect(
        name="wire-chunk-corrupted-before-storing",
        breaks="CHUNK-04",
        summary="The first chunk of a message reaches the broker with a changed last byte and a correct checksum.",
        faults=(Corrupt(which=_chunks("SEND", 0), change=PayloadByte(at=-1, flipped=1)),),
    ),
    WireDefect(
        name="wire-chunk-id-changed",
        breaks="CHUNK-02",
        summary="The second chunk of a message reaches the broker as its third.",
        faults=(Corrupt(which=_chunks("SEND", 1), change=OtherChunkId(chunk_id=2)),),
    ),
    WireDefect(
        name="wire-chunk-lost",
        breaks="CHUNK-04",
        summary="The second chunk of a message never reaches its consumer.",
        faults=(Lose(which=_chunks("MESSAGE", 1)),),
    ),
    WireDefect(
        name="wire-chunk-repeated",
        breaks="CHUNK-03",
        summary="The second chunk of a message reaches the broker twice.",
        faults=(Repeat(which=_chunks("SEND", 1)),),
    ),
    WireDefect(
        name="wire-chunk-repeated-to-consumer",
        breaks="CHUNK-04",
        summary="The first chunk of a message reaches its consumer twice.",
        faults=(Repeat(which=_chunks("MESSAGE", 0)),),
    ),
    WireDefect(
        name="wire-chunks-swapped",
        breaks="CHUNK-03",
        summary="The first chunk of a message reaches the broker after its second.",
        faults=(Swap(which=_chunks("SEND", 0), behind=_chunks("SEND", 1)),),
    ),
    WireDefect(
        name="wire-uuid-changed",
        breaks="CHUNK-02",
        summary="The second chunk of a message reaches the broker as a chunk of another message.",
        faults=(Corrupt(which=_chunks("SEND", 1), change=OtherUuid(uuid="another")),),
    ),
)
"""All of them, by name."""
