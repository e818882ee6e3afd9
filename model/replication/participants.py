"""The topics and subscriptions that take part in snapshots and updates, by the logs of all clusters (REPL-18)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from model.cluster_events import ClusterCursor, ClusterEntry, SnapshotRequest
from model.deviations.replication import REQUEST_WITHOUT_REMOTE_CLUSTER, UPDATE_OF_UNREPLICATED_SUBSCRIPTION
from model.replication.evidence import CheckResult, Deviating
from model.replication.logs import Log, Logs
from model.replication.tracked import ReplicatedTopic
from model.rules.catalogue import carries


@carries("REPL-18")
def only_what_takes_part(topic: ReplicatedTopic, logs: Logs) -> Iterator[CheckResult]:
    """A topic without replication, or without a replicated subscription, has no markers.

    A subscription that is not replicated exists in no other cluster. Updates of its name do not move it.
    """
    for log in topic.left(logs):
        cluster = log.cluster
        for cursor in log.read.cursors:
            is_plain = not cursor.is_replicated and topic.own.get((cursor.subscription, cluster)) is False
            if is_plain and topic.is_replicated_subscription(cursor.subscription):
                yield _moved(topic, log, cursor)
            if (cursor.subscription, cluster) in topic.own:
                continue
            may_come = any(target == cluster for _, target in topic.links_so_far)
            if not (may_come and topic.is_replicated_subscription(cursor.subscription)):
                yield f"{cluster} has subscription {cursor.subscription} of another cluster, but it is not replicated"
    yield from _unasked_markers(topic, logs)
    for (subscription, _), is_replicated in topic.own.items():
        if not is_replicated and not topic.is_replicated_subscription(subscription):
            yield None


def _moved(topic: ReplicatedTopic, log: Log, cursor: ClusterCursor) -> CheckResult:
    """Whether anything but the acks of its own consumers moved a subscription that is not replicated.

    Updates of its name may have moved it up to their positions.
    """
    own = topic.acknowledged_at.get((cursor.subscription, log.cluster), frozenset())
    because = f"{cursor.subscription} has more messages acknowledged in {log.cluster} than its own consumers acked"
    by_others = log.passed(cursor) - own
    if by_others - log.up_to(max(log.updated_to(cursor.subscription), default=None)):
        return because
    return Deviating(UPDATE_OF_UNREPLICATED_SUBSCRIPTION, because) if by_others else None


def _unasked_markers(topic: ReplicatedTopic, logs: Logs) -> Iterator[CheckResult]:
    """The markers of a topic that is to have none."""
    takes_part = not topic.own or any(topic.own.values())
    for log in topic.left(logs):
        cluster = log.cluster
        is_alone = cluster not in {source for source, _ in topic.links_so_far}
        if takes_part and not is_alone:
            continue
        why = "the topic is not replicated" if is_alone else "no subscription is replicated"
        is_reached = takes_part and any(target == cluster for _, target in topic.links_so_far)
        markers = [one for one in log.entries if one.marker is not None and not (is_reached and one.origin != cluster)]
        because = f"{why}, but the log of {cluster} has {len(markers)} markers"
        has_replicated = any(is_replicated for (_, at), is_replicated in topic.own.items() if at == cluster)
        if not markers:
            yield None
        elif has_replicated and _are_first_requests(markers, cluster):
            yield Deviating(REQUEST_WITHOUT_REMOTE_CLUSTER, because)
        else:
            yield because


def _are_first_requests(markers: Sequence[ClusterEntry], cluster: str) -> bool:
    """Whether these markers are the first request of one snapshot each, all of them of this cluster."""
    asked = [
        one.marker.snapshot for one in markers if isinstance(one.marker, SnapshotRequest) and one.origin == cluster
    ]
    return len(set(asked)) == len(markers)
