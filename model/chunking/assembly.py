"""How a consumer puts messages together (document 002): the life of a buffer as a table, and a consumer's buffers.

Chunks arrive in the order of the log, and again when something is redelivered. There is one buffer for each message of
which some chunks are there and others are not (CHUNK-06). ``TABLE`` is all that can happen to one.

The document says what happens when all goes well, and what happens past the limit. The rest is settled here, so that
its promises hold:

- A first chunk that comes again begins the message anew: its producer died and sends it again, or it is redelivered.
- A chunk that comes again from another entry is laid by, and acknowledged together with the message (CHUNK-07).
- A chunk whose predecessors are not there is not acknowledged; it is *set aside*, to come again.
- When everything is asked for again, it is put together anew: else a chunk that was left over from an earlier attempt
  could complete a later one.
- A buffer that waits for too long is acknowledged: only then, and past the limit where so configured, is something
  lost (CHUNK-08).

Not here: time, permits, and who sends what (:mod:`model.chunking.shared`).
"""

from __future__ import annotations

import enum

from msgspec import Struct
from msgspec.structs import replace

from model.chunking.splitting import Chunk
from model.chunking.variants import DOCUMENT, ChunksVariant
from model.rules.catalogue import carries


class State(enum.Enum):
    """What a consumer has of a message."""

    NOTHING = "nothing of it is kept"
    FILLING = "its first chunks are kept"


class Input(enum.Enum):
    """What happens to it."""

    FIRST = "its first chunk arrives"
    NEXT = "the next chunk arrives, and more are to come"
    LAST = "the next chunk arrives, and it is the last one"
    FIRST_AGAIN = "its first chunk arrives again"
    REPEATED = "a chunk that is kept already arrives again"
    BEYOND = "a chunk arrives whose predecessors are not there"
    CROWDED_OUT = "one buffer more is needed than allowed, and this is the oldest"
    EXPIRED = "it has been waited for too long"


class Effect(enum.Enum):
    """What comes of it."""

    OPEN = "a buffer is opened"
    APPEND = "it is kept"
    DELIVER = "the message is whole, and delivered"
    RESTART = "what was kept is laid by, and it begins anew"
    LAY_BY = "the entry is laid by, to be acknowledged with the message"
    SET_ASIDE = "the entry is set aside, to come again"
    DROP = "all of it is set aside, to come again"
    DISCARD = "what was kept is set aside, to come again, or acknowledged, as configured"
    GIVE_UP = "what was kept is acknowledged, and lost"


class Transition(Struct, frozen=True):
    """What comes of an input, and the state after it."""

    effect: Effect
    after: State


TABLE: dict[tuple[State, Input], Transition] = {
    (State.NOTHING, Input.FIRST): Transition(Effect.OPEN, State.FILLING),
    (State.NOTHING, Input.BEYOND): Transition(Effect.SET_ASIDE, State.NOTHING),
    (State.FILLING, Input.NEXT): Transition(Effect.APPEND, State.FILLING),
    (State.FILLING, Input.LAST): Transition(Effect.DELIVER, State.NOTHING),
    (State.FILLING, Input.FIRST_AGAIN): Transition(Effect.RESTART, State.FILLING),
    (State.FILLING, Input.REPEATED): Transition(Effect.LAY_BY, State.FILLING),
    (State.FILLING, Input.BEYOND): Transition(Effect.DROP, State.NOTHING),
    (State.FILLING, Input.CROWDED_OUT): Transition(Effect.DISCARD, State.NOTHING),
    (State.FILLING, Input.EXPIRED): Transition(Effect.GIVE_UP, State.NOTHING),
}
"""The life of a buffer. Where nothing is kept, nothing can come again, be crowded out or expire."""


class Buffer(Struct, frozen=True, gc=False):
    """What is kept of a message: the entries of its chunks from the first on, and those that were laid by."""

    uuid: str
    positions: tuple[int, ...]
    laid_by: tuple[int, ...] = ()

    @property
    def entries(self) -> tuple[int, ...]:
        """All its entries."""
        return (*self.positions, *self.laid_by)


Whole = Buffer
"""A message that is whole: all its chunks, and what is acknowledged with them."""


class Buffers(Struct, frozen=True, gc=False):
    """A consumer's buffers, the oldest first, and the entries that were set aside.

    ``limit``: how many there may be, 0 for any number. ``acks_discarded``: what is crowded out is acknowledged.
    """

    limit: int = 0
    acks_discarded: bool = False
    kept: tuple[Buffer, ...] = ()
    aside: frozenset[int] = frozenset()

    def of(self, uuid: str) -> Buffer | None:
        """What is kept of this message, if anything is."""
        return next((buffer for buffer in self.kept if buffer.uuid == uuid), None)


class Arrival(Struct, frozen=True, gc=False):
    """What came of a chunk: the effect, the message that is whole with it, and what is acknowledged without one."""

    effect: Effect
    whole: Whole | None = None
    acknowledged: tuple[int, ...] = ()
    crowded_out: tuple[Buffer, ...] = ()


def transition(buffer: Buffer | None, happens: Input) -> Transition:
    """What the table has for a buffer (None: nothing is kept); ValueError for what cannot happen."""
    state = State.NOTHING if buffer is None else State.FILLING
    found = TABLE.get((state, happens))
    if found is None:
        raise ValueError(f"it cannot be that {happens.value}: {state.value}")
    return found


def input_of(buffer: Buffer | None, chunk: Chunk) -> Input:
    """What a chunk is to the buffer of its message."""
    there = 0 if buffer is None else len(buffer.positions)
    if chunk.chunk_id == 0:
        return Input.FIRST_AGAIN if there else Input.FIRST
    if buffer is None or chunk.chunk_id > there:
        return Input.BEYOND
    if chunk.chunk_id < there:
        return Input.REPEATED
    return Input.LAST if chunk.is_last else Input.NEXT


@carries("CHUNK-04", "CHUNK-06", "CHUNK-09")
def arrive(
    buffers: Buffers, chunk: Chunk, position: int, *, variant: ChunksVariant = DOCUMENT
) -> tuple[Buffers, Arrival]:
    """A chunk of a message arrives from this entry; the answer has what came of it (CHUNK-04).

    Only the buffer of its own message is asked (CHUNK-06): one that will never be whole holds up nothing (CHUNK-09).
    """
    uuid = "any" if variant.one_buffer else chunk.uuid
    buffer = buffers.of(uuid)
    happens = input_of(buffer, chunk)
    if variant.last_delivers and happens is Input.BEYOND and chunk.is_last:
        whole = Whole(uuid, (*(buffer.positions if buffer else ()), position))
        return _with(buffers, uuid, None), Arrival(Effect.DELIVER, whole)
    if variant.repeated_discards_buffer and happens in (Input.FIRST_AGAIN, Input.REPEATED):
        happens = Input.BEYOND
    effect = transition(buffer, happens).effect
    match effect:
        case Effect.OPEN:
            return _open(buffers, Buffer(uuid, (position,)), variant)
        case Effect.RESTART:
            assert buffer is not None
            laid_by = tuple(sorted({*buffer.entries} - {position}))
            return _with(buffers, uuid, Buffer(uuid, (position,), laid_by)), Arrival(effect)
        case Effect.APPEND:
            assert buffer is not None
            return _with(buffers, uuid, _longer(buffer, position)), Arrival(effect)
        case Effect.DELIVER:
            assert buffer is not None
            return _with(buffers, uuid, None), Arrival(effect, _longer(buffer, position))
        case Effect.LAY_BY:
            assert buffer is not None
            laid_by = tuple(sorted({*buffer.laid_by, position} - set(buffer.positions)))
            return _with(buffers, uuid, replace(buffer, laid_by=laid_by)), Arrival(effect)
        case _:
            entries = (position, *(buffer.entries if buffer else ()))
            return _with(_set_aside(buffers, entries, variant), uuid, None), Arrival(effect)


def _longer(buffer: Buffer, position: int) -> Buffer:
    """With one chunk more; what was laid by of the same entries is not laid by any longer."""
    positions = (*buffer.positions, position)
    return Buffer(buffer.uuid, positions, tuple(entry for entry in buffer.laid_by if entry not in positions))


@carries("CHUNK-08")
def _open(buffers: Buffers, buffer: Buffer, variant: ChunksVariant) -> tuple[Buffers, Arrival]:
    """Open one buffer more; past the limit the oldest one is discarded."""
    too_many = bool(buffers.limit) and len(buffers.kept) >= buffers.limit and not variant.limit_ignored
    if not too_many:
        return replace(buffers, kept=(*buffers.kept, buffer)), Arrival(Effect.OPEN)
    oldest = buffers.kept[-1 if variant.newest_discarded else 0]
    transition(oldest, Input.CROWDED_OUT)
    after = _with(buffers, oldest.uuid, None)
    after = replace(after, kept=(*after.kept, buffer))
    if buffers.acks_discarded:
        return after, Arrival(Effect.OPEN, None, oldest.entries, (oldest,))
    return _set_aside(after, oldest.entries, variant), Arrival(Effect.OPEN, None, (), (oldest,))


@carries("CHUNK-08")
def expire(buffers: Buffers) -> tuple[Buffers, tuple[int, ...]]:
    """The oldest buffer has been waited for too long: the entries that are acknowledged. ValueError where none is."""
    if not buffers.kept:
        raise ValueError("nothing is kept that could expire")
    oldest = buffers.kept[0]
    transition(oldest, Input.EXPIRED)
    return _with(buffers, oldest.uuid, None), oldest.entries


@carries("CHUNK-07")
def acknowledged_with(whole: Whole, *, variant: ChunksVariant = DOCUMENT) -> tuple[int, ...]:
    """The entries that are acknowledged when the application acknowledges the message (CHUNK-07)."""
    if variant.last_acknowledged:
        return whole.positions[-1:]
    if variant.cumulative:
        return tuple(range(whole.positions[-1] + 1))
    return whole.positions if variant.duplicates_not_acked else whole.entries


def forget(buffers: Buffers, acknowledged: frozenset[int]) -> Buffers:
    """Without buffers of which something is acknowledged: the rest of such a message never comes."""
    kept = tuple(buffer for buffer in buffers.kept if acknowledged.isdisjoint(buffer.positions))
    return replace(buffers, kept=kept, aside=buffers.aside - acknowledged)


def _with(buffers: Buffers, uuid: str, buffer: Buffer | None) -> Buffers:
    """With this buffer in its place, or, with None, without the one of this uuid."""
    kept = (buffer if one.uuid == uuid else one for one in buffers.kept)
    return replace(buffers, kept=tuple(one for one in kept if one is not None))


def _set_aside(buffers: Buffers, entries: tuple[int, ...], variant: ChunksVariant) -> Buffers:
    is_forgotten = variant.discarded_not_redelivered or variant.repeated_discards_buffer
    return buffers if is_forgotten else replace(buffers, aside=buffers.aside | set(entries))
