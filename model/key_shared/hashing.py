"""From a message's key to its hash: which keys share one, and what a message without a key has for one.

A Key_Shared subscription knows keys by their hashes only. Two keys of one hash are one key to it, and tests need such
keys; they are found by search. Which consumer has which hashes is for :mod:`model.key_shared.selectors` to say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count, islice

from model.rules.catalogue import carries
from model.vocabulary import HashRange

NOT_SET = 0
"""No message has this hash: brokers have it stand for a hash that is not known."""

_32_BITS = 0xFFFFFFFF
_31_BITS = 0x7FFFFFFF


AUTO_SPLIT_HASHES = HashRange(1, 65535)
"""The hashes that are split among consumers (KEY-12)."""

STICKY_HASHES = HashRange(0, 65535)
"""The hashes that consumers with ranges of their own choose from. Ranges may include 0; no key has it."""

CLASSIC_HASHES = HashRange(1, 0x7FFFFFFE)
"""The hashes that the classic implementation of 4.0 splits."""

HASHES_OF_3_3 = HashRange(0, 0x7FFFFFFE)
"""The hashes that 3.3.6 splits: all that there are but the last one, which goes where 1 goes."""


@carries("KEY-12")
def sticky_hash(key: bytes, within: HashRange = AUTO_SPLIT_HASHES) -> int:
    """The hash of a key, one of those in ``within``, and never 0 (KEY-12)."""
    return (murmur3_32(key) & _31_BITS) % len(within) + within.first or NOT_SET + 1


def key_of_message(
    *, key: bytes | None = None, ordering_key: bytes | None = None, producer: str = "", sequence_id: int = 0
) -> bytes:
    """What a message is hashed by: its ordering key, else its key, else what no other message has.

    A message without any key is hashed by its producer and its sequence id, so that such messages spread (4.0.8). 3.3.6
    hashes all of them by :data:`NO_KEY`.
    """
    if ordering_key is not None:
        return ordering_key
    return f"{producer}-{sequence_id}".encode() if key is None else key


NO_KEY = b"NONE_KEY"
"""What 3.3.6 hashes every message without a key by."""


def keys_of(hashes: HashRange, *, prefix: str = "k", within: HashRange = AUTO_SPLIT_HASHES) -> Iterator[str]:
    """Keys whose hashes are among these, without end: ``prefix`` and a number, in the order of the numbers."""
    return (key for key in map(f"{prefix}{{}}".format, count()) if sticky_hash(key.encode(), within) in hashes)


def keys_that_share_a_hash(number: int, *, prefix: str = "k", within: HashRange = AUTO_SPLIT_HASHES) -> tuple[str, ...]:
    """The first ``number`` keys, of ``prefix`` and a number each, that all have one hash.

    Two are found among a few hundred keys; each further one costs many times more, so ask for few.
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
    """The first ``number`` keys, of ``prefix`` and a number each, of as many hashes, none of them in ``avoid``."""

    def unlike() -> Iterator[str]:
        seen = set(avoid)
        for key in map(f"{prefix}{{}}".format, count()):
            hashed = sticky_hash(key.encode(), within)
            if hashed not in seen:
                seen.add(hashed)
                yield key

    return tuple(islice(unlike(), number))


def murmur3_32(data: bytes, seed: int = 0) -> int:
    """MurmurHash3 (x86, 32 bits) of ``data``, without a sign."""
    whole = len(data) - len(data) % 4
    state = seed
    for start in range(0, whole, 4):
        state ^= _scrambled(int.from_bytes(data[start : start + 4], "little"))
        state = (_rotated(state, 13) * 5 + 0xE6546B64) & _32_BITS
    state ^= _scrambled(int.from_bytes(data[whole:], "little")) ^ len(data)
    state = (state ^ state >> 16) * 0x85EBCA6B & _32_BITS
    state = (state ^ state >> 13) * 0xC2B2AE35 & _32_BITS
    return state ^ state >> 16


def _scrambled(block: int) -> int:
    return _rotated(block * 0xCC9E2D51 & _32_BITS, 15) * 0x1B873593 & _32_BITS


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> 32 - bits) & _32_BITS
