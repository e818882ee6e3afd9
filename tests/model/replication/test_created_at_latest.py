"""An update that creates a subscription at the end of the topic: which clusters are ahead because of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from model.cluster_events import ClusterCursor, SnapshotRequest, SnapshotResponse, SnapshotTaken, SubscriptionUpdated
from model.deviations import DEVIATIONS
from model.judgement import Broken
from tests.model.replication.test_small_logs import CURSORS, TOPIC, TWO, Told, and_then, at, deviates, judged, verdict

MORE = replace(TOPIC, published={"A": ("a0", "a1")}, is_settled=False)
"""a1 is published, and nobody acknowledges it."""


def test_a_subscription_created_at_the_latest_position_is_ahead_by_a_deviation() -> None:
    """a1 is in B before the update arrives, and the subscription that the update creates starts after it."""
    logs = {"A": [*TWO["A"], ("A", "a1")], "B": [*TWO["B"], ("A", "a1")]}
    cursors = {**CURSORS, "B": ClusterCursor(subscription="sub", mark_delete=at("B", 4))}
    deviates("REPL-14", "update-creates-at-latest", logs, topic=MORE, cursors=cursors)
    unexplained = judged(logs, topic=replace(MORE, acknowledged_at={}), cursors=cursors)
    assert isinstance(unexplained, Broken)
    assert unexplained.deviation is None


PUBLISHED_AGAIN: dict[str, list[Told]] = {
    "A": [
        *TWO["A"],
        ("A", "a1"),
        ("B", SnapshotRequest("t", "B")),
        ("A", SnapshotResponse("t", "A", at("A", 6))),
        ("B", SubscriptionUpdated("sub", {"A": at("A", 6)})),
    ],
    "B": [
        *TWO["B"],
        ("A", "a1"),
        ("B", SnapshotRequest("t", "B")),
        ("A", SnapshotResponse("t", "A", at("A", 6))),
        ("B", SnapshotTaken("t", at("B", 6), {"A": at("A", 6)})),
        ("B", SubscriptionUpdated("sub", {"A": at("A", 6)})),
    ],
}
"""B, whose subscription was created after a1, takes a snapshot, passes it, and publishes an update."""


AND_A2 = and_then(PUBLISHED_AGAIN, "A", ("A", "a2"))


def test_messages_it_skipped_are_skipped_in_the_other_cluster_after_its_update() -> None:
    passed = {
        "A": ClusterCursor(subscription="sub", mark_delete=at("A", 6)),
        "B": ClusterCursor(subscription="sub", mark_delete=at("B", 7)),
    }
    because = deviates("REPL-14", "update-creates-at-latest", PUBLISHED_AGAIN, topic=MORE, cursors=passed)
    assert because.startswith("A has a1 as acknowledged")


@pytest.mark.parametrize(
    ("logs", "at_a", "at_b", "is_excused"),
    [
        (AND_A2, 6, 7, True),
        (AND_A2, 9, 7, False),
        (AND_A2, 6, 1, False),
        ({"A": [*TWO["A"], ("A", "a1")], "B": [*TWO["B"], ("A", "a1")]}, 5, 4, False),
    ],
    ids=["up to its update", "after it", "not skipped there", "without its update"],
)
def test_a_cluster_where_a_consumer_created_the_subscription_skips_only_what_an_update_passes(
    logs: dict[str, list[Told]], at_a: int, at_b: int, is_excused: bool
) -> None:
    """A update created the subscription in B after a1. A has it from its own consumer."""
    cursors = {
        "A": ClusterCursor(subscription="sub", mark_delete=at("A", at_a)),
        "B": ClusterCursor(subscription="sub", mark_delete=at("B", at_b)),
    }
    topic = replace(MORE, published={"A": ("a0", "a1", "a2")})
    found = judged(logs, topic=topic, cursors=cursors, known=frozenset(DEVIATIONS))
    assert verdict(found) == (("update-creates-at-latest",) if is_excused else ("REPL-14", None))
