"""The size of a deployment: how many processes of each kind it has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How many brokers and bookies a deployment has."""

    brokers: int = 1
    bookies: int = 1

    def __str__(self) -> str:
        return f"{_counted(self.brokers, 'broker')} and {_counted(self.bookies, 'bookie')}"


SMALLEST: Final = Size()
"""One of each."""
MOST: Final = 5
"""The most processes of a kind; each takes some hundred megabytes."""


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
