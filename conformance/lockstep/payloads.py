"""What the messages of examples carry: their business id, and spaces after it where they are to be larger."""

from __future__ import annotations

from model.vocabulary import Message


def payload_of(message: Message) -> bytes:
    """The payload that is sent for a message."""
    return message.business_id.encode().ljust(message.size_bytes)


def business_id_of(payload: bytes) -> str:
    """The business id in the payload of a message."""
    return payload.decode(errors="replace").rstrip()
