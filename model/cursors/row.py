"""An immutable sequence that says what changes at its end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Row(Generic[T]):
    _things: tuple[T, ...] = ()

    @classmethod
    def of(cls, *things: T) -> Row[T]:
        return cls(things)

    def then(self, thing: T) -> Row[T]:
        return Row((*self._things, thing))

    def with_last(self, thing: T) -> Row[T]:
        """The same with another last one."""
        return Row((*self._things[:-1], thing))

    def __len__(self) -> int:
        return len(self._things)

    def __getitem__(self, number: int) -> T:
        return self._things[number]

    def __iter__(self) -> Iterator[T]:
        return iter(self._things)
