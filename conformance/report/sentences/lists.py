"""Numbers and lists in sentences: singular and plural, and lists that are cut if they are long."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

LISTED_AT_MOST = 40
"""How many entries of a log, a send or a snapshot are listed; of more, the middle is left out."""

T = TypeVar("T")


def ends(parts: Sequence[T], note: Callable[[str], T]) -> list[T]:
    """The parts of a list; if it is long, its first and last parts with a note in between."""
    if len(parts) <= LISTED_AT_MOST:
        return list(parts)
    half = LISTED_AT_MOST // 2
    return [*parts[:half], note(f"… {len(parts) - 2 * half} more …"), *parts[-half:]]


def joined(parts: Sequence[str], between: str = ", ") -> str:
    """The parts of a list as text; the middle of a long one is left out."""
    return between.join(ends(parts, str))


def count(number: int, one: str, many: str) -> str:
    """A number and what it counts, in the singular or the plural."""
    return f"{number} {one if number == 1 else many}"


def times(number: int) -> str:
    """How often: never, once, 2 times."""
    return {0: "never", 1: "once"}.get(number, f"{number} times")


def thousands(number: int) -> str:
    """A number with spaces between its thousands."""
    return f"{number:,}".replace(",", " ")


def percent(interval: tuple[float, float]) -> str:
    """An interval of shares, in percent."""
    low, high = (round(100 * end) for end in interval)
    return f"{low} to {high} %"
