"""The base of all seeded defects."""

from __future__ import annotations

from dataclasses import dataclass

from conformance.brokers.size import SMALLEST, Size


@dataclass(frozen=True, slots=True, kw_only=True)
class Defect:
    """A small bug in the broker or on the wire; ``breaks``: the rule that it breaks.

    ``settings``: the broker's settings, by their names in ``broker.conf``, that the changed code needs. ``size``: the
    smallest deployment in which that code runs. ``family``: the rules whose machines run that code, if not those of the
    broken rule.
    """

    name: str
    breaks: str
    summary: str
    settings: tuple[tuple[str, str], ...] = ()
    size: Size = SMALLEST
    family: str | None = None
