"""How a consumer assembles messages (document 002): the life of a buffer as a table, and a consumer's buffers.

Chunks arrive in the order of the log, and again on a redelivery. Each unfinished message has one buffer (CHUNK-06).
``TABLE`` is complete: nothing else can happen to a buffer.

The document describes the normal case and the pending limit. Where it is silent, this module chooses what its rules
require:

- A repeated first chunk restarts the message: its producer crashed and resends it, or it is redelivered.
- Another repeated chunk with its own entry is acknowledged together with the message (CHUNK-07). A client may also
  acknowledge what it has twice at once, as the Java client does: the message is complete without it.
- A chunk without its predecessors is not acknowledged; it waits for redelivery.
- After a redelivery request for everything, buffers begin empty. Otherwise a chunk of an earlier attempt could complete
  a later one.
- A buffer that expires is acknowledged. Only then, and above the pending limit if so configured, is a message lost
  (CHUNK-08).

Not modelled here: time, permits, dispatch (:mod:`model.chunking.shared_proposals`).
"""

from __future__ import annotations

import enum

from msgspec import Struct
from msgspec.structs import replace

from model.chunking.chunks import Chunk
from model.chunking.variants import DOCUMENT, ChunksVariant
from model.rules.catalogue import carries


class BufferState(enum.Enum):
    NOTHING = "it has no buffer"
    FILLING = "its buffer has the first chunks"


class BufferInput(enum.Enum):
    FIRST = "its first chunk arrives"
    NEXT = "the next chunk arrives, and is not the last one"
    LAST = "the next chunk arrives, and is the last one"
    FIRST_AGAIN = "its first chunk arrives again"
    REPEATED = "a chunk of the buffer arrives again"
    BEYOND = "a chunk arrives without its predecessors"
    CROWDED_OUT = "the pending limit is reached, and this is the oldest buffer"
    EXPIRED = "the buffer expires"


class BufferEffect(enum.Enum):
    OPEN = "a buffer is opened"
    APPEND = "the chunk is added to the buffer"
    DELIVER = "the message is complete, and is delivered"
    RESTART = "the buffer restarts, and its former entries are acknowledged with the message"
    LAY_BY = "the entry is acknowledged with the message"
    SET_ASIDE = "the entry waits for redelivery"
    DROP = "all entries wait for redelivery"
    DISCARD = "the entries wait for redelivery or are acknowledged, as configured"
    GIVE_UP = "the entries are acknowledged, and lost"


class BufferTransition(Struct, frozen=True):
    effect: BufferEffect
    after: BufferState


TABLE: dict[tuple[BufferState, BufferInput], BufferTransition] = {
    (BufferState.NOTHING, BufferInput.FIRST): BufferTransition(BufferEffect.OPEN, BufferState.FILLING),
    (BufferState.NOTHING, BufferInput.BEYOND): BufferTransition(BufferEffect.SET_ASIDE, BufferState.NOTHING),
    (BufferState.FILLING, BufferInput.NEXT): BufferTransition(BufferEffect.APPEND, BufferState.FILLING),
    (BufferState.FILLING, BufferInput.LAST): BufferTransition(BufferEffect.DELIVER, BufferState.NOTHING),
    (BufferState.FILLING, BufferInput.FIRST_AGAIN): BufferTransition(BufferEffect.RESTART, BufferState.FILLING),
    (BufferState.FILLING, BufferInput.REPEATED): BufferTransition(BufferEffect.LAY_BY, BufferState.FILLING),
    (BufferState.FILLING, BufferInput.BEYOND): BufferTransition(BufferEffect.DROP, BufferState.NOTHING),
    (BufferState.FILLING, BufferInput.CROWDED_OUT): BufferTransition(BufferEffect.DISCARD, BufferState.NOTHING),
    (BufferState.FILLING, BufferInput.EXPIRED): BufferTransition(BufferEffect.GIVE_UP, BufferState.NOTHING),
}
"""The life of a buffer."""


class Buffer(Struct, frozen=True, gc=False):
    """The entries of a message: its chunks from the first on, and repeated ones."""

    uuid: str
    positions: tuple[int, ...]
    repeated: tuple[int, ...] = ()

    @property
    def entries(self) -> tuple[int, ...]:
        return (*self.positions, *self.repeated)


Whole = Buffer
"""A complete message: all its chunks, and the entries that are acknowledged with them."""


class Buffers(Struct, frozen=True, gc=False):
    """A consumer's buffers, the oldest first, and the entries that wait for redelivery.

    ``limit``: the pending limit, 0 for none. ``acks_discarded``: entries of a buffer that is discarded at the limit are
    acknowledged.
    """

    limit: int = 0
    acks_discarded: bool = False
    kept: tuple[Buffer, ...] = ()
    awaiting_redelivery: frozenset[int] = frozenset()

    def of(self, uuid: str) -> Buffer | None:
        return next((buffer for buffer in self.kept if buffer.uuid == uuid), None)


class Arrival(Struct, frozen=True, gc=False):
    """The result of a chunk: the effect, the message that it completes, and entries acknowledged without a message."""

    effect: BufferEffect
    whole: Whole | None = None
    acknowledged: tuple[int, ...] = ()
    crowded_out: tuple[Buffer, ...] = ()


def transition(buffer: Buffer | None, happens: BufferInput) -> BufferTransition:
    """The transition of a buffer (None: no buffer); ValueError for an input that cannot happen."""
    state = BufferState.NOTHING if buffer is None else BufferState.FILLING
    found = TABLE.get((state, happens))
    if found is None:
        raise ValueError(f"it cannot be that {happens.value}: {state.value}")
    return found


def input_of(buffer: Buffer | None, chunk: Chunk) -> BufferInput:
    there = 0 if buffer is None else len(buffer.positions)
    if chunk.chunk_id == 0:
        return BufferInput.FIRST_AGAIN if there else BufferInput.FIRST
    if buffer is None or chunk.chunk_id > there:
        return BufferInput.BEYOND
    if chunk.chunk_id < there:
        return BufferInput.REPEATED
    return BufferInput.LAST if chunk.is_last else BufferInput.NEXT


@carries("CHUNK-04", "CHUNK-06", "CHUNK-09")
def arrive(
    buffers: Buffers, chunk: Chunk, position: int, *, variant: ChunksVariant = DOCUMENT
) -> tuple[Buffers, Arrival]:
    """A chunk of a message arrives from this entry (CHUNK-04).

    It affects only the buffer of its own message (CHUNK-06), so an incomplete message blocks no other (CHUNK-09).
    """
    uuid = "any" if variant.one_buffer else chunk.uuid
    buffer = buffers.of(uuid)
    happens = input_of(buffer, chunk)
    if variant.last_delivers and happens is BufferInput.BEYOND and chunk.is_last:
        whole = Whole(uuid, (*(buffer.positions if buffer else ()), position))
        return _with(buffers, uuid, None), Arrival(BufferEffect.DELIVER, whole)
    if variant.repeated_discards_buffer and happens in (BufferInput.FIRST_AGAIN, BufferInput.REPEATED):
        happens = BufferInput.BEYOND
    effect = transition(buffer, happens).effect
    match effect:
        case BufferEffect.OPEN:
            return _open(buffers, Buffer(uuid, (position,)), variant)
        case BufferEffect.RESTART:
            assert buffer is not None
            repeated = tuple(sorted({*buffer.entries} - {position}))
            return _with(buffers, uuid, Buffer(uuid, (position,), repeated)), Arrival(effect)
        case BufferEffect.APPEND:
            assert buffer is not None
            return _with(buffers, uuid, _longer(buffer, position)), Arrival(effect)
        case BufferEffect.DELIVER:
            assert buffer is not None
            return _with(buffers, uuid, None), Arrival(effect, _longer(buffer, position))
        case BufferEffect.LAY_BY:
            assert buffer is not None
            repeated = tuple(sorted({*buffer.repeated, position} - set(buffer.positions)))
            return _with(buffers, uuid, replace(buffer, repeated=repeated)), Arrival(effect)
        case _:
            entries = (position, *(buffer.entries if buffer else ()))
            return _with(_to_redeliver(buffers, entries, variant), uuid, None), Arrival(effect)


def _longer(buffer: Buffer, position: int) -> Buffer:
    """The buffer with one more chunk, whose entry is then no longer a repeated one."""
    positions = (*buffer.positions, position)
    return Buffer(buffer.uuid, positions, tuple(entry for entry in buffer.repeated if entry not in positions))


@carries("CHUNK-08")
def _open(buffers: Buffers, buffer: Buffer, variant: ChunksVariant) -> tuple[Buffers, Arrival]:
    """Opens a buffer. At the pending limit the oldest one is discarded."""
    too_many = bool(buffers.limit) and len(buffers.kept) >= buffers.limit and not variant.limit_ignored
    if not too_many:
        return replace(buffers, kept=(*buffers.kept, buffer)), Arrival(BufferEffect.OPEN)
    oldest = buffers.kept[-1 if variant.newest_discarded else 0]
    transition(oldest, BufferInput.CROWDED_OUT)
    after = _with(buffers, oldest.uuid, None)
    after = replace(after, kept=(*after.kept, buffer))
    if buffers.acks_discarded:
        return after, Arrival(BufferEffect.OPEN, None, oldest.entries, (oldest,))
    return _to_redeliver(after, oldest.entries, variant), Arrival(BufferEffect.OPEN, None, (), (oldest,))


@carries("CHUNK-08")
def expire(buffers: Buffers) -> tuple[Buffers, tuple[int, ...]]:
    """The oldest buffer expires, which acknowledges its entries. ValueError if there is none."""
    if not buffers.kept:
        raise ValueError("there is no buffer that could expire")
    oldest = buffers.kept[0]
    transition(oldest, BufferInput.EXPIRED)
    return _with(buffers, oldest.uuid, None), oldest.entries


@carries("CHUNK-07")
def acknowledged_with(whole: Whole, *, variant: ChunksVariant = DOCUMENT) -> tuple[int, ...]:
    """The entries that an ack of the message acknowledges (CHUNK-07)."""
    if variant.last_acknowledged:
        return whole.positions[-1:]
    if variant.cumulative:
        return tuple(range(whole.positions[-1] + 1))
    return whole.positions if variant.duplicates_not_acked else whole.entries


def forget(buffers: Buffers, acknowledged: frozenset[int]) -> Buffers:
    """Removes buffers with an acknowledged entry: the rest of such a message never arrives."""
    kept = tuple(buffer for buffer in buffers.kept if acknowledged.isdisjoint(buffer.positions))
    return replace(buffers, kept=kept, awaiting_redelivery=buffers.awaiting_redelivery - acknowledged)


def _with(buffers: Buffers, uuid: str, buffer: Buffer | None) -> Buffers:
    """Replaces the buffer of this uuid, or removes it (None)."""
    kept = (buffer if one.uuid == uuid else one for one in buffers.kept)
    return replace(buffers, kept=tuple(one for one in kept if one is not None))


def _to_redeliver(buffers: Buffers, entries: tuple[int, ...], variant: ChunksVariant) -> Buffers:
    is_forgotten = variant.discarded_not_redelivered or variant.repeated_discards_buffer
    return buffers if is_forgotten else replace(buffers, awaiting_redelivery=buffers.awaiting_redelivery | set(entries))
