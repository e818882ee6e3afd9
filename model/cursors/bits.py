"""Bit sets by key, as a value that changes cheaply and is compared cheaply, however many there are.

A persistent map gives another one for a change without copying the rest; but its hash is that of all its items, and two
that differ are compared item by item. Here the hash is kept up to date with each change, and asked first.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from immutables import Map

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Bits(Generic[K]):
    """Keys with the bits that are set for each; a key without any is not there.

    ``digest`` is of all of them, whatever their order; as the first field it decides nearly every comparison.
    """

    digest: int = 0
    _sets: Map[K, int] = Map()

    def __hash__(self) -> int:
        return hash(self.digest)

    def __contains__(self, key: K) -> bool:
        return key in self._sets

    def __iter__(self) -> Iterator[K]:
        return iter(self._sets)

    def __len__(self) -> int:
        return len(self._sets)

    def __getitem__(self, key: K) -> int:
        """The bits of a key; none where it is not there."""
        return self._sets.get(key, 0)

    def items(self) -> Iterable[tuple[K, int]]:
        """All keys with their bits."""
        return self._sets.items()

    def put(self, changes: Iterable[tuple[K, int]]) -> Bits[K]:
        """The same with other bits for some keys; a key that gets none is gone."""
        digest, sets = self.digest, self._sets.mutate()
        for key, bits in changes:
            if before := sets.get(key, 0):
                digest ^= hash((key, before))
                del sets[key]
            if bits:
                digest ^= hash((key, bits))
                sets[key] = bits
        return Bits(digest, sets.finish())
