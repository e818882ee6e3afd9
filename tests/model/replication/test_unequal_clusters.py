"""Topics that are not replicated in all directions: what each cluster may have, and what is kept (REPL-20)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from model.cluster_events import CaughtUp, ClusterCursor, SnapshotRequest, SnapshotResponse, SnapshotTaken
from model.cluster_operations import CatchUp
from model.deviations.replication import REQUEST_WITHOUT_REMOTE_CLUSTER
from model.judgement import Allowed, Broken
from model.replication.tracked import ClusterConsumer, ReplicatedTopic, Replication
from model.replication.tracker import judge
from tests.model.replication.test_small_logs import THREE, TOPIC, Told, at, broken, judged, replace_clusters

CHAIN = replace(
    TOPIC,
    made=replace_clusters(TOPIC, ("A", "B", "C")),
    only_links=(("A", "B"), ("B", "C")),
    published={"A": ("a0",), "B": ("b0",)},
    acknowledged_at={},
    own={("sub", "A"): True},
)
"""Messages go from A to B and from B to C, and nobody sends anything back."""
LOGS: dict[str, list[Told]] = {
    "A": [("A", "a0"), ("A", SnapshotRequest("s", "A"))],
    "B": [("A", "a0"), ("A", SnapshotRequest("s", "A")), ("B", "b0")],
    "C": [("B", "b0")],
}


def test_each_cluster_has_its_own_messages_and_those_of_the_clusters_that_replicate_to_it() -> None:
    verdict = judged(LOGS, topic=replace(CHAIN, is_settled=True), cursors={})
    assert isinstance(verdict, Allowed), verdict
    assert {"REPL-01", "REPL-18", "REPL-20"} <= set(verdict.exercised)


@pytest.mark.parametrize(
    ("cluster", "message"), [("A", ("B", "b0")), ("C", ("A", "a0"))], ids=["sent back", "passed on"]
)
def test_no_message_goes_where_its_cluster_does_not_replicate_to(cluster: str, message: Told) -> None:
    rule, because = broken(judged({**LOGS, cluster: [*LOGS[cluster], message]}, topic=CHAIN, cursors={}))
    assert rule == "REPL-01"
    assert "which does not replicate to it" in because


def test_a_message_that_a_link_should_have_replicated_is_missed() -> None:
    assert broken(judged({**LOGS, "C": []}, topic=replace(CHAIN, is_settled=True), cursors={}))[0] == "REPL-01"


def test_equal_clusters_exercise_nothing_of_unequal_ones() -> None:
    verdict = judged(THREE, topic=replace(CHAIN, only_links=()), cursors={})
    assert isinstance(verdict, Broken) or "REPL-20" not in verdict.exercised


def test_a_snapshot_has_a_response_of_each_cluster_that_its_own_replicates_to() -> None:
    asked: list[Told] = [("A", "a0"), ("A", SnapshotRequest("s", "A"))]
    response: Told = ("B", SnapshotResponse("s", "B", at("B", 1)))
    taken: Told = ("A", SnapshotTaken("s", at("A", 2), {"B": at("B", 1)}))
    there_and_back = (("A", "B"), ("B", "A"))
    published = {"A": ("a0",)}
    logs: dict[str, list[Told]] = {"A": [*asked, response, taken], "B": [*asked, response], "C": []}
    of_b = replace(CHAIN, only_links=there_and_back, published=published)
    assert isinstance(judged(logs, topic=of_b, cursors={}), Allowed)
    of_both = replace(of_b, only_links=(*there_and_back, ("A", "C")))
    rule, because = broken(judged({**logs, "C": asked}, topic=of_both, cursors={}))
    assert (rule, "no position of C" in because) == ("REPL-09", True)


def test_a_cluster_that_replicates_to_none_writes_no_marker() -> None:
    logs: dict[str, list[Told]] = {**LOGS, "C": [("B", "b0"), ("C", SnapshotRequest("c", "C"))]}
    with_own = replace(CHAIN, own={("sub", "A"): True, ("sub", "C"): True})
    cursors = {"C": ClusterCursor(subscription="sub", mark_delete=at("C", -1))}
    rule, because = broken(judged(logs, topic=with_own, cursors=cursors))
    assert (rule, "the log of C has 1 markers" in because) == ("REPL-18", True)
    verdict = judged(logs, topic=with_own, cursors=cursors, known=frozenset({REQUEST_WITHOUT_REMOTE_CLUSTER}))
    assert isinstance(verdict, Allowed)
    assert isinstance(judged(logs, topic=CHAIN, cursors={}), Broken)


def test_a_subscription_comes_only_to_clusters_that_others_replicate_to() -> None:
    there = {label: ClusterCursor(subscription="sub", mark_delete=at(label, -1)) for label in "AB"}
    assert isinstance(judged(LOGS, topic=CHAIN, cursors=there), Allowed)
    by_b = replace(CHAIN, own={("sub", "B"): True})
    assert broken(judged(LOGS, topic=by_b, cursors=there))[0] == "REPL-18"


def test_a_catch_up_acknowledges_only_what_came_to_its_cluster() -> None:
    consumer = ClusterConsumer(cluster="B", topic="t", subscription="sub")
    state = Replication(topics={"t": CHAIN}, consumers={"k": consumer})
    caught = judge(state, CatchUp("k", prefix="c"), CaughtUp(0.0, ("c0",)), frozenset())
    assert isinstance(caught, Allowed)
    topic: ReplicatedTopic = caught.state.topics["t"]
    assert topic.acknowledged("sub") == {"a0", "b0", "c0"}
    at_c = judge(
        Replication(topics={"t": CHAIN}, consumers={"k": replace(consumer, cluster="C")}),
        CatchUp("k", prefix="c"),
        CaughtUp(0.0, ()),
        frozenset(),
    )
    assert isinstance(at_c, Allowed)
    assert at_c.state.topics["t"].acknowledged("sub") == {"b0"}
