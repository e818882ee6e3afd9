"""Deduplication of chunks (CHUNK-13): the broker's knowledge of a producer, and its judgement of a chunk.

Neither document says how deduplication and chunking work together; all chunks of a message have one sequence id. This
module makes a choice. A message counts as stored once its last chunk is stored. Until then the broker knows the number
of its stored chunks, and confirms a repeated chunk without storing it again. A message that restarts with another uuid
is stored from its first chunk on, because its former chunks can never be completed.

This knowledge follows from the log alone, so a reload recovers it.

Not modelled here: writes in flight, which document 000's model has.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable

from msgspec import Struct

from model.chunking.chunks import Chunk
from model.chunking.variants import DOCUMENT, ChunksVariant
from model.rules.catalogue import carries
from model.vocabulary import Entry


class ChunkJudgement(enum.Enum):
    STORED = "stored"
    DUPLICATE = "confirmed as a duplicate"
    REFUSED = "refused: its predecessor is missing"


class Known(Struct, frozen=True, cache_hash=True, gc=False):
    """The broker's knowledge of a producer: the highest completely stored sequence id, and the unfinished message.

    ``unfinished``: its sequence id, its uuid, and the number of its stored chunks.
    """

    producer: str
    whole: int = -1
    unfinished: tuple[int, str, int] | None = None


Memory = tuple[Known, ...]
"""The broker's knowledge of all producers with stored entries, in the order of their names."""


def known_of(memory: Memory, producer: str) -> Known:
    return next((known for known in memory if known.producer == producer), Known(producer))


def chunk_of(entry: Entry) -> Chunk:
    """The chunk that an entry is; one without a number is a whole message."""
    number = entry.chunk
    if number is None:
        return Chunk("", entry.highest, 0, 1, 0, 0, 0)
    return Chunk(number.uuid or "", entry.highest, number.chunk_id, number.chunks, 0, 0, 0)


def known_after(last: Entry | None, whole: int) -> Known:
    """What a broker knows of a producer with this last entry; its messages up to the id ``whole`` are complete.

    Only the last entry can belong to an unfinished message: any other one begins it again.
    """
    return Known("", whole, None if last is None else _unfinished(chunk_of(last)))


def _unfinished(last: Chunk) -> tuple[int, str, int] | None:
    return None if last.is_last else (last.sequence_id, last.uuid, last.chunk_id + 1)


@carries("CHUNK-13")
def judge(known: Known, chunk: Chunk, *, variant: ChunksVariant = DOCUMENT) -> ChunkJudgement:
    if variant.never_judged:
        return ChunkJudgement.STORED
    if variant.each_deduplicated:
        highest = max(known.whole, known.unfinished[0] if known.unfinished else -1)
        return ChunkJudgement.DUPLICATE if chunk.sequence_id <= highest else ChunkJudgement.STORED
    if variant.only_last_deduplicated and not chunk.is_last:
        return ChunkJudgement.STORED
    if chunk.sequence_id <= known.whole:
        return ChunkJudgement.DUPLICATE
    there = _there(known, chunk)
    if variant.only_last_deduplicated or chunk.chunk_id == there:
        return ChunkJudgement.STORED
    return ChunkJudgement.REFUSED if chunk.chunk_id > there else ChunkJudgement.DUPLICATE


def _there(known: Known, chunk: Chunk) -> int:
    """The number of stored chunks of its message."""
    if known.unfinished is None or known.unfinished[:2] != (chunk.sequence_id, chunk.uuid):
        return 0
    return known.unfinished[2]


@carries("CHUNK-13")
def remember(memory: Memory, producer: str, chunk: Chunk) -> Memory:
    """The knowledge after the chunk is stored."""
    whole = known_of(memory, producer).whole
    after = Known(producer, max(whole, chunk.sequence_id) if chunk.is_last else whole, _unfinished(chunk))
    return tuple(sorted((*(one for one in memory if one.producer != producer), after), key=lambda one: one.producer))


@carries("CHUNK-13")
def recovered(log: Iterable[tuple[str, Chunk]], *, variant: ChunksVariant = DOCUMENT) -> Memory:
    """The knowledge that a reload recovers from the whole log."""
    memory: Memory = ()
    for producer, chunk in log:
        memory = remember(memory, producer, chunk)
    return tuple(recovered_known(one, variant=variant) for one in memory)


def recovered_known(known: Known, *, variant: ChunksVariant = DOCUMENT) -> Known:
    """The knowledge of a producer after a reload: the same, because the log has all of it."""
    if variant.recovery_counts_unfinished:
        return Known(known.producer, max(known.whole, known.unfinished[0] if known.unfinished else -1))
    return known
