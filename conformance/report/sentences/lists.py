"""Numbers and lists in sentences: singular and plural, and lists that are too long to be told whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

LISTED_AT_MOST = 40
"""How many entries of a log, a send or a snapshot are told one by one; the middle of more is left out."""

T = TypeVar("T")


def ends(told: Sequence[T], note: Callable[[str], T]) -> list[T]:
    """The parts to tell one by one; of very many, the first and the last, and a note on the others between them."""
    if len(told) <= LISTED_AT_MOST:
        return list(told)
    half = LISTED_AT_MOST // 2
    return [*told[:half], note(f"… {len(told) - 2 * half} more …"), *told[-half:]]


def joined(told: Sequence[str], between: str = ", ") -> str:
    """The same for words, joined."""
    return between.join(ends(told, str))


def count(number: int, one: str, many: str) -> str:
    """A number and what it counts, in the singular or the plural."""
    return f"{number} {one if number == 1 else many}"


def times(number: int) -> str:
    """How often: never, once, 2 times."""
    return {0: "never", 1: "once"}.get(number, f"{number} times")
