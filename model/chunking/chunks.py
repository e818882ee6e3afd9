"""How a message is split into chunks (document 002): the room for payload, the chunks, and their metadata.

Only sizes are modelled, so a payload of 100 MB needs no memory. Sizes are those on the wire, after compression.

The document says "if message payload size is larger than broker can support". The payload and the message's metadata
before the split count against the broker's limit (:func:`room`). The additional metadata of chunks does not count, so
an entry may be slightly larger than the limit.
"""

from __future__ import annotations

from msgspec import Struct

from model.rules.catalogue import carries


class TooLarge(ValueError):
    """A payload above the limit, of a producer without chunking."""


class Chunk(Struct, frozen=True, gc=False):
    """One chunk: its metadata, and its bytes of the payload (from ``start``, before ``end``).

    An unsplit message is one chunk without a uuid.
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
        return self.chunk_id == self.chunks - 1

    @property
    def is_split(self) -> bool:
        """Whether it is only a part of a message."""
        return self.chunks > 1


@carries("CHUNK-01")
def room(*, limit_bytes: int, metadata_bytes: int) -> int:
    """The bytes of payload in an entry: the limit minus the metadata. ValueError if there are none."""
    if metadata_bytes >= limit_bytes:
        raise ValueError(f"{metadata_bytes} bytes of metadata leave no room for a payload within {limit_bytes}")
    return limit_bytes - metadata_bytes


@carries("CHUNK-01", "CHUNK-02")
def split(
    *, uuid: str, sequence_id: int, payload_bytes: int, room_bytes: int, is_chunking: bool = True
) -> tuple[Chunk, ...]:
    """The chunks of a payload, in order; one without a uuid if it fits exactly or with room to spare.

    All but the last have the maximum size. Raises :class:`TooLarge` for one that does not fit and may not be split.
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
