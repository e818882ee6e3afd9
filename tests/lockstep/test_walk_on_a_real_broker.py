"""An acknowledgment on a real broker comes through the files that ARCHITECTURE.md walks through, in that order."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from conformance.engine.example import RunningExample
from conformance.lockstep.lockstep import Lockstep
from conformance.lockstep.real import RealPerformer
from conformance.lockstep.world import World
from model.example import Example
from stateful.cursors.machines import AcknowledgmentMachine
from tests.documented.walk import walk

AFTER_THE_EXAMPLE = 2
"""The last stops: what the engine and ``check`` make of an example that has ended."""


def called(act: Callable[[], None]) -> list[tuple[Path, str]]:
    """File and name of each function that is called, in the order of first calls."""
    calls: dict[tuple[Path, str], None] = {}

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            calls.setdefault((Path(frame.f_code.co_filename), frame.f_code.co_qualname))

    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(None)
    return list(calls)


def test_an_acknowledgment_comes_through_all_stops_of_the_walk_in_order(world: World) -> None:
    example = RunningExample(Lockstep(RealPerformer(world), Example()), is_time_up=lambda: False, on_end=lambda _: None)
    machine = AcknowledgmentMachine(example)
    machine.begin(
        ends=False,
        contends=False,
        is_patient=False,
        persistence="every-ack",
        kinds=("Shared",),
        is_trimmed=False,
        is_deduplicated=False,
        sizes=[1, 1],
    )
    machine.take(0, 2)
    functions = [
        (stop.file, stop.definition) for stop in walk()[:-AFTER_THE_EXAMPLE] if not isinstance(stop.node, ast.ClassDef)
    ]
    came_through = [one for one in called(lambda: machine.acknowledge(0, (0,))) if one in functions]
    machine.teardown()
    assert came_through == functions
    assert (example.violation, example.harness_error) == (None, None)
