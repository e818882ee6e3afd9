"""Payloads that follow from the message, so that a consumer can check that one is whole."""

from __future__ import annotations

import hashlib

_HEADER_ENDS = b"|"


def payload_of(producer: str, sequence_id: int, size_bytes: int) -> bytes:
    """The payload of one message: always the same, at least ``size_bytes`` long."""
    header = f"{producer}/{sequence_id}/{size_bytes}".encode() + _HEADER_ENDS
    filler = hashlib.sha256(header).hexdigest().encode()
    return header + (filler * (size_bytes // len(filler) + 1))[: max(0, size_bytes - len(header))]


def is_whole(payload: bytes) -> bool:
    """Whether it is what :func:`payload_of` made."""
    header, ends, _ = payload.partition(_HEADER_ENDS)
    try:
        producer, sequence_id, size_bytes = header.decode().rsplit("/", 2)
        return bool(ends) and payload == payload_of(producer, int(sequence_id), int(size_bytes))
    except ValueError:
        return False
