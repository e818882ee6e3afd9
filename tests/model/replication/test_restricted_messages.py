"""Messages that are restricted to some clusters, and updates of clusters that do not have them."""

from __future__ import annotations

from dataclasses import replace

from model.cluster_events import ClusterCursor, SnapshotRequest, SnapshotResponse, SnapshotTaken, SubscriptionUpdated
from model.deviations.replication import UPDATE_CREATES_AT_LATEST, UPDATE_PASSES_RESTRICTED_MESSAGES
from model.judgement import Allowed, Broken
from tests.model.replication.test_small_logs import CURSORS, TOPIC, Told, at, deviates, judged

ONLY_IN_B: dict[str, list[Told]] = {
    "A": [
        ("A", "a0"),
        ("A", SnapshotRequest("s", "A")),
        ("B", SnapshotResponse("s", "B", at("B", 2))),
        ("A", SnapshotTaken("s", at("A", 2), {"B": at("B", 2)})),
        ("A", SubscriptionUpdated("sub", {"B": at("B", 2)})),
    ],
    "B": [
        ("B", "b0"),
        ("A", "a0"),
        ("A", SnapshotRequest("s", "A")),
        ("B", SnapshotResponse("s", "B", at("B", 2))),
        ("A", SubscriptionUpdated("sub", {"B": at("B", 2)})),
        ("B", "b1"),
    ],
}
"""b0 and b1 stay in B. The update of A passes b0."""

PUBLISHED = replace(
    TOPIC,
    published={"A": ("a0",), "B": ("b0", "b1")},
    restricted={"b0": frozenset({"B"}), "b1": frozenset({"B"})},
    is_settled=False,
)


def test_an_update_may_pass_only_messages_that_its_source_may_not_have() -> None:
    cursors = {**CURSORS, "B": ClusterCursor(subscription="sub", mark_delete=at("B", 2))}
    because = deviates("REPL-14", UPDATE_PASSES_RESTRICTED_MESSAGES, ONLY_IN_B, topic=PUBLISHED, cursors=cursors)
    assert because.startswith("B has b0 as acknowledged")
    known = frozenset({UPDATE_PASSES_RESTRICTED_MESSAGES})
    further = {**CURSORS, "B": ClusterCursor(subscription="sub", mark_delete=at("B", 5))}
    created_before = replace(PUBLISHED, own={("sub", "B"): True})
    after_the_update = judged(ONLY_IN_B, topic=created_before, cursors=further, known=known)
    may_be_there = replace(PUBLISHED, restricted={"b0": frozenset({"A", "B"}), "b1": frozenset({"B"})})
    at_its_source = judged(ONLY_IN_B, topic=may_be_there, cursors=cursors, known=known)
    for found in (after_the_update, at_its_source):
        assert isinstance(found, Broken)
        assert (found.rule, found.deviation) == ("REPL-14", None)


def test_each_missed_message_needs_a_deviation_of_its_own() -> None:
    """The update passes b0, which A may not have; B created the subscription at its end, and skipped b1."""
    further = {**CURSORS, "B": ClusterCursor(subscription="sub", mark_delete=at("B", 5))}
    both = frozenset({UPDATE_PASSES_RESTRICTED_MESSAGES, UPDATE_CREATES_AT_LATEST})
    assert isinstance(judged(ONLY_IN_B, topic=PUBLISHED, cursors=further, known=both), Allowed)
    for known in both:
        found = judged(ONLY_IN_B, topic=PUBLISHED, cursors=further, known=frozenset({known}))
        assert isinstance(found, Broken)
        assert {found.deviation} == both - {known}
