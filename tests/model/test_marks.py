"""The marks of the rules, and the tables of the references: exploring the model reaches all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from types import FrameType

import pytest

from model.chunking import assembly
from model.explorations import chunking, cursors, deduplication, key_shared, replication
from model.explorations.chunking import shared as chunking_shared
from model.explorations.chunking.shared_world import Setup as SharedSetup
from model.explorations.chunking.world import ROOM_BYTES
from model.explorations.chunking.world import Setup as ChunkingSetup
from model.explorations.cursors.world import Setup as CursorsSetup
from model.explorations.deduplication.world import Setup as DeduplicationSetup
from model.explorations.key_shared.world import Setup as KeysSetup
from model.explorations.replication.world import Setup as ReplicationSetup
from model.key_shared import draining_hashes
from model.key_shared.variants import KeysVariant
from tests.model.explored import called_while, carried_by


@dataclass(frozen=True, slots=True)
class Reference:
    """The modules of a document's reference, small explorations that must reach all of it, and the rules it carries."""

    family: str
    modules: tuple[str, ...]
    explore: Callable[[], object]
    rules: Iterable[int]
    at_import: frozenset[str] = frozenset()
    """What is called once, when its module is imported."""
    of_others: frozenset[str] = frozenset()
    """Rules of another document that it follows as well; the explorations of that document have their own model."""


REFERENCES = (
    Reference(
        "DEDUP",
        ("model.deduplication.reference", "model.deduplication.reference_producer"),
        lambda: [
            deduplication.EXPLORED.run(setup)
            for setup in (
                DeduplicationSetup(sources=(deduplication.source("A", 1, 3),), snapshots=True, crashes=1, failures=1),
                DeduplicationSetup(
                    sources=(deduplication.source("A", 1),),
                    snapshots=True,
                    crashes=1,
                    failures=1,
                    restart="with its next message",
                ),
                DeduplicationSetup(
                    sources=(deduplication.source("A", 1),),
                    deduplication=False,
                    switches=1,
                    reconnects=1,
                    restart="from the beginning",
                ),
            )
        ],
        range(1, 16),
        of_others=frozenset({"CHUNK-13"}),
    ),
    Reference(
        "REPL",
        (
            "model.replication.entries",
            "model.replication.snapshots",
            "model.replication.cluster",
            "model.replication.replicators",
        ),
        lambda: [
            replication.EXPLORED.run(ReplicationSetup(stored="A", timeouts=1, failovers="B")),
            replication.EXPLORED.run(ReplicationSetup(stored="A", crashes="A", late=())),
        ],
        range(1, 19),
    ),
    Reference(
        "CHUNK",
        (
            "model.chunking.chunks",
            "model.chunking.assembly",
            "model.chunking.deduplication",
            "model.chunking.shared_proposals",
        ),
        lambda: [
            chunking.EXPLORED.run(
                ChunkingSetup(sources=(("A", (25,)),), deduplication=True, cuts=1, deaths=1, unloads=1)
            ),
            chunking.EXPLORED.run(ChunkingSetup(sources=(("A", (25,)),), cuts=1, deaths=1)),
            chunking.EXPLORED.run(ChunkingSetup(sources=(("A", (15,)), ("B", (15,))), limit=1, expiries=1)),
            chunking_shared.EXPLORED.run(SharedSetup(markers=False, messages=(3,), leaves=1)),
            chunking_shared.EXPLORED.run(SharedSetup(markers=True, leaves=1, backs=1)),
        ],
        (1, 2, 4, 6, 7, 8, 9, 11, 12, 13),
        frozenset({"model.chunking.chunks.room"}),  # for the room of the world's entries
    ),
    Reference(
        "ACK",
        ("model.cursors.reference", "model.cursors.dispatch"),
        lambda: [
            cursors.EXPLORED.run(CursorsSetup(cumulative=True, subscriptions=2, trims=True)),
            cursors.EXPLORED.run(CursorsSetup(is_limited=True, is_quick=False, kills=1, unloads=1, administration=1)),
            cursors.EXPLORED.run(CursorsSetup(sizes=(1, 1), acks="received", consumers=2, leaves=1, nacks=1)),
        ],
        (1, 2, 3, 4, 5, 7, 8, 9, 10, 12, 13, 14, 15, 16),
    ),
    Reference(
        "KEY",
        ("model.key_shared.dispatcher", "model.key_shared.draining_hashes", "model.key_shared.classic"),
        lambda: [
            key_shared.EXPLORED.run(KeysSetup(keys=("x", "x", "x"), joins=2, leaves=1)),
            key_shared.EXPLORED.run(KeysSetup(keys=("x", "x"), joins=1, leaves=1, backs=1)),
            key_shared.EXPLORED.run(
                KeysSetup(keys=("x", "x"), joins=1, leaves=1, variant=KeysVariant(classic=True), classic_rule=True)
            ),
        ],
        (*range(1, 12), 13, 14),
    ),
)


@cache
def reached(family: str) -> tuple[set[str], set[tuple[object, object]]]:
    """The functions of a reference that its explorations call, and the entries of its table that they look up."""
    (reference,) = (one for one in REFERENCES if one.family == family)
    looked_up: set[tuple[object, object]] = set()

    def note(frame: FrameType) -> None:
        if frame.f_code.co_name != "transition":
            return
        known = frame.f_locals
        if family == "CHUNK":
            state: object = assembly.BufferState.NOTHING if known["buffer"] is None else assembly.BufferState.FILLING
        else:
            state = draining_hashes.DrainingState.FREE if known["entry"] is None else known["entry"].state
        looked_up.add((state, known["happens"]))

    return called_while(reference.explore, reference.modules, noting=note), looked_up


@pytest.mark.parametrize("reference", REFERENCES, ids=lambda reference: reference.family)
def test_the_explorations_exercise_every_rule_of_the_reference(reference: Reference) -> None:
    assert ROOM_BYTES == 10
    carried = carried_by(reference.modules)
    own = {f"{reference.family}-{number:02}" for number in reference.rules}
    assert set(carried) == own | reference.of_others
    called = reached(reference.family)[0] | reference.at_import
    assert {rule: carried[rule] - called for rule in own if carried[rule] - called} == {}


def test_the_explorations_reach_every_entry_of_the_table_of_chunk_buffers() -> None:
    assert set(assembly.TABLE) - reached("CHUNK")[1] == set()


def test_the_explorations_reach_every_entry_of_the_table_of_draining_hashes() -> None:
    assert set(draining_hashes.TABLE) - reached("KEY")[1] == set()
