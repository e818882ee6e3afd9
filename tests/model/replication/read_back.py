"""A state of the reference as an observer would read it back: the logs and subscriptions of all clusters.

Publish times follow the log of each cluster, one entry every ten seconds, so that no two are too close to distinguish.
"""

from __future__ import annotations

from model.cluster_events import (
    ClusterCursor,
    ClusterEntry,
    ClusterRead,
    ClustersRead,
    Marker,
    ReplicationSettings,
    SnapshotRequest,
    SnapshotResponse,
    SnapshotTaken,
    SubscriptionUpdated,
)
from model.explorations.replication.statements import is_quiet
from model.explorations.replication.world import Setup, World
from model.log import Position
from model.replication import entries as reference
from model.replication.cluster import Cluster
from model.replication.logs import Log, Logs
from model.replication.subscription import Subscription
from model.replication.tracked import At, ReplicatedTopic

STEP_MS = 10_000
NEVER_MS = 10**12


def as_read(setup: Setup, world: World) -> tuple[ReplicatedTopic, Logs]:
    """What an observer knows in a state, and the logs that it reads."""
    clusters = {cluster.name: _cluster(cluster) for cluster in world.clusters}
    cut = [link for link in setup.cuts if link not in world.cuts]
    crashed = set(setup.crashes) - set(world.crashes)
    came_back = [a + b for a in setup.clusters for b in setup.clusters if a != b and (a in crashed or a + b in cut)]
    read = ClustersRead(
        clusters,
        reconnected=tuple((link[0], link[1]) for link in came_back),
        consumed=tuple(
            (one.name, cluster.name)
            for cluster in world.clusters
            for one in cluster.subscriptions
            if one.connected and one.read > cluster.last
        ),
        is_quiet=is_quiet(world),
    )
    topic = ReplicatedTopic(
        made=ReplicationSettings(tuple(setup.clusters), period_ms=STEP_MS, timeout_ms=NEVER_MS, cached=setup.cached),
        is_replicated=True,
        deduplication=False,
        published={cluster.name: _published(cluster) for cluster in world.clusters},
        # A state does not say at which cluster, so all of it is attributed to the consumer's present cluster.
        acknowledged_at={
            (one.subscription, one.cluster): frozenset(map(str, one.processed)) for one in world.consumers
        },
        own=_own(setup, world),
        is_settled=is_quiet(world) and not world.unpublished and not crashed,
        killed=frozenset(crashed),
        read=read,
    )
    return topic, {name: Log(name, one) for name, one in clusters.items()}


def _own(setup: Setup, world: World) -> dict[At, bool]:
    """The subscriptions that consumers created, and whether as replicated."""
    been = setup.failovers[: len(setup.failovers) - len(world.failovers)]
    own = {("s", place): setup.replicated or place != setup.clusters[0] for place in (setup.clusters[0], *been)}
    return own | {(name, "A"): setup.replicated for name in setup.others} | dict.fromkeys(setup.plain, False)


def _published(cluster: Cluster) -> tuple[str, ...]:
    return tuple(str(entry.item) for entry in cluster.log if entry.is_message and entry.origin == cluster.name)


def _cluster(cluster: Cluster) -> ClusterRead:
    return ClusterRead(
        entries=tuple(_entry(cluster, position) for position in range(len(cluster.log))),
        cursors=tuple(_cursor(cluster, one) for one in cluster.subscriptions),
    )


def _entry(cluster: Cluster, position: int) -> ClusterEntry:
    entry = cluster.log[position]
    message = str(entry.item) if entry.is_message else None
    return ClusterEntry(
        position=_position(cluster.name, position),
        origin=entry.origin,
        published_ms=entry.source * STEP_MS,
        message=message,
        marker=_marker(entry, cluster.name),
    )


def _marker(entry: reference.Entry, here: str) -> Marker | None:
    match entry.item:
        case reference.Message():
            return None
        case reference.Request(snapshot=snapshot):
            return SnapshotRequest(snapshot, entry.origin)
        case reference.Response(snapshot=snapshot, position=position):
            return SnapshotResponse(snapshot, entry.origin, _position(entry.origin, position))
        case reference.Snapshot(name=snapshot, local=local, positions=positions):
            return SnapshotTaken(snapshot, _position(here, local), _positions(positions))
        case reference.Update(subscription=subscription, positions=positions):
            return SubscriptionUpdated(subscription, _positions(positions))


def _cursor(cluster: Cluster, subscription: Subscription) -> ClusterCursor:
    unacknowledged = [
        p for p in range(subscription.mark_delete + 1, len(cluster.log)) if not subscription.is_acknowledged(p)
    ]
    return ClusterCursor(
        subscription=subscription.name,
        mark_delete=_position(cluster.name, subscription.mark_delete),
        acknowledged=tuple(
            (_position(cluster.name, one - 1), _position(cluster.name, one)) for one in sorted(subscription.individual)
        ),
        backlog=len(unacknowledged),
        is_replicated=subscription.replicated,
    )


def _positions(positions: reference.Positions) -> dict[str, Position]:
    return {cluster: _position(cluster, position) for cluster, position in positions}


def _position(cluster: str, position: int) -> Position:
    """The ledger ids of the clusters differ, so that confused positions are noticed."""
    return Position(100 + ord(cluster), position)
