"""Operations and outcomes on chunked topics, and how they are told."""

from __future__ import annotations

from model.events import (
    Acknowledged,
    AnyOutcome,
    ChunkRate,
    CursorMoved,
    Done,
    DueReceived,
    LogRead,
    Refused,
    Sent,
    Stored,
    UnacknowledgedRead,
)
from model.log import Position
from model.operations import AnyOperation, CreateTopic, CutAfterSends, HoldAfterSends, OpenProducer, ReadChunkRate, Send
from model.subscription_operations import Expire, ResetCursor, Subscribe
from model.traffic import (
    CommandAck,
    CommandMessage,
    CommandRedeliver,
    CommandSubscribe,
    Delivery,
    Life,
    LoggedPart,
    Part,
    Traffic,
)
from model.vocabulary import ChunkNumber, Entry, Message

CHUNK = Part(7, "d", "p-7", 0, 2, 20)
LARGE = Message(7, "p7", key="k", size_bytes=20000, content="pattern")
LOGGED = LoggedPart(Position(3, 0), "p", CHUNK, 10, 12)
LIFE = Life((CHUNK,), ((7, Position(3, 0)),), last_sequence_id=-1)
SENT = Sent((Stored(Position(3, 0)), Refused("MessageTooBig")), (LIFE,))
LIFE_TOLD = "on the wire: last sequence id -1, sent chunk 0 of 2 of 7, receipts: 7 at 3:0"
TRAFFIC = Traffic(
    "c1",
    (
        CommandSubscribe(),
        CommandMessage(Position(3, 0), "p", CHUNK),
        CommandAck((Position(3, 0),)),
        CommandRedeliver(()),
    ),
    (Delivery(Position(3, 0), size_bytes=20, digest="d"),),
)
TRAFFIC_TOLD = (
    "between c1 and the broker: Subscribe, 3:0 chunk 0 of 2 of 7 of p, an ack of 3:0, a redelivery request "
    "for everything; it received 3:0 (20 bytes)"
)

OPERATIONS: list[tuple[AnyOperation, str]] = [
    (
        CreateTopic("t0", "namespace-off", is_chunked=True),
        "the suite creates topic t0, in a namespace that disables deduplication, its clients through a proxy.",
    ),
    (
        OpenProducer("p1", "t0", "p", "official", is_chunking=True, compression="lz4"),
        "producer p (session p1, pulsar-client) is created on topic t0, with chunking, compressing with lz4.",
    ),
    (
        Send("s1", (Entry((LARGE,)),), interruption=CutAfterSends(2, "unload")),
        "producer p0 (session s1, wire client) sends 7 (p7, 20000 bytes of pattern, key k); after SEND 2 its "
        "connection is cut, the topic is unloaded, and it reconnects.",
    ),
    (
        Send("s1", (Entry((LARGE,)),), interruption=HoldAfterSends(1, "s2", (Entry((Message(8, "b8"),)),))),
        "producer p0 (session s1, wire client) sends 7 (p7, 20000 bytes of pattern, key k); after SEND 1 it is held "
        "until session s2 has sent 8 (b8).",
    ),
    (
        Send("s1", (Entry((Message(7, "u", chunk=ChunkNumber(0, 2)),)), Entry((Message(8, "b8"),)))),
        "producer p0 (session s1, wire client) sends 7 (chunk 0 of 2 of u), 8 (b8), all in flight at once.",
    ),
    (
        Subscribe("c1", "t0", "s0", "Failover", "official", queue=1, max_pending_chunked=2, acks_oldest_chunked=True),
        "consumer c1 (Failover, subscription s0, pulsar-client) subscribes to topic t0, with a receiver queue of "
        "1 message, assembling at most 2 chunked messages, and acknowledging the oldest beyond that.",
    ),
    (
        Expire("t0", "s0", 3),
        "the suite expires everything up to entry 3 of the log of subscription s0 of topic t0.",
    ),
    (ResetCursor("t0", "s0", 3), "the suite resets subscription s0 of topic t0 to entry 3 of the log."),
    (
        ReadChunkRate("t0", "p1", LARGE),
        "the suite reads the rate of chunks of topic t0 while session p1 sends p7, 20000 bytes of pattern again and "
        "again.",
    ),
]

OUTCOMES: list[tuple[AnyOutcome, str]] = [
    (DueReceived(traffic=(TRAFFIC,), log=(LOGGED,)), TRAFFIC_TOLD),
    (Acknowledged((), traffic=(TRAFFIC,)), f"nothing; without a receipt; {TRAFFIC_TOLD}"),
    (Done((TRAFFIC,)), TRAFFIC_TOLD),
    (CursorMoved((Position(3, 0),), ()), "1 entry unacknowledged before, none after"),
    (LogRead(parts=(LOGGED,)), "3:0 chunk 0 of 2 of 7 of p"),
    (UnacknowledgedRead((Position(3, 0),)), "not acknowledged: 3:0"),
    (
        ChunkRate(2.5, True, SENT),
        f"2.5 chunks per second, and according to the stats chunks were published; {LIFE_TOLD}",
    ),
]
