"""Reads the messages of an entry, for clients and for the proxy."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Final

from conformance.clients import protocol_pb2 as pb
from conformance.clients.wire.frames import MalformedFrame, decode_batch
from conformance.harness_error import HarnessError

_CODECS: Final = {pb.LZ4: "lz4_raw", pb.ZSTD: "zstd", pb.SNAPPY: "snappy"}
"""pyarrow's names of the codecs; zlib is Python's own."""

LARGEST_BYTES: Final = 128 * 1024 * 1024
"""The largest size of an uncompressed batch that is read."""

Parts = Sequence[tuple[int, pb.SingleMessageMetadata | None, bytes | memoryview]]
"""Batch index, metadata and payload of each message; a single one has index -1 and only the entry's metadata."""


def parts_of(metadata: pb.MessageMetadata, payload: bytes | memoryview) -> Parts:
    """The messages of an entry; a single message is returned as it is stored, compressed or not.

    Raises :class:`MalformedFrame` for an invalid batch, and :class:`HarnessError` for one that cannot be read: it is
    encrypted, or pyarrow is not installed, which decompresses it.
    """
    if not metadata.HasField("num_messages_in_batch"):
        return [(-1, None, payload)]
    if metadata.HasField("encryption_param"):
        raise HarnessError("an encrypted batch cannot be read")
    batch = decode_batch(_uncompressed(metadata, payload), metadata.num_messages_in_batch)
    return [(index, single, part) for index, (single, part) in enumerate(batch)]


def key_of(source: pb.MessageMetadata | pb.SingleMessageMetadata) -> str | None:
    """The key for Key_Shared as text: the ordering key, else the partition key; None without both."""
    if source.ordering_key:
        return source.ordering_key.decode(errors="backslashreplace")
    return source.partition_key if source.HasField("partition_key") else None


def is_left(index: int, ack_set: Sequence[int]) -> bool:
    """Whether a message of a batch is not acknowledged, by an ack set: words of 64 bits, or nothing for all of it."""
    if not ack_set:
        return True
    word, bit = divmod(index, 64)
    return word < len(ack_set) and bool(ack_set[word] >> bit & 1)


def _uncompressed(metadata: pb.MessageMetadata, payload: bytes | memoryview) -> bytes:
    if metadata.compression == pb.NONE:
        return bytes(payload)
    size_bytes = metadata.uncompressed_size
    if size_bytes > LARGEST_BYTES:
        raise MalformedFrame(f"a batch says that it has {size_bytes} bytes")
    try:
        if metadata.compression == pb.ZLIB:
            return zlib.decompressobj().decompress(payload, size_bytes)
        import pyarrow  # an extra, which only the reading of compressed batches needs

        codec = _CODECS.get(metadata.compression)
        if codec is None:
            raise MalformedFrame(f"a batch is compressed in an unknown way: {metadata.compression}")
        return bytes(pyarrow.Codec(codec).decompress(payload, size_bytes, asbytes=True))
    except ImportError:
        raise HarnessError("a compressed batch cannot be read: pyarrow is not installed") from None
    except (zlib.error, OSError, ValueError) as error:
        raise MalformedFrame(f"a compressed batch is damaged: {error}") from None
