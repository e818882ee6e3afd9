"""What the operations and outcomes of document 001 are told as."""

from __future__ import annotations

from model.cluster_events import (
    CaughtUp,
    ClusterCursor,
    ClusterEntry,
    ClusterRead,
    ClustersRead,
    Lagging,
    LinkCut,
    LinkHealed,
    ReplicationSettings,
    ReplicatorsClosed,
    ReplicatorStalled,
    SnapshotRequest,
)
from model.cluster_operations import (
    AwaitAnswered,
    AwaitIdle,
    AwaitMessage,
    AwaitTimedOut,
    CatchUp,
    CutLink,
    HealLink,
    HoldLink,
    ReadClusters,
    ReleaseLink,
    SlowLink,
)
from model.events import AnyOutcome, Created
from model.log import Position
from model.operations import AnyOperation, CreateTopic, Kill, OpenProducer, Restart, Unload
from model.subscription_operations import Subscribe

OPERATIONS: list[tuple[AnyOperation, str]] = [
    (
        CreateTopic("t0", clusters=3),
        "the suite creates topic t0 in 3 clusters, replicated, in a namespace that enables deduplication.",
    ),
    (
        CreateTopic("t0", "namespace-off", clusters=2, is_replicated=False),
        "the suite creates topic t0 in 2 clusters, not replicated, in a namespace that disables deduplication.",
    ),
    (
        OpenProducer("p1", "t0", "p", cluster="A"),
        "producer p (session p1, wire client at cluster A) is created on topic t0 at cluster A.",
    ),
    (
        Subscribe("k0", "t0", "s", "Exclusive", cluster="B", is_replicated=True),
        "consumer k0 (Exclusive, subscription s, wire client at cluster B) subscribes to topic t0, replicated.",
    ),
    (CutLink("A", "B"), "the suite cuts the link from cluster A to cluster B."),
    (HealLink("A", "B"), "the suite heals the link from cluster A to cluster B."),
    (AwaitTimedOut("A"), "cluster A gives up a snapshot."),
    (HoldLink("A", "B", "receipts"), "the suite blocks receipts on the link from cluster A to cluster B."),
    (SlowLink("A", "B", 150), "the suite delays the link from cluster A to cluster B by 150 ms."),
    (ReleaseLink("A", "B"), "the suite releases what is blocked on the link from cluster A to cluster B."),
    (AwaitMessage("B", "t0", "a1"), "cluster B receives a1 of topic t0."),
    (
        AwaitAnswered("A", "t0", ("B", "C")),
        "cluster A receives snapshot responses for topic t0, B's, C's, or gives up.",
    ),
    (AwaitIdle("A", "t0"), "cluster A closes its replicators of topic t0, which is idle there."),
    (
        Unload("t0", cluster="A"),
        "cluster A unloads topic t0; the next look-up reloads it.",
    ),
    (Restart(cluster="A"), "cluster A restarts gracefully on the same data."),
    (Kill(cluster="A"), "cluster A is killed (SIGKILL) and restarts on the same data."),
    (
        CatchUp("k0", "c"),
        "the suite heals all links, and publishes and has k0 acknowledge everything until the others catch up.",
    ),
    (ReadClusters("t0"), "the suite reads the log and the subscriptions of topic t0 in every cluster."),
]

_ENTRIES = (
    ClusterEntry(position=Position(3, 0), origin="A", published_ms=1, message="a1"),
    ClusterEntry(position=Position(3, 1), origin="A", published_ms=2, marker=SnapshotRequest("s", "A")),
)

OUTCOMES: list[tuple[AnyOutcome, str]] = [
    (
        Created(deduplication=False, snapshot_room=5, replication=ReplicationSettings(("A", "B"), 100, 2000, 3)),
        "it is in clusters A, B, with a snapshot every 100 ms at most; deduplication is off, a snapshot holds "
        "5 producers",
    ),
    (CaughtUp(12.5, ("c0",)), "they did within 12.5 snapshot periods and 1 message"),
    (Lagging("B", Position(4, 2), 300.0), "after 300.0 snapshot periods cluster B is still at 4:2"),
    (
        ReplicatorStalled("A", "B", 30.0, ("a1", "a2")),
        "the replicator of A to B was connected, but stalled for 30 s before a1, a2",
    ),
    (
        ReplicatorStalled("A", "B", 30.0, ()),
        "the replicator of A to B was connected, but stalled for 30 s before markers",
    ),
    (
        ClustersRead(
            {"A": ClusterRead(entries=_ENTRIES, cursors=(ClusterCursor(subscription="s", mark_delete=Position(3, 0)),))}
        ),
        "A: a1, 1 marker, s at 3:0",
    ),
]

SILENT = (LinkCut(1), LinkHealed(2), ReplicatorsClosed(3))
"""What needs no words: it is what was asked for."""
