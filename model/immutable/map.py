"""The immutable map that states are made of: a dict that refuses to change, and whose changes are copies."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NoReturn, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V", covariant=True)
W = TypeVar("W")

if TYPE_CHECKING:
    _Base = Mapping
else:
    _Base = dict  # whose methods are faster than any that are written in Python


class Map(_Base[K, V]):
    """A change copies the map. In the sizes of an example that costs no more than a persistent map does."""

    __slots__ = ()

    if TYPE_CHECKING:

        def __init__(self, items: Mapping[K, V] | Iterable[tuple[K, V]] = ()) -> None: ...
        def __getitem__(self, key: K) -> V: ...
        def __iter__(self) -> Iterator[K]: ...
        def __len__(self) -> int: ...

    def set(self: Map[K, W], key: K, value: W) -> Map[K, W]:
        """The same with another value for a key."""
        return self.updated({key: value})

    def delete(self, key: K) -> Map[K, V]:
        """The same without a key that it has."""
        changed = dict(self)
        del changed[key]
        return Map(changed)

    def updated(self: Map[K, W], items: Mapping[K, W]) -> Map[K, W]:
        """The same with other values for some keys."""
        return Map({**self, **items})

    def __hash__(self) -> int:
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[type[Map[K, V]], tuple[dict[K, V]]]:
        return Map, (dict(self),)

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("a Map does not change")

    __setitem__ = __delitem__ = __ior__ = update = pop = popitem = setdefault = clear = _refuse
