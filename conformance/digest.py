"""The digest of a payload, which histories have instead of the payload."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from hashlib import blake2b

SIZE_BYTES: Final = 8


def hasher() -> blake2b:
    """A hash of a payload that is passed in parts."""
    return hashlib.blake2b(digest_size=SIZE_BYTES)


def number_of(hashed: blake2b) -> int:
    """The first 8 bytes of the BLAKE2b hash, as a signed number."""
    return int.from_bytes(hashed.digest(), "big", signed=True)


def digest(payload: bytes | memoryview) -> int:
    """The digest of a whole payload."""
    return number_of(hashlib.blake2b(payload, digest_size=SIZE_BYTES))
