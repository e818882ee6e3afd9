"""One cluster of the reference, step by step, where a step is easier to read than an exploration."""

from __future__ import annotations

import pytest

from model.replication import cluster as topic
from model.replication.cluster import Cluster, Link, LinkState
from model.replication.entries import Entry, Message, Request, Response, Snapshot, Update
from model.replication.subscription import Subscription


def consuming(messages: int) -> Cluster:
    """A cluster with remote cluster B, some messages and a replicated subscription whose consumer received them all."""
    cluster = topic.connect(topic.subscribe(topic.new_cluster("A", ("B",)), "s", replicated=True), "s")
    for _ in range(messages):
        cluster = topic.publish(cluster)
    return everything_read(cluster)


def everything_read(cluster: Cluster) -> Cluster:
    while subscription(cluster).read <= cluster.last:
        cluster = topic.read(cluster, "s")
    return cluster


def subscription(cluster: Cluster, name: str = "s") -> Subscription:
    found = cluster.subscription(name)
    assert found is not None
    return found


def with_snapshot(cluster: Cluster, local: int, position: int) -> Cluster:
    """The cluster with a snapshot in its log, which was read."""
    entry = Entry("A", len(cluster.log), Snapshot(f"A#{local}", local, (("B", position),)))
    return everything_read(topic.receive(cluster, entry))


def updates(cluster: Cluster) -> list[Update]:
    return [entry.item for entry in cluster.log if isinstance(entry.item, Update)]


def test_markers_are_acknowledged_when_read_and_advance_mark_delete() -> None:
    cluster = topic.acknowledge(consuming(1), "s", 0)
    cluster = everything_read(topic.begin(cluster))
    assert subscription(cluster).mark_delete == cluster.last == 1
    assert subscription(cluster).unacknowledged == ()


def test_an_ack_publishes_a_snapshot_only_once_it_closes_the_gap() -> None:
    cluster = topic.acknowledge(with_snapshot(consuming(2), local=1, position=7), "s", 1)
    assert updates(cluster) == []
    assert updates(topic.acknowledge(cluster, "s", 0)) == [Update("s", (("B", 7),))]


def test_a_snapshot_read_after_mark_delete_passed_it_waits_for_the_next_advance() -> None:
    cluster = topic.acknowledge(consuming(2), "s", 0)
    cluster = with_snapshot(cluster, local=0, position=5)
    assert updates(cluster) == []
    assert updates(topic.acknowledge(cluster, "s", 1)) == [Update("s", (("B", 5),))]


def test_a_snapshot_read_when_everything_is_acknowledged_is_published_at_once() -> None:
    cluster = topic.acknowledge(consuming(1), "s", 0)
    assert updates(with_snapshot(cluster, local=0, position=5)) == [Update("s", (("B", 5),))]


def test_a_reloaded_topic_keeps_the_snapshots_it_does_not_read_again() -> None:
    cluster = with_snapshot(consuming(1), local=0, position=5)
    kept = subscription(cluster)
    cluster = topic.restart(cluster, {"s": (kept.mark_delete, kept.individual)}, cluster.links)
    assert subscription(cluster).cache == kept.cache
    assert updates(topic.acknowledge(everything_read(cluster), "s", 0)) == [Update("s", (("B", 5),))]


def test_an_update_creates_a_missing_subscription_acknowledged_up_to_its_position() -> None:
    there = topic.publish(topic.publish(topic.new_cluster("B", ("A",))))
    there = topic.update(there, Update("s", (("B", 0),)))
    assert (subscription(there).mark_delete, subscription(there).replicated) == (0, True)
    there = everything_read(topic.connect(there, "s"))
    assert [there.log[position].item for position in subscription(there).unacknowledged] == [Message("B", 2)]


def test_an_update_never_moves_a_subscription_backwards() -> None:
    there = topic.update(consuming(3), Update("s", (("A", 2),)))
    assert topic.update(there, Update("s", (("A", 1),))) == there


def test_an_update_without_a_position_for_this_cluster_changes_nothing() -> None:
    there = consuming(1)
    assert topic.update(there, Update("t", (("C", 0),))) == there


def test_a_response_names_the_last_position_before_itself() -> None:
    there = topic.answer(topic.new_cluster("B", ("A",)), Request("A#1", 1), asked_by="A")
    assert there.log[-1].item == Response("A#1", 1, "A", -1)


def test_a_snapshot_needs_a_message_a_connected_replicator_and_a_replicated_subscription() -> None:
    cluster = consuming(1)
    assert topic.may_begin(cluster)
    assert not topic.may_begin(consuming(0))
    assert not topic.may_begin(topic.with_link(cluster, Link(remote="B", state=LinkState.CUT)))
    assert not topic.may_begin(topic.publish(topic.subscribe(topic.new_cluster("A", ("B",)), "s", replicated=False)))


def test_an_impossible_step_is_one_sentence() -> None:
    cluster = consuming(1)
    with pytest.raises(ValueError, match="there is nothing to read for s in A"):
        topic.read(cluster, "s")
    with pytest.raises(ValueError, match="nothing is to be acknowledged for t at 0 in A"):
        topic.acknowledge(cluster, "t", 0)
    with pytest.raises(ValueError, match="there is no subscription t in A"):
        topic.connect(cluster, "t")
    with pytest.raises(ValueError, match="there is no subscription t in A"):
        topic.disconnect(cluster, "t")
    with pytest.raises(KeyError, match="A has no replicator to C"):
        cluster.link("C")
