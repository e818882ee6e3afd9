"""The stored minimal history of each seeded defect: a file named after it, in its document's folder."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from conformance.engine.lanes.replay import can_share_broker, has_further_clusters
from conformance.history import document
from conformance.history.document import Replays
from conformance.known import HISTORIES as OF_DEVIATIONS
from model.rules.catalogue import RULES

HISTORIES = Path(__file__).parent / "histories"

SURE = 1e-4
"""How seldom a test may miss a defect that its history shows no more often than it was recorded to."""


def histories() -> dict[str, Path]:
    """The histories, by the names of their defects."""
    return {path.stem: path for path in sorted(HISTORIES.glob("*/*.json"))}


OF_CLUSTERS_EACH_CHANGE: Final = 5
RECORDED_ON: Final = "4.0.8"
"""The release that the tests perform histories on."""


@cache
def of_every_change() -> frozenset[Path]:
    """The histories that every change performs; ``make test-all`` performs all.

    One for each rule, preferably a short one of a deviation that came back each time, and performed beside others; for
    rules that only several clusters show, five in all.
    """
    chosen: dict[str, tuple[tuple[object, ...], Path]] = {}
    for path in (*OF_DEVIATIONS.glob("*.json"), *histories().values()):
        history = document.read(path)
        assert history.violation is not None
        assert history.replays is not None
        operations = [step.operation for step in history.steps]
        cost = (
            history.release != RECORDED_ON,
            has_further_clusters(operations),
            not can_share_broker(operations),
            history.replays.came_back < history.replays.tries,
            history.defect is not None,
            len(operations),
            path.name,
        )
        rule = history.violation.rule
        chosen[rule] = min(chosen.get(rule, (cost, path)), (cost, path))
    of_clusters = sorted(path for (_, of_clusters, *_), path in chosen.values() if of_clusters)
    left_out = set(of_clusters[OF_CLUSTERS_EACH_CHANGE:])
    return frozenset(path for _, path in chosen.values() if path not in left_out)


def tier(path: Path) -> tuple[pytest.MarkDecorator, ...]:
    """The marker of a test that performs a history, if not every change does."""
    return () if path in of_every_change() else (pytest.mark.weekly,)


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
