"""Operations and outcomes of document 002, and how they are told."""

from __future__ import annotations

from model.chunking.vocabulary import (
    Acking,
    AcknowledgeChunked,
    Asking,
    Came,
    ChunkedAsked,
    ChunkedBacklog,
    ChunkedGathered,
    ChunkedLeft,
    ChunkedLog,
    ChunkedSubscribed,
    ChunkedTopic,
    ChunkOperation,
    ChunkOutcome,
    ChunkRate,
    Crafted,
    CreateChunkedTopic,
    GatherChunked,
    GiveBack,
    Given,
    Joined,
    LeaveChunked,
    LeaveChunking,
    Life,
    LoggedPart,
    MoveSubscription,
    OpenChunking,
    Part,
    Payload,
    PayloadsInterleaved,
    PayloadsSent,
    ReadChunkedBacklog,
    ReadChunkedLog,
    ReadChunkRate,
    SendCrafted,
    SendInterleaved,
    SendPayloads,
    Stream,
    SubscribeChunked,
    SubscriptionMoved,
)
from model.log import Position

CHUNK = Part(7, "d", "p-7", 0, 2, 20)
LARGE = Payload(7, "p7", 20000, is_compressible=True, key="k")
LOGGED = LoggedPart(Position(3, 0), "p", CHUNK, 10, 12)
SENT = PayloadsSent((True, False), ("", "MessageTooBig"), (Life((CHUNK,), ((7, Position(3, 0)),), told=-1),))
SENT_TOLD = "1 of 2 confirmed (MessageTooBig); on the wire: told -1, sent chunk 0 of 2 of 7, answered 7 at 3:0"
STREAM = Stream(
    "c1",
    (Joined(), Came(Position(3, 0), "p", CHUNK), Acking((Position(3, 0),)), Asking(())),
    (Given(Position(3, 0), 20, "d"),),
)
STREAM_TOLD = (
    "to and from c1 passed: a subscription, 3:0 chunk 0 of 2 of 7 of p, an acknowledgment of 3:0, a request for "
    "everything again; it received 3:0 (20 bytes)"
)

OPERATIONS: list[tuple[ChunkOperation, str]] = [
    (CreateChunkedTopic("t0"), "the suite creates topic t0, deduplication off."),
    (
        OpenChunking("p1", "t0", "p", is_chunking=False, compression="lz4"),
        "session p1 opens producer p on topic t0 (pulsar-client, without chunking, compressing with lz4).",
    ),
    (
        SendPayloads("p1", (LARGE,), 2, "unload"),
        "session p1 sends 7 (p7, 20000 bytes, compressible, key k); behind chunk 2 it is cut off, the topic is "
        "unloaded, and it comes back.",
    ),
    (
        SendInterleaved("p1", (LARGE,), 1, "p2", (LARGE,)),
        "session p1 sends 7 (p7, 20000 bytes, compressible, key k); it is held up behind chunk 1 while session p2 "
        "sends 7 (p7, 20000 bytes, compressible, key k).",
    ),
    (
        SendCrafted("p1", (Crafted(7, "u", 0, 2), Crafted(8, "", 0, 1))),
        "session p1 sends chunk 0 of 2 of u, 8.",
    ),
    (LeaveChunking("p1", crashes=True), "session p1 crashes."),
    (
        SubscribeChunked("c1", "t0", "s0", "Failover", 1, 2, acks_discarded=True),
        "consumer c1 subscribes to subscription s0 of topic t0 (Failover, a queue of 1, at most 2 pending, what is "
        "discarded is acknowledged).",
    ),
    (
        GatherChunked("t0", "s0"),
        "the suite has the consumers of subscription s0 of topic t0 receive what must come.",
    ),
    (
        AcknowledgeChunked("c1", (0, 2), is_cumulative=True),
        "consumer c1 acknowledges cumulatively message 0, 2 of what it has.",
    ),
    (GiveBack("c1"), "consumer c1 asks for everything again."),
    (LeaveChunked("c1"), "consumer c1 closes in good order."),
    (MoveSubscription("t0", "s0", "skip", 3), "the suite skips 3 entries of subscription s0 of topic t0."),
    (ReadChunkedLog("t0"), "the suite reads the log of topic t0."),
    (ReadChunkedBacklog("t0", "s0"), "the suite reads what subscription s0 of topic t0 has not acknowledged."),
    (
        ReadChunkRate("t0", "p1", LARGE),
        "the suite reads the rate of chunks of topic t0 while session p1 sends 7 (p7, 20000 bytes, compressible, "
        "key k) again and again.",
    ),
]

OUTCOMES: list[tuple[ChunkOutcome, str]] = [
    (ChunkedTopic(10240, deduplication=True), "an entry may have 10240 bytes, deduplication is on"),
    (SENT, f"{SENT_TOLD}"),
    (PayloadsInterleaved(SENT, SENT), f"{SENT_TOLD}; of the other one {SENT_TOLD}"),
    (ChunkedSubscribed(), "it is subscribed"),
    (ChunkedGathered((LOGGED,), (STREAM,)), f"{STREAM_TOLD}; the log has 3:0 chunk 0 of 2 of 7 of p"),
    (ChunkedAsked(None, STREAM), STREAM_TOLD),
    (ChunkedLeft(STREAM), STREAM_TOLD),
    (SubscriptionMoved((Position(3, 0),), ()), "of 1 entry left, none are left"),
    (ChunkedLog((LOGGED,)), "the log has 3:0 chunk 0 of 2 of 7 of p"),
    (ChunkedBacklog((Position(3, 0),)), "not acknowledged: 3:0"),
    (ChunkRate(2.5, True, SENT), f"2.5 chunks a second, and the broker says that chunks were published; {SENT_TOLD}"),
]
