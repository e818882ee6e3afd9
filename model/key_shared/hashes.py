"""The sticky key hash of a message, with or without a key, and keys with a common hash.

A Key_Shared subscription distinguishes hashes only, not keys. Tests need two keys of one hash and find them by search.
:mod:`model.key_shared.selectors` assigns hashes to consumers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count, islice

import mmh3

from model.rules.catalogue import carries
from model.vocabulary import HashRange

NOT_SET = 0
"""No message has this hash: brokers use it for an unknown hash."""

_31_BITS = 0x7FFFFFFF


AUTO_SPLIT_HASHES = HashRange(1, 65535)
"""The hashes that are split among consumers (KEY-12)."""

STICKY_HASHES = HashRange(0, 65535)
"""The hashes that STICKY consumers claim. Claims may include 0, which is the hash of no key."""

CLASSIC_HASHES = HashRange(1, 0x7FFFFFFE)
"""The hashes that the classic implementation of 4.0 splits."""

HASHES_OF_3_3 = HashRange(0, 0x7FFFFFFE)
"""The hashes that 3.3.6 splits: all but the last one, which it treats like 1."""


@carries("KEY-12")
def sticky_hash(key: bytes, within: HashRange = AUTO_SPLIT_HASHES) -> int:
    """The hash of a key, one of those in ``within``, and never 0 (KEY-12)."""
    return (mmh3.hash(key, signed=False) & _31_BITS) % len(within) + within.first or NOT_SET + 1


def key_of_message(
    *, key: bytes | None = None, ordering_key: bytes | None = None, producer: str = "", sequence_id: int = 0
) -> bytes:
    """The bytes that are hashed: the ordering key, or the key, or producer and sequence id.

    4.0.8 hashes a message without any key by its producer and sequence id, to spread such messages. 3.3.6 hashes all of
    them by :data:`NO_KEY`.
    """
    if ordering_key is not None:
        return ordering_key
    return f"{producer}-{sequence_id}".encode() if key is None else key


NO_KEY = b"NONE_KEY"
"""The key by which 3.3.6 hashes every message without a key."""


def keys_of(hashes: HashRange, *, prefix: str = "k", within: HashRange = AUTO_SPLIT_HASHES) -> Iterator[str]:
    """All keys of ``prefix`` and a number whose hashes are among these, in the order of the numbers."""
    return (key for key in map(f"{prefix}{{}}".format, count()) if sticky_hash(key.encode(), within) in hashes)


def keys_that_share_a_hash(number: int, *, prefix: str = "k", within: HashRange = AUTO_SPLIT_HASHES) -> tuple[str, ...]:
    """The first ``number`` keys, of ``prefix`` and a number each, that share a hash.

    Two are found among a few hundred keys. Each further one costs many times more.
    """
    found: dict[int, list[str]] = {}
    for key in map(f"{prefix}{{}}".format, count()):
        alike = found.setdefault(sticky_hash(key.encode(), within), [])
        alike.append(key)
        if len(alike) == number:
            return tuple(alike)
    raise AssertionError("there is no end to keys")


def keys_with_hashes_apart(
    number: int, *, avoid: Iterable[int] = (), prefix: str = "k", within: HashRange = AUTO_SPLIT_HASHES
) -> tuple[str, ...]:
    """The first ``number`` keys, of ``prefix`` and a number each, with distinct hashes that are not in ``avoid``."""

    def unlike() -> Iterator[str]:
        seen = set(avoid)
        for key in map(f"{prefix}{{}}".format, count()):
            hashed = sticky_hash(key.encode(), within)
            if hashed not in seen:
                seen.add(hashed)
                yield key

    return tuple(islice(unlike(), number))
