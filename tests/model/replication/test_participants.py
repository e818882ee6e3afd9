"""What takes no part in snapshots and updates (REPL-18): topics that have no markers, subscriptions that stay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from model.cluster_events import ClusterCursor, Marker, SnapshotRequest, SnapshotTaken, SubscriptionUpdated
from model.deviations import DEVIATIONS
from model.judgement import Allowed
from tests.model.replication.test_small_logs import CURSORS, TOPIC, TWO, Told, at, broken, deviates, judged, verdict

ALONE = replace(TOPIC, is_replicated=False, is_settled=False)
"""A topic without replication, with a replicated subscription in A."""

ASKING = (SnapshotRequest("s", "A"), SnapshotRequest("t", "A"))

KNOWN = frozenset(DEVIATIONS)


def logs_with(markers: Sequence[Marker], *, cluster: str = "A") -> dict[str, list[Told]]:
    """The logs of a topic with these markers in one cluster."""
    logs: dict[str, list[Told]] = {"A": [("A", "a0")], "B": []}
    logs[cluster] += [(cluster, marker) for marker in markers]
    return logs


def test_a_request_without_a_remote_cluster_is_a_deviation() -> None:
    because = deviates("REPL-18", "request-without-remote-cluster", logs_with(ASKING), topic=ALONE, cursors={})
    assert because.startswith("the topic is not replicated, but the log of A has 2 markers")


@pytest.mark.parametrize(
    ("markers", "cluster"),
    [
        (ASKING, "B"),
        ((*ASKING, SnapshotTaken("s", at("A", 1), {})), "A"),
        ((*ASKING, SubscriptionUpdated("sub", {})), "A"),
        ((*ASKING, ASKING[1]), "A"),
        ((SnapshotRequest("s", "B"),), "B"),
    ],
    ids=["its subscription is elsewhere", "a snapshot", "an update", "a second round", "of another cluster"],
)
def test_the_deviation_explains_no_other_marker(markers: tuple[Marker, ...], cluster: str) -> None:
    found = judged(logs_with(markers, cluster=cluster), topic=ALONE, cursors={}, known=KNOWN)
    assert verdict(found) == ("REPL-18", None)
    requests = judged(logs_with(ASKING), topic=ALONE, cursors={}, known=KNOWN)
    assert verdict(requests) == ("request-without-remote-cluster",)


def test_the_deviation_explains_no_request_on_a_replicated_topic() -> None:
    unreplicated = replace(ALONE, is_replicated=True, own={("sub", "A"): False})
    found = judged(logs_with(ASKING), topic=unreplicated, cursors={})
    assert verdict(found) == ("REPL-18", None)


def test_a_request_during_a_cut_breaks_nothing_more_because_there_is_no_replicator() -> None:
    known = frozenset({"request-without-remote-cluster"})
    cut = replace(ALONE, cut={("A", "B"): ((0, None),)})
    found = judged(logs_with(ASKING), topic=cut, cursors={}, known=known, at_ms=5000)
    assert isinstance(found, Allowed)
    assert "REPL-03" not in found.exercised


def test_a_subscription_that_is_not_replicated_appears_in_no_other_cluster() -> None:
    rule, because = broken(judged(TWO, topic=replace(TOPIC, own={("sub", "A"): False})))
    assert (rule, because) == ("REPL-18", "B has subscription sub of another cluster, but it is not replicated")


def test_an_update_of_an_unreplicated_subscription_with_the_same_name_is_a_deviation() -> None:
    own = {("sub", "A"): True, ("sub", "B"): False}
    topic = replace(TOPIC, own=own, is_settled=False)
    unloaded = {**CURSORS, "B": ClusterCursor(subscription="sub", mark_delete=at("B", 1), is_replicated=False)}
    found = judged(TWO, topic=topic, cursors=unloaded)
    assert verdict(found) == ("REPL-18", "update-of-unreplicated-subscription")
    stays = {**CURSORS, "B": ClusterCursor(subscription="sub", mark_delete=at("B", -1), is_replicated=False)}
    for here, cursors in (
        (replace(topic, acknowledged_at={("sub", "B"): frozenset({"a0"})}), unloaded),
        (topic, stays),
    ):
        allowed = judged(TWO, topic=here, cursors=cursors)
        assert isinstance(allowed, Allowed)
        assert "REPL-18" in allowed.exercised


def test_an_update_moves_an_unreplicated_subscription_only_up_to_its_position() -> None:
    """a1 is after the position of A's update. A's consumer acknowledged it, and none of B did."""
    logs: dict[str, list[Told]] = {"A": [*TWO["A"], ("A", "a1")], "B": [*TWO["B"], ("A", "a1")]}
    topic = replace(
        TOPIC,
        published={"A": ("a0", "a1")},
        acknowledged_at={("sub", "A"): frozenset({"a0", "a1"})},
        own={("sub", "A"): True, ("sub", "B"): False},
        is_settled=False,
    )
    for entry, is_excused in ((1, True), (4, False)):
        moved = ClusterCursor(subscription="sub", mark_delete=at("B", entry), is_replicated=False)
        found = judged(logs, topic=topic, cursors={**CURSORS, "B": moved}, known=KNOWN)
        assert verdict(found) == (("update-of-unreplicated-subscription",) if is_excused else ("REPL-18", None))
