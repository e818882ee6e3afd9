"""Markers on topics that should have none: a request without a remote cluster is a deviation, the others are not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from model.cluster_events import Marker, SnapshotRequest, SnapshotTaken, SubscriptionUpdated
from model.deviations import DEVIATIONS
from model.deviations.replication import REQUEST_WITHOUT_REMOTE_CLUSTER
from model.judgement import Allowed
from tests.model.replication.test_small_logs import TOPIC, Told, at, deviates, judged, verdict

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
    because = deviates("REPL-18", REQUEST_WITHOUT_REMOTE_CLUSTER, logs_with(ASKING), topic=ALONE, cursors={})
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
    assert verdict(requests) == (REQUEST_WITHOUT_REMOTE_CLUSTER,)


def test_the_deviation_explains_no_request_on_a_replicated_topic() -> None:
    unreplicated = replace(ALONE, is_replicated=True, own={("sub", "A"): False})
    found = judged(logs_with(ASKING), topic=unreplicated, cursors={})
    assert verdict(found) == ("REPL-18", None)


def test_a_request_during_a_cut_breaks_nothing_more_because_there_is_no_replicator() -> None:
    known = frozenset({REQUEST_WITHOUT_REMOTE_CLUSTER})
    cut = replace(ALONE, cut={("A", "B"): ((0, None),)})
    found = judged(logs_with(ASKING), topic=cut, cursors={}, known=known, at_ms=5000)
    assert isinstance(found, Allowed)
    assert "REPL-03" not in found.exercised
