"""The explorations of all documents: what is explored, that all rules hold, and that each variant is detected.

What the variants break is on the generated page ``docs/reference/exploration.md``, which
another test holds against what is explored now. It is read here, so that no variant is explored twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from model.chunking.variants import VARIANTS as OF_CHUNKS
from model.cursors.variants import CursorVariant
from model.explorations import EXPLORED, VARIANTS, deduplication, explorations, key_shared, replication
from model.explorations.configured import Configurations
from model.explorations.deduplication.world import Setup as DeduplicationSetup
from model.explorations.deduplication.world import merge as merge_deduplication
from model.explorations.key_shared.world import Setup as KeysSetup
from model.explorations.key_shared.world import merge as merge_keys
from model.explorations.replication.statements import EXACT, acknowledged
from model.explorations.replication.world import Setup as ReplicationSetup
from model.explorations.replication.world import World
from model.explore import NamedExploration, System, explore
from model.replication.entries import Request
from model.rules.catalogue import CATALOGUE
from model.variants import Origin
from tests.model.explored import dead_end, explored, results, words

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "exploration.md"

SIZES = {
    "crashes": (31537, 190553),
    "failed-writes": (21115, 70846),
    "everything": (2903, 14494),
    "batches": (245, 958),
    "no-replay": (875, 3716),
    "switched-off": (407, 608),
    "switched": (2665, 4934),
    "room-for-one": (4061, 21825),
    "other-batches": (230, 660),
    "repl-two": (2646, 5046),
    "repl-there-and-back": (10312, 13994),
    "repl-small-cache": (5363, 13079),
    "repl-timeout": (2511, 5068),
    "repl-cuts": (13774, 20076),
    "repl-crash": (10890, 22187),
    "repl-crash-there": (6261, 12939),
    "repl-closed": (87, 133),
    "repl-several": (820, 1400),
    "repl-same-name": (1357, 3680),
    "repl-none": (34, 54),
    "repl-three": (33628, 46342),
    "repl-three-slow": (63234, 103033),
    "repl-three-cut": (16904, 21801),
    "repl-three-idle": (245, 267),
    "chunk-interleaved": (3420, 6112),
    "chunk-given-back": (1213, 2272),
    "chunk-limit": (943, 1886),
    "chunk-limit-acknowledged": (5311, 10449),
    "chunk-expiry": (4577, 12088),
    "chunk-seek": (637, 1242),
    "chunk-sent-again": (11070, 30866),
    "chunk-new-uuids": (1710, 5015),
    "chunk-source-lost": (4878, 13195),
    "chunk-deduplication": (4418, 20015),
    "chunk-limit-order": (943, 1886),
    "chunk-option-1-calm": (535, 1012),
    "chunk-option-1-sorted": (4038, 11411),
    "chunk-option-2": (22653, 47472),
    "chunk-option-2-crashes": (3290, 8758),
    "chunk-option-1": (85, 173),
    "chunk-option-1-forgetful": (85, 147),
    "ack-orders": (64, 768),
    "ack-batches": (2980, 37346),
    "ack-subscriptions": (68, 820),
    "ack-published": (2270, 10665),
    "ack-persisted": (653, 3802),
    "ack-unloaded": (1254, 6935),
    "ack-administered": (11209, 140016),
    "ack-shared": (4650, 27951),
    "ack-failover": (597, 2188),
    "ack-held-back": (1243, 4342),
    "ack-nacked": (1045, 2170),
    "key-joins": (6188, 21163),
    "key-changes": (38949, 216885),
    "key-back-and-forth": (13021, 56465),
    "key-given-back": (6690, 27020),
    "key-one-hash": (2747, 9191),
    "key-claims": (2627, 8436),
    "key-stuck": (1105, 2819),
    "key-classic-rule": (40848, 156055),
    "key-classic-order": (14133, 49363),
}
"""States and transitions of each configuration. A change of these numbers is a change of what is explored."""

UNENDING = {"switched-off", "switched"}
"""The configurations that cannot promise a good ending."""

UNBROKEN = {
    "a producer's messages are stored in its order",
    "a recently joined consumer gets no message read after it joined, until all earlier ones are acknowledged",
}
"""The statements that nothing explored here breaks."""

UNSHOWN = {
    *("DEDUP-11a", "DEDUP-16", "DEDUP-17", "DEDUP-18", "DEDUP-19", "DEDUP-20"),
    *("REPL-16", "REPL-19", "REPL-20", "REPL-21"),
    *("CHUNK-10", "CHUNK-14", "CHUNK-15"),
    *("ACK-17", "ACK-18", "ACK-19", "ACK-20", "ACK-21"),
    *("KEY-12", "KEY-15", "KEY-16", "KEY-17"),
}
"""The rules that no exploration shows: about when a snapshot is due, consumers of deduplicated topics, a producer's
own account, how long it was inactive, one example, how far a position may be behind, unequal clusters, administrators
at clusters, stats, receiver queues, expiry by time, readers, where a subscription begins and how it ends, bytes,
claimed ranges, what must be dispatched with the classic implementation, and the policies of consumers."""

ONCE = "no message is stored twice"
IN_ORDER = "messages are stored in the order of their source, without gaps"
BEHIND = "a chunk is sent to the consumer that was sent all earlier chunks of its message"

of_each = pytest.mark.parametrize("named", [pytest.param(named, id=named.name) for named in explorations()])


@cache
def broken_statements() -> dict[str, set[str]]:
    """The statements that each variant breaks, on the generated page."""
    rows = re.findall(r"^\| `(.+?)` \|.*\| (.*) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return {name: set(re.findall(r"(?:^|<br>)(.+?) \([A-Z0-9a-z, -]+\): \d+ steps?", cell)) for name, cell in rows}


@of_each
def test_every_rule_of_the_document_holds_in_every_state(named: NamedExploration[Any, Any]) -> None:
    found = results(named.name)
    assert (found.states, found.transitions) == SIZES[named.name]
    assert found.untaken == []
    assert found.holds is named.must_hold
    if named.must_hold:
        assert found.unexercised == []
        assert not found.has_dead_end
        assert found.knows_endings is (named.name not in UNENDING)


def test_every_configuration_has_its_size() -> None:
    assert [named.name for named in explorations()] == list(SIZES)


def test_every_variant_breaks_a_statement() -> None:
    assert set(broken_statements()) == {named.name for named in VARIANTS}
    assert [name for name, broken_by_it in broken_statements().items() if not broken_by_it] == []


def test_every_statement_is_broken_by_something_and_all_rules_are_stated() -> None:
    stated = {says: rules for name in SIZES for says, rules in results(name).stated.items()}
    by_variants = set().union(*broken_statements().values())
    assert set(stated) - by_variants - {says for name in SIZES for says in results(name).broken} == UNBROKEN
    rules = {rule.id for rule in CATALOGUE if rule.family != "SERVE"}
    assert rules - {rule for some in stated.values() for rule in some} == UNSHOWN


def test_every_variant_of_a_release_names_its_code() -> None:
    assert all((named.origin is Origin.RELEASE) == bool(named.code) for named in VARIANTS)


def test_every_switch_of_a_cursor_is_a_variant_that_is_explored() -> None:
    variants = [named.variant for named in VARIANTS if isinstance(named.variant, CursorVariant)]
    switches = CursorVariant.__struct_fields__
    assert {switch for switch in switches if any(getattr(variant, switch) for variant in variants)} == set(switches)


def test_every_variant_of_chunking_is_explored_once() -> None:
    explored_once = [named.name for one in EXPLORED for named in one.variants]
    assert sorted(explored_once) == sorted(named.name for named in VARIANTS)
    assert {named.name for named in OF_CHUNKS} <= set(explored_once)


def test_an_unknown_variant_is_one_sentence() -> None:
    with pytest.raises(ValueError, match=r"^there is no variant 'nonsense'; `.* explore --list` lists them$"):
        explorations("nonsense")


# --------------------------------------------------------------------------------------------------- merging of states


def merged_and_whole(system: System[Any, Any], merge: Any) -> tuple[int, int]:
    """How many states there are with merging and without; both explorations find the same."""
    merged, whole = explore(system), explore(replace(system, merge=lambda world: world))
    assert whole.complete
    assert {merge(world) for world in whole.graph} == set(merged.graph)
    assert merged.holds
    assert whole.holds
    return merged.states, whole.states


def test_merging_states_of_deduplication_hides_no_state() -> None:
    sources = (deduplication.source("A", 1, 3), deduplication.source("B", 1))
    setup = DeduplicationSetup(sources=sources, snapshots=True, crashes=1, failures=1)
    merged, whole = merged_and_whole(deduplication.system(setup), merge_deduplication)
    assert whole > 2 * merged


def test_merging_states_of_keys_hides_no_state() -> None:
    merged, whole = merged_and_whole(key_shared.system(KeysSetup(keys=("x", "y", "x"), joins=1, leaves=1)), merge_keys)
    assert whole > merged


def test_links_without_delays_omit_states_but_add_none() -> None:
    free = ReplicationSetup(messages="A", failovers="B")
    in_time = replication.EXPLORED.run(msgspec.structs.replace(free, late=("BA",)))
    whole = replication.EXPLORED.run(free)
    assert set(in_time.graph) < set(whole.graph)
    assert in_time.holds
    assert whole.holds


# ------------------------------------------------------------------------------------------ what configurations of show


def test_the_graph_has_all_states_and_labels_all_transitions() -> None:
    found = explored("everything")
    assert found.graph.number_of_nodes() == found.states
    labels = [edge["words"] for _, _, edge in found.graph.edges(data=True)]
    assert sum(len(words.splitlines()) for words in labels) == found.transitions


def test_a_producer_that_a_full_snapshot_leaves_out_is_forgotten_in_a_crash() -> None:
    assert words("room-for-one", ONCE)[-5:] == [
        "a snapshot is taken after entry 2: A 1",
        "the broker crashes and recovers",
        "B crashes and restarts: last sequence id -1",
        "B sends 1 (b0): it is new",
        "B's 1 (b0) is stored, confirmed",
    ]


def test_a_source_that_replays_in_other_batches_loses_messages() -> None:
    assert results("other-batches").broken == {IN_ORDER: 7}


def test_option_1_dispatches_a_chunk_to_a_consumer_without_the_earlier_ones() -> None:
    assert words("chunk-option-1", BEHIND) == [
        "chunk 1 of 3 of M1 is stored as entry 0",
        "chunk 2 of 3 of M1 is stored as entry 1",
        "A is sent chunk 1 of M1",
        "A is sent chunk 2 of M1",
        "A crashes",
        "B is sent chunk 2 of M1 for replay",
    ]


def test_option_1_loses_the_message_if_a_consumer_forgets_unusable_chunks() -> None:
    assert dead_end("chunk-option-1-forgetful") == words("chunk-option-1-forgetful", BEHIND)


def test_the_pending_limit_breaks_the_order_of_ordered_consumers() -> None:
    says = "a message is delivered after all earlier complete messages of its producer"
    assert words("chunk-limit-order", says) == [
        "A sends chunk 1 of 2 of A1: entry 0",
        "B sends chunk 1 of 2 of B1: entry 1",
        "A sends chunk 2 of 2 of A1: entry 2",
        "A sends A2: entry 3",
        "the consumer gets entry 0, chunk 1 of 2 of A1: a buffer is opened",
        "the consumer gets entry 1, chunk 1 of 2 of B1: a buffer is opened, and A1 is discarded",
        "the consumer gets entry 2, chunk 2 of 2 of A1: the entry waits for redelivery",
        "the consumer gets entry 3, A2: the message is complete, and is delivered",
    ]


def test_two_clusters_need_no_second_round() -> None:
    rounds = {
        entry.item.round
        for world in of_two_clusters(replication.EXPLORED)
        for cluster in world.clusters
        for entry in cluster.log
        if isinstance(entry.item, Request)
    }
    assert rounds == {1}


def of_two_clusters(configurations: Configurations[Any, Any, Any]) -> Iterable[World]:
    """All states of the explorations of two clusters."""
    names = (named.name for named in configurations.of_document())
    return (world for name in names if not name.startswith("repl-three") for world in explored(name).graph)


def test_two_idle_clusters_become_equal() -> None:
    assert EXACT in explored("repl-two").held
    assert any(is_everywhere(world) for world in explored("repl-two").graph)


def is_everywhere(world: World) -> bool:
    """Whether both messages are acknowledged in both clusters, while the consumer never left the first."""
    subscriptions = [(cluster, cluster.subscription("s")) for cluster in world.clusters]
    return world.failovers == "B" and all(
        subscription is not None and len(acknowledged(cluster, subscription)) == 2
        for cluster, subscription in subscriptions
    )


def test_three_idle_clusters_may_keep_lagging() -> None:
    labels = words("repl-three-idle", EXACT.says)
    assert labels[1] == "C1 is replicated from C to A, as entry 1"
    assert labels.index("C1 is replicated from C to B, as entry 5") > labels.index(
        "B responds to the request for A#1: its last is entry 1; the response is entry 2"
    )
    assert "B creates s, acknowledged up to entry 1" in labels
