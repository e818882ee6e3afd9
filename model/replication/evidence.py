"""What a check of the clusters' logs tells of one occasion on which its rule was put to the test; it judges nothing."""

from __future__ import annotations

from msgspec import Struct


class Deviating(Struct, frozen=True):
    """What only a deviation explains, by its name, and why."""

    deviation: str
    because: str


CheckResult = str | Deviating | None
"""Why a rule is broken, by nobody's leave or by a deviation's, or None where it was put to the test and holds."""
