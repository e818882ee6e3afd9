"""The marks of the rules of replicated subscriptions: exploring the model reaches all of them."""

from __future__ import annotations

import sys
from types import FrameType

from model.catalogue import PLACES
from model.explorations import replication
from model.explorations.replication_world import Setup

REFERENCE = (
    "model.replication.entries",
    "model.replication.snapshots",
    "model.replication.cluster",
    "model.replication.replicators",
)

LITTLE = (
    Setup(stored="A", timeouts=1, failovers="B"),
    Setup(stored="A", crashes="A", late=()),
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
            replication.EXPLORED.run(setup)
    finally:
        sys.setprofile(None)
    return called


def test_every_rule_is_carried_by_the_reference_and_exercised_by_its_exploration() -> None:
    places = {
        rule: {place for place in found if place.rpartition(".")[0] in REFERENCE} for rule, found in PLACES.items()
    }
    carried = {rule: found for rule, found in places.items() if found}
    assert set(carried) == {f"REPL-{number:02}" for number in range(1, 19)}
    called = called_while_exploring()
    assert {rule: found - called for rule, found in carried.items() if found - called} == {}
