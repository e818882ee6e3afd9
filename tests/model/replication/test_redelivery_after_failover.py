"""Messages delivered again after a failover: none up to the position of the subscription's last update (REPL-15)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from model.cluster_events import ClusterRead, ClustersRead
from model.cluster_operations import CatchUp, ReadClusters
from model.events import Delivery, ReceivedMessages, Subscribed
from model.judgement import Allowed, Broken
from model.log import Position
from model.replication.example_end import LAST, OVER, winding_up_clusters
from model.replication.tracked import ReplicatedTopic, Replication
from model.replication.tracker import judge
from model.subscription_operations import Receive, Subscribe
from tests.model.replication.test_small_logs import CURSORS, TOPIC, TWO, Told, at, log

JOIN = Subscribe("k1", "t", "sub", kind="Exclusive", cluster="B", is_replicated=True)
BEHIND: Told = ("A", "a1")
LOGS = {"A": [*TWO["A"], BEHIND], "B": [*TWO["B"], BEHIND]}
"""Message a1 is after the snapshot whose update moved B to entry 1. It is acknowledged at A, like a0."""
ALL = replace(TOPIC, published={"A": ("a0", "a1")}, acknowledged_at={("sub", "A"): frozenset({"a0", "a1"})})


def read_back(topic: ReplicatedTopic, *, is_quiet: bool = True) -> Replication:
    """The state after all logs were read."""
    clusters = {
        label: ClusterRead(entries=log(label, entries, times_ms={}), cursors=(CURSORS[label],))
        for label, entries in LOGS.items()
    }
    found = judge(Replication(topics={"t": topic}), ReadClusters("t"), ClustersRead(clusters, is_quiet=is_quiet))
    assert isinstance(found, Allowed)
    return found.state


def given(state: Replication, *messages: tuple[str, Position]) -> Allowed[Replication] | Broken:
    """A consumer subscribes in B and receives these messages."""
    joined = judge(state, JOIN, Subscribed())
    assert isinstance(joined, Allowed)
    outcome = ReceivedMessages(tuple(Delivery(position, -1, 0, message) for message, position in messages))
    return judge(joined.state, Receive("k1", 100), outcome)


def test_messages_after_the_last_update_may_be_delivered_again_after_a_failover() -> None:
    found = given(read_back(ALL), ("a1", at("B", 4)))
    assert isinstance(found, Allowed)
    assert "REPL-15" in found.exercised


def test_messages_before_the_last_update_may_not_be_delivered_again() -> None:
    found = given(read_back(ALL), ("a0", at("B", 0)), ("a1", at("B", 4)))
    assert isinstance(found, Broken)
    assert (found.rule, found.because) == (
        "REPL-15",
        "a0 was delivered again at 2:0 of B, although an update had moved sub to 2:1",
    )


@pytest.mark.parametrize(
    ("topic", "is_quiet"),
    [
        (ALL, False),
        (replace(ALL, killed=frozenset({"B"})), True),
        (replace(ALL, own={("sub", "A"): True, ("sub", "B"): False}), True),
    ],
    ids=["before the update has taken effect", "that a cluster forgot", "that is not replicated there"],
)
def test_these_updates_promise_nothing(topic: ReplicatedTopic, is_quiet: bool) -> None:
    found = given(read_back(topic, is_quiet=is_quiet), ("a0", at("B", 0)))
    assert isinstance(found, Allowed)
    assert "REPL-15" not in found.exercised


def test_a_message_delivered_before_the_update_is_not_a_repetition() -> None:
    """A consumer that subscribed earlier may have received it before and hands it over only now."""
    before = judge(read_back(ALL, is_quiet=False), JOIN, Subscribed())
    assert isinstance(before, Allowed)
    quiet = judge(before.state, ReadClusters("t"), read_of(before.state))
    assert isinstance(quiet, Allowed)
    taken = judge(quiet.state, Receive("k1", 1), ReceivedMessages((Delivery(at("B", 0), -1, 0, "a0"),)))
    assert isinstance(taken, Allowed)


def test_an_example_that_ends_quietly_fails_over_to_every_other_cluster() -> None:
    ended = list(winding_up_clusters(lambda: read_back(ALL), "t"))
    over = [one for one in ended if isinstance(one, Subscribe) and one.consumer.startswith(OVER)]
    assert [(one.cluster, one.subscription) for one in over] == [("B", "sub")]
    assert ended.index(Receive(over[0].consumer, 100)) == ended.index(over[0]) + 1


def test_an_example_that_does_not_end_quietly_only_catches_up() -> None:
    ended = list(winding_up_clusters(lambda: read_back(ALL, is_quiet=False), "t"))
    assert [one.consumer for one in ended if isinstance(one, Subscribe)] == [f"{LAST}-t"]


def test_a_replayed_end_of_an_example_publishes_under_other_names() -> None:
    def prefix_of(*published: str) -> str:
        topic = replace(ALL, published={"A": ("a0", "a1", *published)})
        (last,) = (
            one
            for one in winding_up_clusters(lambda: read_back(topic, is_quiet=False), "t")
            if isinstance(one, CatchUp)
        )
        return last.prefix

    assert prefix_of() == "t-last-"
    assert prefix_of("t-last-0", "t-last-1") == "t-last-2-"


def read_of(state: Replication) -> ClustersRead:
    found = state.topics["t"].read
    assert found is not None
    return ClustersRead(found.clusters, is_quiet=True)
