"""How a message becomes chunks (document 002): the room that is left by the limit, the parts, what each part carries.

Only sizes are reckoned with: a payload of 100 MB needs no memory here. Sizes are those on the wire, after compression.

The document says "if message payload size is larger than broker can support". What counts against the broker's limit
besides the payload is the message's metadata before it is split, in bytes: :func:`room`. What chunks carry on top of
that does not count, so that an entry may be somewhat larger than the limit.
"""

from __future__ import annotations

from msgspec import Struct

from model.rules.catalogue import carries


class TooLarge(ValueError):
    """A payload over the limit, of a producer that does not split."""


class Chunk(Struct, frozen=True, gc=False):
    """One chunk: what it carries, and which bytes of the payload it has (from ``start``, before ``end``).

    A message that is not split is one chunk without a uuid.
    """

    uuid: str
    sequence_id: int
    chunk_id: int
    chunks: int
    total_bytes: int
    start: int
    end: int

    @property
    def is_last(self) -> bool:
        """Whether no more are to come."""
        return self.chunk_id == self.chunks - 1

    @property
    def is_split(self) -> bool:
        """Whether it is a part of a message, and not the whole of it."""
        return self.chunks > 1


@carries("CHUNK-01")
def room(*, limit_bytes: int, metadata_bytes: int) -> int:
    """How many bytes of payload an entry has room for: what the metadata leaves of the limit. ValueError for none."""
    if metadata_bytes >= limit_bytes:
        raise ValueError(f"{metadata_bytes} bytes of metadata leave no room for a payload within {limit_bytes}")
    return limit_bytes - metadata_bytes


@carries("CHUNK-01", "CHUNK-02")
def split(
    *, uuid: str, sequence_id: int, payload_bytes: int, room_bytes: int, is_chunking: bool = True
) -> tuple[Chunk, ...]:
    """The chunks of a payload, in their order; one that has no uuid when it fits, however exactly.

    All but the last are as large as can be. Raises :class:`TooLarge` for one that does not fit and may not be split.
    """
    if payload_bytes <= room_bytes:
        return (Chunk("", sequence_id, 0, 1, payload_bytes, 0, payload_bytes),)
    if not is_chunking:
        raise TooLarge(f"a payload of {payload_bytes} bytes does not fit into {room_bytes}, and is not to be split")
    starts = range(0, payload_bytes, room_bytes)
    return tuple(
        Chunk(uuid, sequence_id, chunk_id, len(starts), payload_bytes, start, min(start + room_bytes, payload_bytes))
        for chunk_id, start in enumerate(starts)
    )
