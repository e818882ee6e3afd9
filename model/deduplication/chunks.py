"""Deduplication of the chunks of a message (CHUNK-13), as states of their producer.

All chunks of a message have its sequence id. The message counts once its last chunk is stored. Until then the broker
knows which of its chunks are stored, and confirms those without storing them again. :mod:`model.chunking.deduplication`
decides that. This module has what document 000 adds: writes in flight, missing answers, recovery.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import assert_never

from model.chunking.deduplication import ChunkJudgement, chunk_of, judge, known_after
from model.chunking.variants import DOCUMENT, ChunksVariant
from model.deduplication.producer_state import NONE, UNKNOWN_STATUS, Circumstances, ProducerState, StoredEntry
from model.deduplication.writes import fail, is_after, store
from model.events import Answer, Duplicate, Refused, Stored, Unknown
from model.rules.catalogue import carries
from model.vocabulary import Entry


@carries("CHUNK-13")
def judged(
    state: ProducerState, entry: Entry, answer: Answer, around: Circumstances, variant: ChunksVariant = DOCUMENT
) -> Iterator[ProducerState]:
    """The possible states after a chunk and its answer."""
    is_stored = is_new(state, entry, variant)
    match answer:
        case Stored(position):
            if is_stored and is_after(state, position):
                yield store(state, entry, position, around)
        case Duplicate():
            if is_duplicate(state, entry, variant):
                counted = NONE if entry.is_part else entry.highest
                yield replace(state, persisted=max(state.persisted, counted), is_recovered=False)
        case Refused(code) if code == UNKNOWN_STATUS:
            if not is_stored and not _was_stored(state, entry, variant):
                yield state
        case Refused():
            if around.may_fail:
                yield fail(state, entry)
        case Unknown():
            if state.failed:
                # After a failed write the broker closes the producer, and stores none of its later entries.
                yield fail(state, entry)
                return
            yield replace(state, cut=True)
            yield store(state, entry, None, around) if is_stored else state
            if is_stored and around.may_fail:
                yield fail(state, entry)
        case _:
            assert_never(answer)


@carries("CHUNK-13")
def is_new(state: ProducerState, entry: Entry, variant: ChunksVariant = DOCUMENT) -> bool:
    """Whether the broker stores a chunk: its message is not stored, and it is the next one of it.

    Which chunks of the message were stored before deduplication was enabled may count or not.
    """
    whole = state.written if state.failed else state.pushed
    return any(
        _is(ChunkJudgement.STORED, whole, since, entry, variant)
        for since in (state.entries[state.since :], state.entries)
    )


@carries("CHUNK-13")
def is_duplicate(state: ProducerState, entry: Entry, variant: ChunksVariant = DOCUMENT) -> bool:
    """Whether the broker has stored a chunk, or its message."""
    whole = max(state.persisted, state.written)
    return _is(ChunkJudgement.DUPLICATE, whole, state.entries[state.since :], entry, variant)


def _was_stored(state: ProducerState, entry: Entry, variant: ChunksVariant) -> bool:
    """Whether the broker has confirmed a chunk, or its message, so that it cannot be unknown."""
    settled = [stored for stored in state.entries[state.since :] if stored.position is not None]
    return _is(ChunkJudgement.DUPLICATE, state.persisted, settled, entry, variant)


def _is(
    judgement: ChunkJudgement, whole: int, stored: Sequence[StoredEntry], entry: Entry, variant: ChunksVariant
) -> bool:
    """Whether a broker that has these entries, and counts messages up to the id ``whole``, judges a chunk so."""
    known = known_after(stored[-1].entry if stored else None, whole)
    return judge(known, chunk_of(entry), variant=variant) is judgement


def is_known(state: ProducerState, entry: Entry) -> bool:
    """Whether it matters for a chunk what the broker knows of its message: of its chunks, or that it is whole."""
    return entry.highest <= state.written or bool(stored_of(state, entry))


def stored_of(state: ProducerState, entry: Entry) -> list[int]:
    """Which chunks of a chunk's message are in the log since deduplication is on, by their numbers."""
    uuid = None if entry.chunk is None else entry.chunk.uuid
    chunks = (stored.entry.chunk for stored in state.entries[state.since :])
    return [chunk.chunk_id for chunk in chunks if chunk is not None and chunk.uuid == uuid]
