"""The explorations of document 001: their exact results, and that each variant is detected."""

from __future__ import annotations

from msgspec.structs import replace

from model.explorations import replication
from model.explorations.replication.statements import EXACT, acknowledged
from model.explorations.replication.world import Setup, World
from model.replication.entries import Request
from model.replication.variants import VARIANTS
from tests.model.explored import ExplorationContract, explored, words

SOUND = "every message that is acknowledged in any cluster was processed by the consumer"
NOTHING_MISSED = "a consumer that fails over is sent every message that it has not processed"
IN_ORDER = (
    "what is written in a cluster comes to each other cluster in its order, and once; again only after a link was cut "
    "or a broker crashed"
)
NEWS = "a snapshot begins when a message came since the last completed one began"
CONNECTED = "a snapshot begins while all replicators are connected"
BY_ITS_REPLICATOR = "a marker is handled by the replicator to the cluster that wrote it"
STILL_MADE = "an answer counts only for its own snapshot, while it is made"
DROPPED = "a snapshot that is given up is no longer made"
MAPPING = "a snapshot has the position where the last answer stands, and the positions of the first ones"
OPENED = "a cluster that answers has no closed replicator to the one that asked"
MARKERS_APART = "what a consumer was sent and has not acknowledged is messages, no marker is"
CACHE = "a cache has snapshots of its own cluster, no more than its limit, in the order of their local positions"
OLDEST_GOES = "a snapshot that is read is cached, and the oldest go for it"
LATEST_PASSED = "when mark-delete advances, the last cached snapshot that it has passed is published, and else nothing"
APPLIED = (
    "an update acknowledges up to the position of its cluster, in a subscription that is there and replicated then"
)
BEHIND = (
    "when all is quiet, every cluster has acknowledged up to its position in the last snapshot that mark-delete "
    "passed, unless its broker crashed"
)
ONLY_REPLICATED = "markers and subscriptions in other clusters come only of subscriptions that are replicated"


class TestReplication(ExplorationContract):
    """Document 001."""

    document = replication.EXPLORED.of_document()
    variants = VARIANTS
    rules = {f"REPL-{number:02}" for number in (*range(1, 16), 17, 18)}
    """What the exploration can show; REPL-16 is one example."""
    found = {
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
    }
    breaks = {
        "repl-second-round-skipped": (NOTHING_MISSED, 16),
        "repl-first-round-response-counts-twice": (SOUND, 25),
        "repl-snapshot-not-at-highest-response": (NOTHING_MISSED, 27),
        "repl-latest-answer-counts": (NOTHING_MISSED, 25),
        "repl-local-too-early": (NOTHING_MISSED, 14),
        "repl-local-too-late": (MAPPING, 7),
        "repl-position-too-far": (NOTHING_MISSED, 14),
        "repl-late-answer-accepted": (STILL_MADE, 7),
        "repl-never-timed-out": (DROPPED, 2),
        "repl-began-without-news": (NEWS, 6),
        "repl-began-while-cut": (CONNECTED, 2),
        "repl-began-for-nobody": (ONLY_REPLICATED, 2),
        "repl-handled-by-every-replicator": (BY_ITS_REPLICATOR, 7),
        "repl-closed-not-opened": (OPENED, 5),
        "repl-in-flight-lost": (IN_ORDER, 5),
        "repl-snapshot-replicated": (CACHE, 8),
        "repl-markers-held": (MARKERS_APART, 2),
        "repl-next-snapshot": (NOTHING_MISSED, 14),
        "repl-oldest-usable": (BEHIND, 17),
        "repl-cache-unbounded": (CACHE, 16),
        "repl-newest-dropped": (OLDEST_GOES, 16),
        "repl-snapshot-cache-not-recovered": (BEHIND, 11),
        "repl-individual-publishes": (NOTHING_MISSED, 14),
        "repl-update-unpublished": (LATEST_PASSED, 9),
        "repl-wrong-cluster": (BEHIND, 27),
        "repl-all-there": (NOTHING_MISSED, 14),
        "repl-update-creates-at-latest": (NOTHING_MISSED, 14),
        "repl-created-unreplicated": (APPLIED, 11),
        "repl-missing-not-created": (BEHIND, 11),
        "repl-unreplicated-published": (ONLY_REPLICATED, 9),
        "repl-update-of-unreplicated-subscription": (SOUND, 11),
    }
    stuck = {
        "repl-closed-not-opened",
        "repl-in-flight-lost",
        "repl-individual-publishes",
        "repl-update-of-unreplicated-subscription",
    }
    """Unless a promise is broken before, where the exploration ends."""


def test_without_the_second_round_a_failover_misses_a_message_of_a_third_cluster() -> None:
    assert words("repl-second-round-skipped", NOTHING_MISSED) == [
        "A begins snapshot A#1: its request is entry 1",
        "the request for A#1 comes from A to C, as entry 1",
        "C answers for the request for A#1: its last is entry 1; the answer is entry 2",
        "C1 is published in C, as entry 3",
        "C's answer for A#1 comes from C to A, as entry 2",
        "A has C's answer for A#1, in entry 2",
        "C1 comes from C to B, as entry 1",
        "the request for A#1 comes from A to B, as entry 2",
        "B answers for the request for A#1: its last is entry 2; the answer is entry 3",
        "B's answer for A#1 comes from B to A, as entry 3",
        "A has B's answer for A#1, in entry 3: snapshot A#1 (3 here is 2 in B, 1 in C) is entry 4",
        "s in A reads snapshot A#1 (3 here is 2 in B, 1 in C)",
        "s in A acknowledges A1, and publishes the update of s to 2 in B, 1 in C in entry 5",
        "the update of s to 2 in B, 1 in C comes from A to B, as entry 4",
        "B creates s, acknowledged up to entry 2",
        "the consumer of s fails over from A to B",
    ]


def test_two_clusters_need_no_second_round() -> None:
    two = [name for name in replication.SETUPS if not name.startswith("repl-three")]
    rounds = {
        entry.item.round
        for name in two
        for world in explored(name).graph
        for cluster in world.clusters
        for entry in cluster.log
        if isinstance(entry.item, Request)
    }
    assert rounds == {1}


def test_a_repeated_first_round_response_counts_for_the_second_round_in_releases() -> None:
    assert words("repl-first-round-response-counts-twice", SOUND)[15:21] == [
        "A has B's answer for A#1, round 2, in entry 5",
        "s in A acknowledges A1",
        "the link from C to A is cut; what it dealt with last was not confirmed",
        "the link from C to A heals",
        "C's answer for A#1 comes from C to A, as entry 6",
        "A has C's answer for A#1, in entry 6: snapshot A#1 (6 here is 2 in B, 1 in C) is entry 7",
    ]


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
    assert labels[1] == "C1 comes from C to A, as entry 1"
    assert labels.index("C1 comes from C to B, as entry 5") > labels.index(
        "B answers for the request for A#1: its last is entry 1; the answer is entry 2"
    )
    assert "B creates s, acknowledged up to entry 1" in labels


def test_links_without_delays_omit_states_but_add_none() -> None:
    free = Setup(messages="A", failovers="B")
    in_time = replication.EXPLORED.run(replace(free, late=("BA",)))
    whole = replication.EXPLORED.run(free)
    assert set(in_time.graph) < set(whole.graph)
    assert in_time.holds
    assert whole.holds
