"""One of every operation and every outcome, and more of those whose sentences differ by their fields."""

from __future__ import annotations

from model import (
    cluster_events,
    cluster_operations,
    events,
    operations,
    producer_operations,
    read_operations,
    subscription_operations,
    traffic,
)
from model.events import AnyOutcome
from model.log import Position
from model.operations import AnyOperation
from model.vocabulary import ChunkNumber, CutAt, Entry, LoseThenCut, Message
from tests.report.samples import entry

B4 = events.Delivery(Position(3, 0), -1, 0, "b4", 0)
B5 = events.Delivery(Position(3, 1), 0, 2, "b5", 2)
CHUNK = traffic.Part(7, "d", "p-7", 0, 2, 20)
LARGE = Message(7, "p7", key="k", size_bytes=20000, content="pattern")
LOGGED = traffic.LoggedPart(Position(3, 0), "p", CHUNK, 10, 12)
LIFE = traffic.Life((CHUNK,), ((7, Position(3, 0)),), last_sequence_id=-1)
SENT = events.Sent((events.Stored(Position(3, 0)), events.Refused("MessageTooBig")), (LIFE,))
TRAFFIC = traffic.Traffic(
    "c1",
    (
        traffic.CommandSubscribe(),
        traffic.CommandMessage(Position(3, 0), "p", CHUNK),
        traffic.CommandAck((Position(3, 0),)),
        traffic.CommandRedeliver(()),
    ),
    (traffic.Delivery(Position(3, 0), size_bytes=20, digest="d"),),
)
_ENTRIES = (
    cluster_events.ClusterEntry(position=Position(3, 0), origin="A", published_ms=1, message="a1"),
    cluster_events.ClusterEntry(
        position=Position(3, 1), origin="A", published_ms=2, marker=cluster_events.SnapshotRequest("s", "A")
    ),
)

OPERATIONS: tuple[AnyOperation, ...] = (
    operations.CreateTopic("t0", "own-namespace-off"),
    operations.OpenProducer("s1", "t0", "p0", "official"),
    operations.CloseProducer("s1"),
    operations.CrashProducer("s1"),
    operations.Send("s1", (entry(4),)),
    operations.SetDeduplication("t0", "topic", on=False),
    operations.Unload("t0"),
    operations.Restart(),
    operations.Restart(deduplication=False),
    operations.Kill(),
    operations.SetFailpoint("t0", "write-slow", 2, 50),
    operations.SetFailpoint("t0", "write-fails", spared=2),
    operations.ClearFailpoints(),
    operations.ReadSnapshot("t0"),
    operations.ReadLog("t0"),
    operations.ReadLog("t0", cluster="B"),
    operations.StartSource("a", "t0", (entry(3), entry(4, 5)), back=1),
    operations.FinishSource("a"),
    operations.CrashSource("a", 2),
    operations.Consume("c0", "t0", "sub", 3, acks=(True, False), then="crashes", kind="Shared"),
    operations.Drain("t0", "sub"),
    operations.RunReader("r", "t0", operations.Death(2, "committed")),
    operations.RunSubscriber("r", "t0"),
    operations.ReadDatabase("r"),
    subscription_operations.CreateSubscription("t0", "sub"),
    subscription_operations.DeleteSubscription("t0", "sub"),
    subscription_operations.DeleteSubscription("t0", "sub", by_force=True),
    subscription_operations.CreateSubscription("t0", "sub", at="b4"),
    subscription_operations.ResetCursor("t0", "sub", "b4", after=True),
    subscription_operations.ResetCursor("t0", "sub", "b4", by_time=True, later_ms=-3),
    subscription_operations.Unsubscribe("c0"),
    subscription_operations.Skip("t0", "sub", 2),
    subscription_operations.SkipAll("t0", "sub"),
    subscription_operations.Expire("t0", "sub", "b4"),
    subscription_operations.ResetCursor("t0", "sub", None),
    subscription_operations.ReadCursor("t0", "sub"),
    subscription_operations.PeekMessage("t0", "sub", 2),
    subscription_operations.ReadStoredCursor("t0", "sub"),
    subscription_operations.NackRepeatedly("t0", 2),
    subscription_operations.AwaitPersisted("t0", "sub"),
    subscription_operations.ReceiveAll("t0", "sub"),
    subscription_operations.ReceiveAll("t0", "sub", "Exclusive", cluster="B"),
    subscription_operations.Subscribe("c2", "t0", "sub", "Failover", "official", durable=False, queue=5),
    subscription_operations.Subscribe(
        "c2", "t0", "sub", "Key_Shared", known_as="x", sticky=((0, 9), (20, 29)), out_of_order=True
    ),
    subscription_operations.Permit("c1", 3),
    subscription_operations.ReceiveDue("t0", "sub"),
    subscription_operations.CloseConsumer("c1"),
    subscription_operations.CrashConsumer("c1"),
    subscription_operations.Receive("c1", 1),
    subscription_operations.Acknowledge("c1", (0, 2)),
    subscription_operations.CutDuring(subscription_operations.Receive("c1", 1), CutAt("MESSAGE")),
    subscription_operations.CutConnection("c1"),
    subscription_operations.AckById("c1", ("b4",), cumulative=True),
    subscription_operations.Nack("c1", (1,)),
    subscription_operations.Seek("c1", "b4", by_time=True),
    operations.UseProxy(),
    operations.InjectNetworkFault("t0", CutAt("SEND", 2, "after")),
    operations.InjectNetworkFault("t0", LoseThenCut("SEND_RECEIPT", 1, 3)),
    operations.ClearNetworkFaults(),
    operations.Terminate("t0"),
    operations.Trim("t0"),
    operations.CreateTopic("t0", clusters=3),
    operations.CreateTopic("t0", "namespace-off", clusters=2, is_replicated=False),
    operations.CreateTopic("t0", "namespace-off", clusters=3, links=(("A", "B"), ("B", "C"))),
    operations.OpenProducer("p1", "t0", "p", cluster="A"),
    subscription_operations.Subscribe("k0", "t0", "s", "Exclusive", cluster="B", is_replicated=True),
    cluster_operations.CutLink("A", "B"),
    cluster_operations.HealLink("A", "B"),
    cluster_operations.AwaitTimedOut("A"),
    cluster_operations.HoldLink("A", "B", "receipts"),
    cluster_operations.SlowLink("A", "B", 150),
    cluster_operations.ReleaseLink("A", "B"),
    cluster_operations.AwaitMessage("B", "t0", "a1"),
    cluster_operations.AwaitAnswered("A", "t0", ("B", "C")),
    cluster_operations.AwaitIdle("A", "t0"),
    cluster_operations.SetLink("A", "B", "t0", on=False),
    cluster_operations.LoseCluster("C"),
    cluster_operations.LoseCluster("C", "freeze"),
    cluster_operations.RecoverCluster("C"),
    cluster_operations.RecoverCluster("C", is_empty=True),
    cluster_operations.RecoverCluster("C", is_empty=True, is_reached_early=True),
    operations.Unload("t0", cluster="A"),
    operations.Restart(cluster="A"),
    operations.Kill(cluster="A"),
    cluster_operations.CatchUp("k0", "c"),
    cluster_operations.ReadClusters("t0"),
    operations.CreateTopic("t0", "namespace-off", is_chunked=True),
    operations.OpenProducer("p1", "t0", "p", "official", is_chunking=True, compression="lz4"),
    operations.Send("s1", (Entry((LARGE,)),), interruption=operations.CutAfterSends(2, "unload")),
    operations.Send(
        "s1", (Entry((LARGE,)),), interruption=operations.HoldAfterSends(1, "s2", (Entry((Message(8, "b8"),)),))
    ),
    operations.Send("s1", (Entry((Message(7, "u", chunk=ChunkNumber(0, 2)),)), Entry((Message(8, "b8"),)))),
    subscription_operations.Subscribe(
        "c1", "t0", "s0", "Failover", "official", queue=1, max_pending_chunked=2, acks_oldest_chunked=True
    ),
    subscription_operations.Expire("t0", "s0", 3),
    read_operations.AnalyzeBacklog("t0", "s0"),
    read_operations.ReadMessage("t0", "b1"),
    read_operations.ReadMessage("t0", None),
    read_operations.ExamineMessage("t0", 2, from_end=True),
    read_operations.FindByTime("t0", "b1"),
    read_operations.FindByTime("t0", None),
    read_operations.ReadInternals("t0"),
    read_operations.Inquire("t0", "bundle"),
    subscription_operations.ResetCursor("t0", "s0", 3),
    operations.ReadChunkRate("t0", "p1", LARGE),
    operations.TakeOver("t0", "kill"),
    operations.TakeOver("t0", "shutdown"),
    operations.TakeOver("t0", "unload"),
    operations.FreezeOwner("t0"),
    operations.FreezeOwner("t0", "cut-off"),
    operations.SendToFrozen("s1", (entry(4), entry(5))),
    operations.AcknowledgeAtFrozen("c1", (0, 2)),
    operations.ThawOwners(),
    operations.CreateTopic("t0", persistence="every-ack", quorum="3/2/2"),
    operations.LoseBookie(1),
    operations.LoseBookie(0, "freeze"),
    operations.RestoreBookies(),
    operations.DisturbMetadataStore("freeze"),
    operations.DisturbMetadataStore("restart"),
    operations.DisturbMetadataStore("expire"),
    operations.OpenProducer("p1", "t0", "p", access="Exclusive", has_epoch=True),
    producer_operations.AwaitProducers("t0"),
)

OUTCOMES: tuple[AnyOutcome, ...] = (
    events.Created(deduplication=False, snapshot_room=1),
    events.Cleared((events.Fired("t0", "write-fails", 1), events.Fired("t1", "write-slow", 0))),
    events.DeduplicationSet(deduplication=True),
    events.PolicyIgnored("Enabled"),
    events.Done(),
    cluster_events.LinkHealed(2, ("A",)),
    events.Skipped("s1 was never opened"),
    events.Refused("ProducerBusy", "it is connected"),
    events.Unknown("the connection was cut"),
    events.Abandoned("the broker refused it"),
    events.Stored(Position(3, 1)),
    events.Duplicate(),
    events.Sent((events.Stored(Position(3, 1)), events.Duplicate())),
    events.Opened(4),
    events.LogRead((events.LoggedEntry(Position(3, 0), "p0", entry(4, 5)),)),
    events.SnapshotRead(Position(3, 0), {"p0": 4}),
    events.SourceStarted(-1),
    events.SourceEnded((events.Confirmed(3, Position(3, 0)), events.Confirmed(4, None)), left=1, came_back=2),
    events.Consumed(
        (events.Delivery(Position(3, 0), -1, 0, "b1"), events.Delivery(Position(3, 1), 0, 0, "b2")),
        (events.Delivery(Position(3, 0), -1, 0, "b1"),),
    ),
    events.Drained(()),
    events.Ran(killed=True, received=3),
    events.DatabaseRead((events.Delivery(Position(3, 0), -1, 0, "b1"),)),
    events.Stuck("nothing came in 30 s"),
    events.Subscribed(),
    events.ReceivedMessages((B4, B5), settled=True),
    events.Acknowledged((B4,), receipt=True),
    events.RedeliveryRequested((B4,)),
    events.CursorRead(
        Position(3, 0), (events.Range(Position(3, 1), Position(3, 3)),), 4, 2, (events.ConsumerRead("c1", (B4,), 2),)
    ),
    events.Persisted(12.4, 3),
    events.NotPersisted(5000.0),
    events.CursorReset(Position(3, 0)),
    events.MessagePeeked(Position(3, 1)),
    events.MessagePeeked(None),
    events.StoredCursorRead(None),
    events.StoredCursorRead(Position(3, 0), (events.Range(Position(3, 1), Position(3, 2)),)),
    events.RedeliveryTimes(B4, 300.0, (301.2, 305.0), (B4,)),
    events.CursorReset(None),
    events.Expired(),
    events.Trimmed((3, 7)),
    events.DueReceived(()),
    events.DueReceived(
        (events.ConsumerRead("c1", (B4,), permits=1, unacknowledged=3, draining=(events.DrainingHash(7, 2, 1),)),)
    ),
    events.AllReceived((B4,)),
    events.NetworkFaultsCleared(2),
    events.Starved("nothing came in 10 s", (B4,)),
    events.Created(
        deduplication=False, snapshot_room=5, replication=cluster_events.ReplicationSettings(("A", "B"), 100, 2000, 3)
    ),
    cluster_events.CaughtUp(12.5, ("c0",)),
    cluster_events.Lagging("B", Position(4, 2), 300.0),
    cluster_events.ReplicatorStalled("A", "B", 30.0, ("a1", "a2")),
    cluster_events.ReplicatorStalled("A", "B", 30.0, ()),
    cluster_events.ClustersRead(
        {
            "A": cluster_events.ClusterRead(
                entries=_ENTRIES, cursors=(cluster_events.ClusterCursor(subscription="s", mark_delete=Position(3, 0)),)
            )
        }
    ),
    events.DueReceived(traffic=(TRAFFIC,), log=(LOGGED,)),
    events.Acknowledged((), traffic=(TRAFFIC,)),
    events.Done((TRAFFIC,)),
    events.CursorMoved((Position(3, 0),), ()),
    events.LogRead(parts=(LOGGED,)),
    events.UnacknowledgedRead((Position(3, 0),)),
    events.ChunkRate(2.5, True, SENT),
    events.TakenOver(("t0", "t1")),
    events.TakenOver(("t0",), is_elsewhere=False),
    events.Thawed(()),
    events.Thawed(
        (
            events.FormerAnswer("s1", entry(4), events.Stored(Position(3, 1))),
            events.FormerAnswer("s1", entry(5), events.Duplicate()),
            events.FormerAnswer("s1", entry(6), events.Refused("PersistenceError", "fenced")),
            events.FormerAnswer("s1", entry(7), events.Unknown("the connection ended")),
        )
    ),
    events.BookiesLeft(2),
    read_operations.BacklogAnalyzed(3, 5),
    read_operations.BacklogAnalyzed(1, 1, is_aborted=True),
    read_operations.EntryRead(Position(3, 1)),
    read_operations.MessageIdRead(Position(3, 1), Position(3, 1)),
    read_operations.InternalsRead(4, Position(3, 3), ("s0", "s1")),
    read_operations.Answered(),
    read_operations.Answered(("s0", "s1")),
    read_operations.Answered(position=Position(3, 3)),
    producer_operations.Queued(),
    producer_operations.ProducersRead(("p2", "p3"), ("p1",), (producer_operations.Activated("p1", 4, 2),)),
)

SILENT = (cluster_events.LinkCut(1), cluster_events.LinkHealed(2), cluster_events.ReplicatorsClosed(3))
"""The outcomes that need no words: they are what was asked for."""
