"""The marks of the rules of Key_Shared and the table of draining hashes: exploring the model reaches all of them."""

from __future__ import annotations

from functools import cache
from types import FrameType

from model.explorations import key_shared
from model.explorations.key_shared.world import Setup
from model.key_shared.draining import TABLE, Input, State
from model.key_shared.variants import KeysVariant
from tests.model.explored import called_while, carried_by

REFERENCE = ("model.key_shared.dispatcher", "model.key_shared.draining", "model.key_shared.classic")

LITTLE = (
    Setup(keys=("x", "x", "x"), joins=2, leaves=1),
    Setup(keys=("x", "x"), joins=1, leaves=1, backs=1),
    Setup(keys=("x", "x"), joins=1, leaves=1, variant=KeysVariant(classic=True), classic_rule=True),
)


@cache
def reached_while_exploring() -> tuple[set[str], set[tuple[State, Input]]]:
    """The functions of the reference that these explorations call, and the entries of the table that they look up."""
    looked_up: set[tuple[State, Input]] = set()

    def note(frame: FrameType) -> None:
        if frame.f_code.co_name == "transition":
            entry = frame.f_locals["entry"]
            looked_up.add((State.FREE if entry is None else entry.state, frame.f_locals["happens"]))

    called = called_while(lambda: [key_shared.EXPLORED.run(setup) for setup in LITTLE], REFERENCE, noting=note)
    return called, looked_up


def test_the_explorations_exercise_every_rule_of_the_reference() -> None:
    carried = carried_by(REFERENCE)
    assert set(carried) == {f"KEY-{number:02}" for number in (*range(1, 12), 13, 14)}
    called, _ = reached_while_exploring()
    assert {rule: found - called for rule, found in carried.items() if found - called} == {}


def test_the_explorations_reach_every_entry_of_the_table() -> None:
    _, looked_up = reached_while_exploring()
    assert set(TABLE) - looked_up == set()
