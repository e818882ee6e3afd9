"""Building and caching snapshots, step by step; the document's worked example."""

from __future__ import annotations

from itertools import permutations

from model.replication import cluster as topic
from model.replication import snapshots
from model.replication.cluster import Cluster
from model.replication.entries import Response, Snapshot
from model.replication.replicators import Clusters, go_on, named, next_position, with_cluster
from model.replication.snapshots import Builder, Cache
from model.replication.subscription import Subscription
from model.replication.variants import DOCUMENT, ReplicationVariant

ONE_ROUND = ReplicationVariant(second_round_skipped=True)


def new_builder(*remotes: str) -> Builder:
    return snapshots.new_builder("A#1", began=3, remotes=remotes)


def answer(position: int, *, round: int = 1) -> Response:
    return Response("A#1", round, "A", position)


def pending(found: Builder | Snapshot) -> Builder:
    assert isinstance(found, Builder)
    return found


def test_the_worked_example_gives_the_mapping_10_6_7_in_one_round() -> None:
    waiting = pending(snapshots.answered(new_builder("B", "C"), "B", answer(6), stored_at=6, variant=ONE_ROUND))
    assert waiting.missing == ("C",)
    mapping = snapshots.answered(waiting, "C", answer(7), stored_at=10, variant=ONE_ROUND)
    assert mapping == Snapshot("A#1", 10, (("B", 6), ("C", 7)))


def test_the_worked_example_with_two_rounds_has_the_same_positions_and_a_later_local_one() -> None:
    building = pending(snapshots.answered(new_builder("B", "C"), "B", answer(6), stored_at=6))
    building = pending(snapshots.answered(building, "C", answer(7), stored_at=10))
    assert (building.round, building.missing) == (2, ("B", "C"))
    building = pending(snapshots.answered(building, "B", answer(9, round=2), stored_at=12))
    assert snapshots.answered(building, "C", answer(11, round=2), stored_at=14) == Snapshot(
        "A#1", 14, (("B", 6), ("C", 7))
    )


def test_whole_clusters_reproduce_the_worked_example() -> None:
    """Seven messages and a request in A, all replicated to C and six to B. B's response is entry 8 of A, C's is 10."""
    clusters = after_both_answers(ONE_ROUND)
    assert snapshot_of(clusters) == Snapshot("A#1", 10, (("B", 6), ("C", 7)))


def test_a_consumer_that_passed_10_moves_the_others_to_6_and_7() -> None:
    clusters = after_both_answers(ONE_ROUND)
    clusters = all_acknowledged(clusters)
    clusters = at_rest(clusters)
    there = {one.name: one.subscription("s") for one in clusters}
    assert {name: one.mark_delete for name, one in there.items() if one and name != "A"} == {"B": 6, "C": 7}


def test_whole_clusters_with_two_rounds_have_the_same_positions_and_a_later_local_one() -> None:
    snapshot = snapshot_of(at_rest(after_both_answers(DOCUMENT)))
    assert snapshot.positions == (("B", 6), ("C", 7))
    assert snapshot.local > 10


def after_both_answers(variant: ReplicationVariant) -> Clusters:
    clusters: Clusters = tuple(topic.new_cluster(name, set("ABC") - {name}, variant=variant) for name in "ABC")
    clusters = with_cluster(clusters, topic.connect(topic.subscribe(named(clusters, "A"), "s", replicated=True), "s"))
    clusters = published(clusters, 3)
    clusters = with_cluster(clusters, topic.begin(named(clusters, "A")))
    clusters = drained(published(clusters, 3), "A", "B")
    clusters = drained(published(clusters, 1), "B", "A")
    clusters = drained(clusters, "A", "C")
    clusters = drained(published(clusters, 1), "C", "A")
    return drained(drained(clusters, "A", "B"), "A", "C")


def published(clusters: Clusters, number: int) -> Clusters:
    """The clusters with this many more messages in A."""
    cluster = named(clusters, "A")
    for _ in range(number):
        cluster = topic.publish(cluster)
    return with_cluster(clusters, cluster)


def drained(clusters: Clusters, owner: str, remote: str) -> Clusters:
    """The clusters when a replicator has nothing more to do."""
    while (position := next_position(named(clusters, owner), named(clusters, owner).link(remote))) is not None:
        clusters = go_on(clusters, owner, remote, position)
    return clusters


def at_rest(clusters: Clusters) -> Clusters:
    """The clusters once nothing is in flight."""
    before = None
    while before != clusters:
        before = clusters
        for owner, remote in permutations("ABC", 2):
            clusters = drained(clusters, owner, remote)
    return clusters


def all_acknowledged(clusters: Clusters) -> Clusters:
    """The clusters when the consumer of s in A has read everything, and acknowledged it."""
    cluster = named(clusters, "A")
    while (subscription := subscription_of(cluster)).read <= cluster.last:
        cluster = topic.read(cluster, "s")
    cluster = topic.acknowledge(cluster, "s", subscription.unacknowledged[-1], cumulative=True)
    return with_cluster(clusters, cluster)


def subscription_of(cluster: Cluster) -> Subscription:
    subscription = cluster.subscription("s")
    assert subscription is not None
    return subscription


def snapshot_of(clusters: Clusters) -> Snapshot:
    (snapshot,) = [entry.item for entry in named(clusters, "A").log if isinstance(entry.item, Snapshot)]
    return snapshot


def test_a_later_response_of_the_same_cluster_changes_nothing() -> None:
    waiting = pending(snapshots.answered(new_builder("B", "C"), "B", answer(6), stored_at=6))
    assert snapshots.answered(waiting, "B", answer(9), stored_at=9) == waiting


def test_a_response_of_another_round_changes_nothing() -> None:
    builder = new_builder("B", "C")
    assert snapshots.answered(builder, "B", answer(6, round=2), stored_at=6) is builder


def test_a_cache_keeps_the_newest_snapshots_by_local_position_in_any_order() -> None:
    cache: Cache = ()
    for local in (5, 9, 3, 7):
        cache = snapshots.cached(cache, Snapshot(f"A#{local}", local, ()), limit=3)
    assert [one.local for one in cache] == [5, 7, 9]


def test_snapshots_before_mark_delete_leave_the_cache_and_the_last_one_is_published() -> None:
    cache = tuple(Snapshot(f"A#{local}", local, ()) for local in (3, 5, 9))
    assert snapshots.passed(cache, 2) == (cache, None)
    assert snapshots.passed(cache, 5) == (cache[2:], cache[1])
    assert snapshots.passed(cache, 9) == ((), cache[2])
