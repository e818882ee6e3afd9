"""Which seeded defects are measured: a random sample of each family that one broker of one cluster can show.

Left out are the defects that need several clusters (all of REPL), brokers or bookies.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Final

from conformance.brokers.size import SMALLEST
from conformance.faults.catalogue import defects
from conformance.faults.defect import Defect
from model.rules.catalogue import RULES

OF_EACH: Final[Mapping[str, int]] = {"DEDUP": 4, "ACK": 5, "KEY": 5, "CHUNK": 3, "SERVE": 3}
"""How many of each family, about in proportion to how many it has."""
DRAWN_FROM: Final = "how well bugs are found"
"""The seed of the sample."""


def sample(of_each: Mapping[str, int] = OF_EACH) -> list[Defect]:
    """So many of each family; a larger sample contains a smaller one."""
    found = []
    for family, count in of_each.items():
        able = [one for one in defects() if RULES[one.breaks].family == family and one.size == SMALLEST]
        random.Random(f"{DRAWN_FROM}: {family}").shuffle(able)
        found += able[:count]
    return found
