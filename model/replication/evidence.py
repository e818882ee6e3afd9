"""What a check of the clusters' logs tells of one occasion on which its rule was put to the test; it judges nothing."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

SLACK_MS = 2000
"""How much later than its date a message may have been stored, or a timer may have run out, on a busy machine."""


class Deviating(Struct, frozen=True):
    """What only a deviation explains, by its name, and why."""

    deviation: str
    because: str


class Excused(Struct, frozen=True):
    """A check that cannot be decided: nothing that was read shows whether the rule was kept."""


EXCUSED: Final = Excused()

CheckResult = str | Deviating | Excused | None
"""Why a rule is broken, by nobody's leave or by a deviation's, or None where it was put to the test and holds."""
