"""Deduplication of chunks (CHUNK-13): what a broker remembers of a producer, and what it makes of a chunk.

Neither document says how the two go together; all chunks of a message have one sequence id. Settled here: a message
counts as stored once its last chunk is. Until then the broker remembers how far it is, and a chunk that is there is
confirmed without being stored again. A message that begins anew under another uuid is stored from its first chunk on:
what was there of it can never become whole.

What is remembered follows from the log alone, so that a broker that loads the topic again knows it, too.

Not here: what is on its way to the log; documents 000's model has that.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable

from msgspec import Struct

from model.chunking.splitting import Chunk
from model.chunking.variants import DOCUMENT, ChunksVariant
from model.rules.catalogue import carries


class Judgement(enum.Enum):
    """What becomes of a chunk."""

    STORED = "stored"
    DUPLICATE = "confirmed as a duplicate"
    REFUSED = "refused: its predecessor is not there"


class Known(Struct, frozen=True, cache_hash=True, gc=False):
    """What is remembered of a producer: the highest sequence id that is stored whole, and the message under way.

    ``under_way``: its sequence id, its uuid, and how many of its chunks are there.
    """

    producer: str
    whole: int = -1
    under_way: tuple[int, str, int] | None = None


Memory = tuple[Known, ...]
"""What is remembered of all producers that stored something, in the order of their names."""


def known_of(memory: Memory, producer: str) -> Known:
    """What is remembered of this producer."""
    return next((known for known in memory if known.producer == producer), Known(producer))


@carries("CHUNK-13")
def judge(known: Known, chunk: Chunk, *, variant: ChunksVariant = DOCUMENT) -> Judgement:
    """What becomes of a chunk that arrives."""
    if variant.never_judged:
        return Judgement.STORED
    if variant.each_deduplicated:
        highest = max(known.whole, known.under_way[0] if known.under_way else -1)
        return Judgement.DUPLICATE if chunk.sequence_id <= highest else Judgement.STORED
    if variant.only_last_deduplicated and not chunk.is_last:
        return Judgement.STORED
    if chunk.sequence_id <= known.whole:
        return Judgement.DUPLICATE
    there = _there(known, chunk)
    if variant.only_last_deduplicated or chunk.chunk_id == there:
        return Judgement.STORED
    return Judgement.REFUSED if chunk.chunk_id > there else Judgement.DUPLICATE


def _there(known: Known, chunk: Chunk) -> int:
    """How many chunks of its message are there."""
    if known.under_way is None or known.under_way[:2] != (chunk.sequence_id, chunk.uuid):
        return 0
    return known.under_way[2]


@carries("CHUNK-13")
def remember(memory: Memory, producer: str, chunk: Chunk) -> Memory:
    """What is remembered when the chunk is stored."""
    known = known_of(memory, producer)
    if chunk.is_last:
        after = Known(producer, max(known.whole, chunk.sequence_id))
    else:
        after = Known(producer, known.whole, (chunk.sequence_id, chunk.uuid, chunk.chunk_id + 1))
    return tuple(sorted((*(one for one in memory if one.producer != producer), after), key=lambda one: one.producer))


@carries("CHUNK-13")
def recovered(log: Iterable[tuple[str, Chunk]], *, variant: ChunksVariant = DOCUMENT) -> Memory:
    """What is remembered of a log, from its beginning on: producers and their chunks."""
    memory: Memory = ()
    for producer, chunk in log:
        memory = remember(memory, producer, chunk)
    return tuple(recovered_known(one, variant=variant) for one in memory)


def recovered_known(known: Known, *, variant: ChunksVariant = DOCUMENT) -> Known:
    """What is remembered of a producer when the topic is loaded again: the same, because all of it is in the log."""
    if variant.recovery_counts_unfinished:
        return Known(known.producer, max(known.whole, known.under_way[0] if known.under_way else -1))
    return known
