"""The marks of the rules of chunking and the table of buffers: exploring the model reaches all of them."""

from __future__ import annotations

from functools import cache
from types import FrameType

from model.chunking.assembly import TABLE, Input, State
from model.explorations import chunking
from model.explorations.chunking import shared as chunking_shared
from model.explorations.chunking.shared_world import Setup as SharedSetup
from model.explorations.chunking.world import ROOM_BYTES, Setup
from tests.model.explored import called_while, carried_by

REFERENCE = (
    "model.chunking.splitting",
    "model.chunking.assembly",
    "model.chunking.judging",
    "model.chunking.sharing",
)

LITTLE = (
    Setup(sources=(("A", (25,)),), deduplication=True, cuts=1, deaths=1, unloads=1),
    Setup(sources=(("A", (25,)),), cuts=1, deaths=1),
    Setup(sources=(("A", (15,)), ("B", (15,))), limit=1, expiries=1),
)
SHARED = (
    SharedSetup(markers=False, messages=(3,), leaves=1),
    SharedSetup(markers=True, leaves=1, backs=1),
)


@cache
def reached_while_exploring() -> tuple[set[str], set[tuple[State, Input]]]:
    """The functions of the reference that these explorations call, and the entries of the table that they look up."""
    looked_up: set[tuple[State, Input]] = set()

    def note(frame: FrameType) -> None:
        if frame.f_code.co_name == "transition":
            state = State.NOTHING if frame.f_locals["buffer"] is None else State.FILLING
            looked_up.add((state, frame.f_locals["happens"]))

    called = called_while(
        lambda: [
            [chunking.EXPLORED.run(setup) for setup in LITTLE],
            [chunking_shared.EXPLORED.run(shared) for shared in SHARED],
        ],
        REFERENCE,
        noting=note,
    )
    return called, looked_up


def test_the_explorations_exercise_every_rule_of_the_reference() -> None:
    carried = carried_by(REFERENCE)
    assert set(carried) == {f"CHUNK-{number:02}" for number in (1, 2, 4, 6, 7, 8, 9, 11, 12, 13)}
    called, _ = reached_while_exploring()
    at_import = {"model.chunking.splitting.room"}  # the room of the world's entries is computed once, at import
    assert ROOM_BYTES == 10
    assert {rule: found - called - at_import for rule, found in carried.items() if found - called - at_import} == {}


def test_the_explorations_reach_every_entry_of_the_table() -> None:
    _, looked_up = reached_while_exploring()
    assert set(TABLE) - looked_up == set()
