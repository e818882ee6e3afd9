"""What the operations and outcomes of document 001 are told as."""

from __future__ import annotations

from model.events import AnyOutcome
from model.log import Position
from model.operations import AnyOperation
from model.replication.vocabulary import (
    AcknowledgeAt,
    AcknowledgedAt,
    AwaitAnswered,
    AwaitIdle,
    AwaitMessage,
    AwaitTimedOut,
    Behind,
    CatchUp,
    CaughtUp,
    ClusterRead,
    ClustersRead,
    CreateReplicatedTopic,
    CutLink,
    GeoCreated,
    GeoCursor,
    GeoEntry,
    GivenMessage,
    HealLink,
    HoldLink,
    JoinAt,
    KillCluster,
    LeaveAt,
    LinkCut,
    LinkHealed,
    NotPassedOn,
    PublishAt,
    Published,
    ReadClusters,
    ReceiveAt,
    ReceivedAt,
    ReleaseLink,
    ReplicatorsClosed,
    RestartCluster,
    SlowLink,
    SnapshotRequest,
    UnloadAt,
)

OPERATIONS: list[tuple[AnyOperation, str]] = [
    (CreateReplicatedTopic("t0", clusters=3), "the suite creates topic t0 in 3 clusters."),
    (
        CreateReplicatedTopic("t0", is_replicated=False, deduplication=True),
        "the suite creates topic t0 in 2 clusters, with deduplication, not replicated.",
    ),
    (PublishAt("A", "t0", ("a1", "a2")), "a producer at cluster A publishes a1, a2 to topic t0."),
    (
        PublishAt("A", "t0", ("a1",), size_bytes=10_000),
        "a producer at cluster A publishes a1, 10000 bytes each, to topic t0.",
    ),
    (
        JoinAt(consumer="k0", cluster="B", topic="t0", subscription="s"),
        "consumer k0 subscribes to replicated subscription s of topic t0 at cluster B.",
    ),
    (ReceiveAt("k0", 2), "consumer k0 receives up to 2 messages."),
    (AcknowledgeAt("k0", ("a1", "a2")), "consumer k0 acknowledges a1, a2."),
    (AcknowledgeAt("k0", ("a2",), is_cumulative=True), "consumer k0 acknowledges everything up to a2."),
    (LeaveAt("k0"), "consumer k0 leaves."),
    (CutLink("A", "B"), "the suite cuts the link from cluster A to cluster B."),
    (HealLink("A", "B"), "the suite heals the link from cluster A to cluster B."),
    (AwaitTimedOut("A"), "cluster A gives up a snapshot, and some time goes by."),
    (HoldLink("A", "B", "receipts"), "the suite holds up receipts on the link from cluster A to cluster B."),
    (SlowLink("A", "B", 150), "the suite makes the link from cluster A to cluster B 150 ms slower."),
    (ReleaseLink("A", "B"), "the suite releases what is held up on the link from cluster A to cluster B."),
    (AwaitMessage("B", "t0", "a1"), "cluster B gets a1 of topic t0."),
    (
        AwaitAnswered("A", "t0", ("B", "C")),
        "cluster A gets answers of topic t0, B's, C's, or gives up.",
    ),
    (AwaitIdle("A", "t0"), "cluster A closes its replicators of topic t0, which is idle there."),
    (UnloadAt("A", "t0"), "cluster A unloads topic t0."),
    (RestartCluster("A"), "cluster A is stopped and started again."),
    (KillCluster("A"), "cluster A is killed and started again."),
    (
        CatchUp("k0", "c"),
        "the suite heals all links, and publishes and has k0 acknowledge everything until the others catch up.",
    ),
    (ReadClusters("t0"), "the suite reads back what every cluster has of topic t0."),
]

_ENTRIES = (
    GeoEntry(position=Position(3, 0), origin="A", published_ms=1, message="a1"),
    GeoEntry(position=Position(3, 1), origin="A", published_ms=2, marker=SnapshotRequest("s", "A")),
)

OUTCOMES: list[tuple[AnyOutcome, str]] = [
    (GeoCreated(("A", "B"), 100, 2000, 3), "it is in clusters A, B, with a snapshot every 100 ms at most"),
    (Published((Position(3, 0), Position(3, 1))), "stored at 3:0, 3:1"),
    (ReceivedAt((GivenMessage("a1", Position(3, 0)),)), "a1 at 3:0"),
    (ReceivedAt(()), "nothing"),
    (CaughtUp(12.5, ("c0",)), "they did within 12.5 snapshot periods and 1 message"),
    (Behind("B", Position(4, 2), 300.0), "after 300.0 snapshot periods cluster B is still at 4:2"),
    (
        NotPassedOn("A", "B", 30.0, ("a1", "a2")),
        "the replicator of A to B stood still for 30 s, connected, before a1, a2",
    ),
    (NotPassedOn("A", "B", 30.0, ()), "the replicator of A to B stood still for 30 s, connected, before markers"),
    (
        ClustersRead(
            {"A": ClusterRead(entries=_ENTRIES, cursors=(GeoCursor(subscription="s", mark_delete=Position(3, 0)),))}
        ),
        "A: a1, 1 marker, s at 3:0",
    ),
]

SILENT = (AcknowledgedAt(1), LinkCut(1), LinkHealed(2), ReplicatorsClosed(3))
"""What needs no words: it is what was asked for."""
