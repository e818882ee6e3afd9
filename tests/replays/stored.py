"""The stored minimal history of each seeded defect: a file named after it, in its document's folder."""

from __future__ import annotations

import math
from pathlib import Path

from conformance.history.document import Replays
from model.rules.catalogue import RULES

HISTORIES = Path(__file__).parent / "histories"

SURE = 1e-4
"""How seldom a test may miss a defect that its history shows no more often than it was recorded to."""


def histories() -> dict[str, Path]:
    """The histories, by the names of their defects."""
    return {path.stem: path for path in sorted(HISTORIES.glob("*/*.json"))}


def family(rule: str) -> str:
    """The family of a rule, in small letters: the folder of its defects' histories."""
    return RULES[rule].family.lower()


def tries(replays: Replays) -> int:
    """How often a history is performed until it shows its defect.

    What a broker does is not deterministic: a race shows in some of the replays that its history was recorded with, and
    of those that came back each time, one in many meets a stall.
    """
    comes_back = (replays.came_back + 1) / (replays.tries + 2)
    return math.ceil(math.log(SURE) / math.log1p(-comes_back))
