"""An update that creates a subscription at the end of the topic: who is ahead by that, there and in other clusters."""

from __future__ import annotations

from dataclasses import replace

from model.cluster_events import ClusterCursor, SnapshotRequest, SnapshotResponse, SnapshotTaken, SubscriptionUpdated
from model.deviations.replication import UPDATE_CREATES_AT_LATEST
from model.judgement import Broken
from tests.model.replication.test_small_logs import CURSORS, TOPIC, TWO, Told, at, deviates, judged

MORE = replace(TOPIC, published={"A": ("a0", "a1")}, is_settled=False)
"""a1 is published, and nobody acknowledges it."""


def test_a_subscription_that_was_created_behind_its_position_is_ahead_by_a_deviation() -> None:
    """B has a1 as well when the update comes, and the subscription that it creates begins behind that."""
    logs = {"A": [*TWO["A"], ("A", "a1")], "B": [*TWO["B"], ("A", "a1")]}
    cursors = {**CURSORS, "B": ClusterCursor(subscription="sub", mark_delete=at("B", 4))}
    deviates("REPL-14", UPDATE_CREATES_AT_LATEST, logs, topic=MORE, cursors=cursors)
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
"""B, whose subscription was created behind a1, makes a snapshot, passes it, and publishes that."""


def test_what_it_skipped_is_skipped_in_the_other_cluster_too_once_it_publishes_how_far_it_is() -> None:
    passed = {
        "A": ClusterCursor(subscription="sub", mark_delete=at("A", 6)),
        "B": ClusterCursor(subscription="sub", mark_delete=at("B", 7)),
    }
    because = deviates("REPL-14", UPDATE_CREATES_AT_LATEST, PUBLISHED_AGAIN, topic=MORE, cursors=passed)
    assert because.startswith("A holds a1 for acknowledged")


def test_a_cluster_is_not_ahead_by_it_with_what_the_other_one_did_not_skip() -> None:
    only_there = {**CURSORS, "A": ClusterCursor(subscription="sub", mark_delete=at("A", 6))}
    found = judged(PUBLISHED_AGAIN, topic=MORE, cursors=only_there)
    assert isinstance(found, Broken)
    assert (found.rule, found.deviation) == ("REPL-14", None)
