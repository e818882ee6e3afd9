"""The stored minimal history of each seeded defect: a file named after it, in its document's folder."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from conformance.engine.lanes.replay import can_share_broker, has_further_clusters
from conformance.history import document
from conformance.history.document import History
from conformance.known import HISTORIES as OF_DEVIATIONS
from model.rules.catalogue import RULES
from tests.tiers import RATE

HISTORIES = Path(__file__).parent / "histories"

TRIES: Final = 10
"""How often a history is performed at most until it shows what it is stored for."""


def histories() -> dict[str, Path]:
    """The histories, by the names of their defects."""
    return {path.stem: path for path in sorted(HISTORIES.glob("*/*.json"))}


OF_CLUSTERS_EACH_CHANGE: Final = 5
RECORDED_ON: Final = "4.0.8"
"""The release that the tests perform histories on."""


@cache
def of_every_change() -> frozenset[Path]:
    """The histories that every change performs; ``make test-all`` performs all.

    No race, and one for each rule: preferably a short one of a deviation, which can be performed beside others. For the
    rules that only several clusters show, there are five in all.
    """
    chosen: dict[str, tuple[tuple[object, ...], Path]] = {}
    for path in (*OF_DEVIATIONS.glob("*.json"), *histories().values()):
        history = document.read(path)
        assert history.violation is not None
        if is_race(history):
            continue
        operations = [step.operation for step in history.steps]
        cost = (
            history.release != RECORDED_ON,
            has_further_clusters(operations),
            not can_share_broker(operations),
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


def is_race(history: History) -> bool:
    """Whether a history did not come back in each of the replays that it was recorded with.

    What a broker does is not deterministic, still less on busy cores. The rate of a race is a figure, not a failure.
    """
    assert history.replays is not None
    return history.replays.came_back < history.replays.tries


def record_rate(record_property: Callable[[str, object], None], history: History, came_back: int, tries: int) -> None:
    """Have the summary of the tests say how often a race came back, now and when it was recorded."""
    assert history.replays is not None
    recorded = f"{history.replays.came_back} of {history.replays.tries}"
    record_property(RATE, f"came back in {came_back} of {tries} replays; recorded: {recorded}")
