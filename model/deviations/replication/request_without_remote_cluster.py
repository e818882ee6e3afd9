from __future__ import annotations

from model.cluster_events import SnapshotRequest
from model.deviation import Deviation, Shadow
from model.deviations.clusters import explaining
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.replication.evidence import Findings, MarkersOfNone

ENTRY = Deviation(
    name="request-without-remote-cluster",
    aliases=("marked-though-alone",),
    rule="REPL-18",
    statement="For a replicated subscription of a topic that is not replicated, the broker writes a snapshot request in every period while the topic is loaded. The backlog counts these markers.",
    cause="PersistentTopic.checkReplicatedSubscriptionControllerState creates a controller for a replicated subscription without a check for remote clusters (2.11.0, read in its bytecode). ReplicatedSubscriptionsSnapshotBuilder.start writes the request before it looks for clusters to ask. No snapshot completes, so there always seems to be something new. Fixed by apache/pulsar#21495.",
    upstream=("apache/pulsar#21495",),
    side="broker",
    releases=(">=2.9.0,<=3.1.0",),
    seen=("2.11.0", "2.10.5", "2.10.1", "3.0.2", "3.1.0", "3.0.0", "2.10.0", "2.9.1", "2.9.0"),
    gone=("3.3.6", "4.0.8"),
    shadow=Shadow(
        name="test_the_deviation_explains_no_other_marker",
        by="small history",
        statement="A second request for a snapshot that no cluster answered is found, and so is any marker other than a request.",
        missed_before=True,
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    return explaining(ENTRY, broken, _is_explained)


def _is_explained(found: Findings, about: object) -> bool:
    """Whether a cluster with a replicated subscription has nothing but the first request of one snapshot each."""
    match about:
        case MarkersOfNone(cluster, markers):
            asked = [
                one.marker.snapshot
                for one in markers
                if isinstance(one.marker, SnapshotRequest) and one.origin == cluster
            ]
            has_replicated = any(is_replicated for (_, at), is_replicated in found.topic.own.items() if at == cluster)
            return has_replicated and len(set(asked)) == len(markers)
        case _:
            return False
