"""From a message's key to its hash: which keys share one, and what a message without a key has for one.

A Key_Shared subscription knows keys by their hashes only. Two keys of one hash are one key to it, and tests need such
keys; they are found by search. Which consumer has which hashes is for :mod:`model.key_shared.selectors` to say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count, islice

import mmh3

from model.rules.catalogue import carries
from model.vocabulary import HashRange

NOT_SET = 0
"""No message has this hash: brokers have it stand for a hash that is not known."""

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
    return (mmh3.hash(key, signed=False) & _31_BITS) % len(within) + within.first or NOT_SET + 1


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
