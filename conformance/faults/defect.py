"""What all seeded defects have in common."""

from __future__ import annotations

from dataclasses import dataclass

from conformance.brokers.size import SMALLEST, Size


@dataclass(frozen=True, slots=True, kw_only=True)
class Defect:
    """A small bug, in the broker or on the wire; ``breaks``: the rule of the catalogue that does not hold any more.

    ``settings``: those of the broker, by their names in ``broker.conf``, without which what it changes does not run;
    ``size``: the smallest deployment in which it does.
    """

    name: str
    breaks: str
    summary: str
    settings: tuple[tuple[str, str], ...] = ()
    size: Size = SMALLEST
