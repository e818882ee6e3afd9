"""Which histories lanes replay side by side, and which need clusters of a lane's own for that."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from conformance.engine.lanes.replay import can_share_broker, has_further_clusters
from model.cluster_operations import CutLink, LoseCluster, RecoverCluster
from model.operations import AnyOperation, CreateTopic, Kill, Restart, TakeOver, Unload

ALONE, IN_CLUSTERS, AT_HOME = CreateTopic("t0"), CreateTopic("t0", clusters=3), CreateTopic("t0", home="A")


@pytest.mark.parametrize(
    ("operations", "may_share"),
    [
        ([ALONE, Unload("t0")], True),
        ([ALONE, Unload("t0", classic=True)], False),
        ([ALONE, Kill()], False),
        ([ALONE, Restart()], False),
        ([ALONE, TakeOver("t0", "kill")], False),
        ([IN_CLUSTERS, CutLink("A", "B"), LoseCluster("C"), RecoverCluster("C")], True),
        ([IN_CLUSTERS, Kill(cluster="A"), Restart(cluster="B")], True),
        ([AT_HOME, Kill()], False),
    ],
)
def test_lanes_replay_what_concerns_their_own_topics_and_clusters(
    operations: Sequence[AnyOperation], may_share: bool
) -> None:
    assert can_share_broker(operations) is may_share


def test_a_topic_in_several_clusters_needs_further_clusters() -> None:
    assert [has_further_clusters([one]) for one in (ALONE, IN_CLUSTERS, AT_HOME)] == [False, True, True]
