"""The bytes of payloads, which follow from their names, and the digests by which they are compared.

A history names payloads and never holds them, and digests are reckoned block by block: a payload of 100 MB needs
no memory here. Nothing is random: the same name gives the same bytes everywhere.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from model.vocabulary import ChunkNumber, Entry, Message

BLOCK_BYTES = 1 << 16
"""How much of a payload is made at a time."""
REPEATED_BYTES = 64
"""What a compressible payload repeats."""
CHUNK_BYTES = 8
"""The length of each chunk that the wire client makes, unless its business id is longer."""
LIMIT_BYTES = 10240
"""The ``maxMessageSize`` that pulsar-client sees where it splits messages."""
STAMP_BYTES = 32
"""The length of each stamp in a payload that pulsar-client splits."""
_STAMP = re.compile(rb"<([^<>:]+):([0-9]{4})>")
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


def payload_of(message: Message) -> bytes:
    """The payload of a message, or of the one chunk of it."""
    if message.chunk is not None and message.chunk.uuid is not None:
        return message.business_id.encode().ljust(CHUNK_BYTES)
    if message.chunk is not None:
        return hashlib.shake_256(f"{message.business_id}/{message.chunk.chunk_id}".encode()).digest(CHUNK_BYTES)
    if message.content == "text":
        return message.business_id.encode().ljust(message.size_bytes)
    return b"".join(_blocks_of(message))


def digest(*parts: bytes) -> str:
    """The digest of bytes, in one part or many: that of the proxy."""
    whole = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for part in parts:
        whole.update(part)
    return whole.hexdigest()


def digest_of(message: Message) -> str:
    """The digest of a message's whole payload, of whose chunks this may be one."""
    if message.chunk is None:
        return digest(payload_of(message)) if message.content == "text" else digest(*_blocks_of(message))
    chunks = message.chunk.chunks
    return digest(*(payload_of(replace(message, chunk=ChunkNumber(n, chunks))) for n in range(chunks)))


def _blocks_of(message: Message) -> Iterator[bytes]:
    return blocks(message.business_id, message.size_bytes, is_compressible=message.content == "pattern")


def business_id_of(payload: bytes) -> str:
    """The business id in a payload of text, or in a chunk that pulsar-client made of one."""
    stamp = _STAMP.search(payload, 0, 2 * STAMP_BYTES)
    if stamp is None:
        return payload.decode(errors="replace").rstrip()
    start = int(stamp[2]) * STAMP_BYTES - stamp.start()
    return chunk_name(stamp[1].decode(), math.ceil(start / LIMIT_BYTES))


def chunk_name(message: str, chunk_id: int) -> str:
    """The business id of a chunk of a message that pulsar-client splits."""
    return f"{message}.{chunk_id}"


def is_whole(entries: Sequence[Entry]) -> bool:
    """Whether these are all chunks of one message that pulsar-client may split, in their order."""
    name, _, _ = entries[0].messages[0].business_id.rpartition(".")
    wanted = [(chunk_name(name, number), (number, len(entries))) for number in range(len(entries))]
    chunks = [(one.business_id, one.chunk) for entry in entries for one in entry.messages]
    return wanted == [(name, chunk and (chunk.chunk_id, chunk.chunks)) for name, chunk in chunks]


def payload_of_chunks(entries: Sequence[Entry]) -> bytes:
    """The payload that pulsar-client splits into these chunks, all those of one message.

    It is stamped throughout: each chunk shows where in the payload it begins, wherever exactly that is.
    """
    name, _, _ = entries[0].messages[0].business_id.rpartition(".")
    size_bytes = len(entries) * LIMIT_BYTES - LIMIT_BYTES // 2
    stamps = (f"<{name}:{number:04d}>".encode().ljust(STAMP_BYTES) for number in range(size_bytes // STAMP_BYTES))
    return b"".join(stamps)
