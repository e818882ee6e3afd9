"""The bytes of payloads, which follow from their names, and the digests by which they are compared.

A history names payloads and never holds them, and digests are reckoned block by block: a payload of 100 MB needs
no memory here. Nothing is random: the same name gives the same bytes everywhere.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from model.chunking.vocabulary import PART_BYTES, Crafted, Payload

BLOCK_BYTES = 1 << 16
"""How much of a payload is made at a time."""
REPEATED_BYTES = 64
"""What a compressible payload repeats."""
_DIGEST_BYTES = 8


def blocks(name: str, size_bytes: int, *, is_compressible: bool = False) -> Iterator[bytes]:
    """The bytes of a payload, block by block."""
    for number, start in enumerate(range(0, size_bytes, BLOCK_BYTES)):
        length = min(BLOCK_BYTES, size_bytes - start)
        if is_compressible:
            pattern = hashlib.shake_256(name.encode()).digest(REPEATED_BYTES)
            yield (pattern * (BLOCK_BYTES // REPEATED_BYTES))[:length]
        else:
            yield hashlib.shake_256(f"{name}/{number}".encode()).digest(length)


def payload_of(payload: Payload) -> bytes:
    """All bytes of a payload."""
    return b"".join(blocks(payload.name, payload.size_bytes, is_compressible=payload.is_compressible))


def part_of(crafted: Crafted) -> bytes:
    """The bytes of a crafted chunk."""
    return hashlib.shake_256(f"{_named(crafted)}/{crafted.chunk_id}".encode()).digest(PART_BYTES)


def digest(*parts: bytes) -> str:
    """The digest of bytes, in one part or many: that of the proxy."""
    whole = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for part in parts:
        whole.update(part)
    return whole.hexdigest()


def digest_of(payload: Payload) -> str:
    """The digest of a payload."""
    return digest(*blocks(payload.name, payload.size_bytes, is_compressible=payload.is_compressible))


def digest_of_crafted(crafted: Crafted) -> str:
    """The digest of the message that a crafted chunk is part of."""
    parts = (Crafted(crafted.sequence_id, crafted.uuid, n, crafted.chunks) for n in range(crafted.chunks))
    return digest(*(part_of(part) for part in parts))


def _named(crafted: Crafted) -> str:
    return crafted.uuid or str(crafted.sequence_id)
