"""Immutable bit sets by key, with cheap changes and comparisons.

The hash of a map depends on all its items, and two different maps are compared item by item. Here each change updates
the hash, and a comparison begins with the hash.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from model.immutable.map import Map

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Bits(Generic[K]):
    """Keys with their bits; a key without bits is absent.

    ``digest`` does not depend on the order of the items. As the first field it decides nearly every comparison.
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
        """The bits of a key; 0 if it is absent."""
        return self._sets.get(key, 0)

    def items(self) -> Iterable[tuple[K, int]]:
        return self._sets.items()

    def put(self, changes: Iterable[tuple[K, int]]) -> Bits[K]:
        """The same with other bits for some keys; a key without bits is removed."""
        digest, sets = self.digest, dict(self._sets)
        for key, bits in changes:
            if before := sets.get(key, 0):
                digest ^= hash((key, before))
                del sets[key]
            if bits:
                digest ^= hash((key, bits))
                sets[key] = bits
        return Bits(digest, Map(sets))
