"""The topics and subscriptions that take part in snapshots and updates, by the logs of all clusters (REPL-18)."""

from __future__ import annotations

from collections.abc import Iterator

from model.cluster_events import SnapshotRequest
from model.deviations.replication import REQUEST_WITHOUT_REMOTE_CLUSTER, UPDATE_OF_UNREPLICATED_SUBSCRIPTION
from model.replication.evidence import CheckResult, Deviating
from model.replication.logs import Logs
from model.replication.tracked import ReplicatedTopic
from model.rules.catalogue import carries


@carries("REPL-18")
def only_what_takes_part(topic: ReplicatedTopic, logs: Logs) -> Iterator[CheckResult]:
    """A topic without replication, or without a replicated subscription, has no markers.

    A subscription that is not replicated exists in no other cluster. Updates of its name do not move it.
    """
    for cluster, log in logs.items():
        for cursor in log.read.cursors:
            is_plain = not cursor.is_replicated and topic.own.get((cursor.subscription, cluster)) is False
            if is_plain and topic.is_replicated_subscription(cursor.subscription):
                own = topic.acknowledged_at.get((cursor.subscription, cluster), frozenset())
                because = (
                    f"{cursor.subscription} has more messages acknowledged in {cluster} than its own consumers acked"
                )
                yield Deviating(UPDATE_OF_UNREPLICATED_SUBSCRIPTION, because) if log.passed(cursor) - own else None
            if (cursor.subscription, cluster) in topic.own:
                continue
            is_replicated = topic.is_replicated and topic.is_replicated_subscription(cursor.subscription)
            if not is_replicated:
                yield f"{cluster} has subscription {cursor.subscription} of another cluster, but it is not replicated"
    yield from _unasked_markers(topic, logs)
    for (subscription, _), is_replicated in topic.own.items():
        if not is_replicated and not topic.is_replicated_subscription(subscription):
            yield None


def _unasked_markers(topic: ReplicatedTopic, logs: Logs) -> Iterator[CheckResult]:
    """The markers of a topic that is to have none."""
    if topic.is_replicated and (not topic.own or any(topic.own.values())):
        return
    why = "no subscription is replicated" if topic.is_replicated else "the topic is not replicated"
    for cluster, log in logs.items():
        markers = [entry.marker for entry in log.entries if entry.marker is not None]
        because = f"{why}, but the log of {cluster} has {len(markers)} markers"
        has_replicated = any(is_replicated for (_, at), is_replicated in topic.own.items() if at == cluster)
        if not markers:
            yield None
        elif has_replicated and all(isinstance(marker, SnapshotRequest) for marker in markers):
            yield Deviating(REQUEST_WITHOUT_REMOTE_CLUSTER, because)
        else:
            yield because
