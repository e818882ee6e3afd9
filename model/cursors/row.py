"""Things in a row, as a value to which another is added without copying those before it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from immutables import Map

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Row(Generic[T]):
    """Like a tuple; ``then`` costs no more where it is long."""

    _numbered: Map[int, T] = Map()

    @classmethod
    def of(cls, *things: T) -> Row[T]:
        """These, in this order."""
        return cls(Map(enumerate(things)))

    def then(self, thing: T) -> Row[T]:
        """The same with one more at the end."""
        return Row(self._numbered.set(len(self), thing))

    def __len__(self) -> int:
        return len(self._numbered)

    def __getitem__(self, number: int) -> T:
        return self._numbered[number]

    def __iter__(self) -> Iterator[T]:
        return (self[number] for number in range(len(self)))
