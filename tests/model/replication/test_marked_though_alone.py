"""Markers on topics that are to have none: a deviation where a cluster asks nobody, and nothing else is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from model.cluster_events import Marker, SnapshotRequest, SnapshotTaken, SubscriptionUpdated
from model.deviations.replication import REQUEST_WITHOUT_REMOTE_CLUSTER
from model.judgement import Allowed, Broken
from tests.model.replication.test_small_logs import TOPIC, Told, at, deviates, judged

ALONE = replace(TOPIC, is_replicated=False, is_settled=False)
"""A topic that is not replicated, with a replicated subscription in A."""

ASKING = (SnapshotRequest("s", "A"), SnapshotRequest("t", "A"))


def told(markers: Sequence[Marker], *, cluster: str = "A") -> dict[str, list[Told]]:
    """The logs of a topic with these markers in one cluster."""
    logs: dict[str, list[Told]] = {"A": [("A", "a0")], "B": []}
    logs[cluster] += [(cluster, marker) for marker in markers]
    return logs


def test_a_cluster_that_asks_nobody_does_so_by_a_deviation() -> None:
    because = deviates("REPL-18", REQUEST_WITHOUT_REMOTE_CLUSTER, told(ASKING), topic=ALONE, cursors={})
    assert because.startswith("the topic is not replicated, and A has 2 markers of the topic")


@pytest.mark.parametrize(
    ("markers", "cluster"),
    [
        (ASKING, "B"),
        ((*ASKING, SnapshotTaken("s", at("A", 1), {})), "A"),
        ((*ASKING, SubscriptionUpdated("sub", {})), "A"),
    ],
    ids=["its subscription is elsewhere", "it takes a snapshot", "it publishes an update"],
)
def test_no_other_marker_is_explained_by_it(markers: tuple[Marker, ...], cluster: str) -> None:
    found = judged(told(markers, cluster=cluster), topic=ALONE, cursors={})
    assert isinstance(found, Broken)
    assert (found.rule, found.deviation) == ("REPL-18", None)


def test_nor_where_the_topic_is_replicated_and_no_subscription_is() -> None:
    plain = replace(ALONE, is_replicated=True, own={("sub", "A"): False})
    found = judged(told(ASKING), topic=plain, cursors={})
    assert isinstance(found, Broken)
    assert (found.rule, found.deviation) == ("REPL-18", None)


def test_that_it_asks_while_a_link_is_cut_breaks_nothing_more_for_there_is_no_replicator() -> None:
    cut = replace(ALONE, cut={("A", "B"): ((0, None),)})
    found = judged(told(ASKING), topic=cut, cursors={}, known=frozenset({REQUEST_WITHOUT_REMOTE_CLUSTER}), at_ms=5000)
    assert isinstance(found, Allowed)
    assert "REPL-03" not in found.exercised
