"""The explorations of document 000: their exact results, and that each variant is detected."""

from __future__ import annotations

from dataclasses import replace

import pytest

from model.deduplication.variants import VARIANTS
from model.explorations import deduplication, explorations
from model.explorations.deduplication.world import Setup, merge
from model.explore import explore
from tests.model.explored import ExplorationContract, broken, explored, words

ONCE = "no message is stored twice"
IN_ORDER = "messages are stored in the order of their source, none is left out"
KEPT = "what is confirmed is stored"


class TestDeduplication(ExplorationContract):
    """Document 000."""

    document = deduplication.EXPLORED.of_document()
    variants = VARIANTS
    rules = {f"DEDUP-{number:02}" for number in range(1, 16)}
    """What one topic and its producers can show. DEDUP-16 to -18 are about consumers."""
    found = {
        "crashes": (31537, 190553),
        "failed-writes": (21115, 70846),
        "everything": (2903, 14494),
        "batches": (245, 958),
        "no-replay": (875, 3716),
        "switched-off": (407, 608),
        "switched": (2665, 4934),
        "room-for-one": (4061, 21825),
        "other-batches": (230, 660),
    }
    breaks = {
        "judged-when-off": ("with deduplication off, whatever is sent is stored", 4),
        "no-check": (ONCE, 5),
        "strict-less-than": (ONCE, 5),
        "overlapping-batch-dropped": (KEPT, 5),
        "batch-without-highest-id": (ONCE, 6),
        "shared-maps": (KEPT, 5),
        "duplicate-refused": ("an id at or below persisted, and no other, is confirmed without being stored", 5),
        "unknown-confirmed": (KEPT, 4),
        "unknown-stored": (ONCE, 5),
        "reset-on-unknown": (ONCE, 7),
        "persisted-before-write": (KEPT, 4),
        "pushed-after-write": (ONCE, 5),
        "deduplication-enabled-in-flight": (
            "an id at or below persisted, and no other, is confirmed without being stored",
            6,
        ),
        "no-reset-after-failure": (IN_ORDER, 7),
        "sessions-survive-failure": (IN_ORDER, 5),
        "later-writes-succeed": (IN_ORDER, 5),
        "failed-write-stored": (ONCE, 6),
        "pushed-id-in-producer-success": (IN_ORDER, 7),
        "snapshot-of-pushed": (KEPT, 6),
        "snapshot-not-cut": ("a snapshot holds no more producers than it may", 7),
        "snapshot-position-ahead": (ONCE, 7),
        "failed-snapshot-forgets": (ONCE, 7),
        "recovery-without-replay": (ONCE, 6),
        "replay-skips-one": (ONCE, 6),
        "replay-counts-lowest": (ONCE, 7),
        "inactive-forgotten": (ONCE, 7),
    }
    stuck = {"no-reset-after-failure"}
    endless = {"switched-off", "switched"}
    unbroken = {"a producer's messages are stored in its order"}


def test_the_graph_has_all_states_and_labels_all_transitions() -> None:
    found = explored("everything")
    assert found.graph.number_of_nodes() == found.states
    labels = [edge["words"] for _, _, edge in found.graph.edges(data=True)]
    assert sum(len(words.splitlines()) for words in labels) == found.transitions


def test_a_producer_that_a_full_snapshot_leaves_out_is_forgotten_in_a_crash() -> None:
    assert words("room-for-one", ONCE)[-5:] == [
        "a snapshot is taken behind entry 2: A 1",
        "the broker crashes and recovers",
        "B crashes and restarts: last sequence id -1",
        "B sends 1 (b0): it is new",
        "B's 1 (b0) is stored, confirmed",
    ]


def test_a_source_that_replays_in_other_batches_loses_messages() -> None:
    assert broken("other-batches") == {IN_ORDER: 7}


def test_raising_persisted_before_the_write_confirms_unstored_messages() -> None:
    assert words("persisted-before-write", KEPT) == [
        "A connects: last sequence id -1",
        "A sends 1 (a0): it is new",
        "A reconnects: last sequence id 1",
        "A sends 1 (a0) again: confirmed as a duplicate",
    ]


def test_recovery_without_replay_stores_a_message_twice() -> None:
    assert words("recovery-without-replay", ONCE) == [
        "A connects: last sequence id -1",
        "A sends 1 (a0): it is new",
        "the broker crashes and recovers; of 1 in flight 1 reached the log",
        "A connects: last sequence id -1",
        "A sends 1 (a0) again: it is new",
        "A's 1 (a0) is stored, confirmed",
    ]


def test_without_the_reset_a_failed_message_is_overtaken_and_never_stored() -> None:
    found = explored("no-reset-after-failure")
    assert found.dead_end is not None
    assert words("no-reset-after-failure", IN_ORDER)[-3:] == [
        "A sends 1 (a0) again: of unknown status, an error",
        "A sends 3 (a1): it is new",
        "A's 3 (a1) is stored, confirmed",
    ]


def test_merging_states_hides_no_state() -> None:
    setup = Setup(
        sources=(deduplication.source("A", 1, 3), deduplication.source("B", 1)), snapshots=True, crashes=1, failures=1
    )
    system = deduplication.system(setup)
    merged, whole = explore(system), explore(replace(system, merge=lambda world: world))
    assert whole.complete
    assert whole.states > 2 * merged.states
    assert {merge(world) for world in whole.graph} == set(merged.graph)
    assert merged.holds
    assert whole.holds


def test_an_unknown_variant_is_one_sentence() -> None:
    with pytest.raises(ValueError, match=r"^there is no variant 'nonsense'; `.* explore --list` lists them$"):
        explorations("nonsense")
