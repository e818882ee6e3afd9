"""An immutable sequence with a cheap append."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from immutables import Map

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Row(Generic[T]):
    """Like a tuple, but the cost of ``then`` does not grow with its length."""

    _numbered: Map[int, T] = Map()

    @classmethod
    def of(cls, *things: T) -> Row[T]:
        return cls(Map(enumerate(things)))

    def then(self, thing: T) -> Row[T]:
        return Row(self._numbered.set(len(self), thing))

    def with_last(self, thing: T) -> Row[T]:
        """The same with another last one."""
        return Row(self._numbered.set(len(self) - 1, thing))

    def __len__(self) -> int:
        return len(self._numbered)

    def __getitem__(self, number: int) -> T:
        return self._numbered[number]

    def __iter__(self) -> Iterator[T]:
        return (self[number] for number in range(len(self)))
