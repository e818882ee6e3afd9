"""The marks of the deduplication rules: each marked function of the reference runs when it is explored."""

from __future__ import annotations

import sys
from types import FrameType

from model.catalogue import PLACES
from model.explorations import dedup
from model.explorations.dedup_world import Setup

REFERENCE = ("model.topic", "model.producer")

LITTLE = (
    Setup(sources=(dedup.source("A", 1, 3),), snapshots=True, crashes=1, failures=1),
    Setup(sources=(dedup.source("A", 1),), snapshots=True, crashes=1, failures=1, restart="with what comes next"),
    Setup(sources=(dedup.source("A", 1),), deduplication=False, switches=1, reconnects=1, restart="from the beginning"),
)


def called_while_exploring() -> set[str]:
    """The qualified names of the functions of the reference that these explorations call."""
    called: set[str] = set()

    def watch(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_globals.get("__name__") in REFERENCE:
            called.add(f"{frame.f_globals['__name__']}.{frame.f_code.co_qualname}")

    sys.setprofile(watch)
    try:
        for setup in LITTLE:
            dedup.EXPLORED.run(setup)
    finally:
        sys.setprofile(None)
    return called


def test_every_rule_that_the_reference_carries_is_exercised_by_its_exploration() -> None:
    places = {
        rule: {place for place in found if place.rpartition(".")[0] in REFERENCE} for rule, found in PLACES.items()
    }
    carried = {rule: found for rule, found in places.items() if found}
    assert set(carried) == {f"DEDUP-{number:02}" for number in range(1, 16)}
    called = called_while_exploring()
    assert {rule: found - called for rule, found in carried.items() if found - called} == {}
