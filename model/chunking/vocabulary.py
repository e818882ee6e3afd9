"""Operations and outcomes of document 002: who sends which payloads, what was on the wire, what an application got.

A payload is named and never written down: its bytes follow from its name (:mod:`model.chunking.payloads`). What passed
the proxy is told beside what the client said, so that it can be seen on which side of the wire something went wrong.
Nothing is performed or judged here.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from model.log import Position
from model.vocabulary import Client, Operation, Outcome

Kind = Literal["Exclusive", "Failover", "Shared", "Key_Shared"]
"""The kinds of subscriptions."""

Compression = Literal["none", "lz4", "zlib"]
"""What a producer compresses with before it splits."""

Meanwhile = Literal["dies", "reconnects", "unload"]
"""What becomes of a producer whose connection is cut: it dies, or comes back, maybe once its topic was unloaded."""

Moving = Literal["skip", "expire", "reset"]
"""How an administrator moves a subscription."""


class Payload(Struct, frozen=True, omit_defaults=True):
    """A payload of so many bytes that follow from its name; a source sends it under its sequence id, however often."""

    sequence_id: int
    name: str
    size_bytes: int
    is_compressible: bool = False
    key: str | None = None


class Crafted(Struct, frozen=True, omit_defaults=True):
    """A chunk as the wire client sends it: part number ``chunk_id`` of ``chunks`` of the message of this uuid.

    With one chunk and no uuid it is a plain message of that sequence id.
    """

    sequence_id: int
    uuid: str
    chunk_id: int
    chunks: int


PART_BYTES = 8
"""How long each crafted chunk is."""


# ------------------------------------------------------------------------------------------------------- operations


class CreateChunkedTopic(Operation, frozen=True):
    """A fresh topic, with or without deduplication. ChunkedTopic."""

    topic: str
    deduplication: bool = False


class OpenChunking(Operation, frozen=True, omit_defaults=True):
    """Open a producer of a fixed name. The wire client's sends crafted chunks, pulsar-client's sends payloads."""

    session: str
    topic: str
    producer: str
    client: Client = "official"
    is_chunking: bool = True
    compression: Compression = "none"


class SendPayloads(Operation, frozen=True, omit_defaults=True):
    """Send payloads one behind the other, all in flight at once, and wait for the answers. PayloadsSent.

    With ``cut_after`` the connection is cut behind so many of its SENDs, and ``meanwhile`` says what happens then.
    """

    session: str
    payloads: tuple[Payload, ...]
    cut_after: int = 0
    meanwhile: Meanwhile = "reconnects"


class SendInterleaved(Operation, frozen=True):
    """Send payloads, held up behind so many SENDs until another producer has sent its own. PayloadsInterleaved."""

    session: str
    payloads: tuple[Payload, ...]
    after: int
    other: str
    others: tuple[Payload, ...]


class SendCrafted(Operation, frozen=True):
    """Send crafted chunks, in this order, and wait for the answers. PayloadsSent."""

    session: str
    chunks: tuple[Crafted, ...]


class LeaveChunking(Operation, frozen=True):
    """A producer closes in good order, or its connection is cut without a goodbye."""

    session: str
    crashes: bool = False


class SubscribeChunked(Operation, frozen=True, omit_defaults=True):
    """A consumer of pulsar-client subscribes; a new subscription begins at the log's beginning. ChunkedSubscribed.

    ``queue``: how many entries the broker may send ahead. ``pending``: how many chunked messages it puts together at a
    time (0: any number); past that it discards the oldest, or, with ``acks_discarded``, acknowledges it.
    """

    consumer: str
    topic: str
    subscription: str
    kind: Kind = "Exclusive"
    queue: int = 1000
    pending: int = 10
    acks_discarded: bool = False


class GatherChunked(Operation, frozen=True):
    """Have the consumers of a subscription receive all that must come. ChunkedGathered."""

    topic: str
    subscription: str


class AcknowledgeChunked(Operation, frozen=True, omit_defaults=True):
    """A consumer acknowledges some of the messages that it received and did not acknowledge. ChunkedAsked.

    ``nth``: which of them, in the order of receiving, wrapping around.
    """

    consumer: str
    nth: tuple[int, ...]
    is_cumulative: bool = False


class GiveBack(Operation, frozen=True, omit_defaults=True):
    """A consumer fails with some of what it holds, as in acknowledging; with None it asks for everything again."""

    consumer: str
    nth: tuple[int, ...] | None = None


class LeaveChunked(Operation, frozen=True):
    """A consumer closes in good order, or crashes with whatever it has, half messages included."""

    consumer: str
    crashes: bool = False


class MoveSubscription(Operation, frozen=True):
    """An administrator skips the next ``entries`` of a subscription, has the log's first ones expire, or sets it there.

    Setting it puts it before the entry of that number in the log, from 0.
    """

    topic: str
    subscription: str
    how: Moving
    entries: int


class ReadChunkedLog(Operation, frozen=True):
    """Read the log back, entry by entry. ChunkedLog."""

    topic: str


class ReadChunkedBacklog(Operation, frozen=True):
    """Read what a subscription has not acknowledged, by the broker's account. ChunkedBacklog."""

    topic: str
    subscription: str


class ReadChunkRate(Operation, frozen=True):
    """Look at the rates of chunks in the stats until they were refreshed. ChunkRate.

    Meanwhile a producer that is open sends one payload after the other: ``payload``, under rising sequence ids.
    """

    topic: str
    session: str
    payload: Payload


# --------------------------------------------------------------------------------------------------------- outcomes


class Part(Struct, frozen=True, omit_defaults=True):
    """What an entry says of itself as a chunk; without a uuid it is a plain message, one part of one."""

    sequence_id: int
    digest: str
    uuid: str | None = None
    chunk_id: int = 0
    chunks: int = 1
    total_bytes: int = 0

    @property
    def is_chunk(self) -> bool:
        """Whether it is part of a message."""
        return self.uuid is not None

    @property
    def is_last(self) -> bool:
        """Whether its message is whole with it."""
        return self.chunk_id == self.chunks - 1

    def __str__(self) -> str:
        if self.uuid is None:
            return f"{self.sequence_id}"
        return f"chunk {self.chunk_id} of {self.chunks} of {self.sequence_id}"


class Life(Struct, frozen=True, omit_defaults=True):
    """A producer from when the broker let it in until it closed it: what passed to the broker, and its receipts.

    ``receipts``: sequence id and position, None for a duplicate; they are not told apart by chunk. ``refused``: how
    many sends were answered with an error. ``told``: the sequence id that the broker told it, if it was opened since
    the last operation.
    """

    sends: tuple[Part, ...]
    receipts: tuple[tuple[int, Position | None], ...]
    refused: int = 0
    told: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether it ended with sends that were not answered."""
        return len(self.receipts) + self.refused < len(self.sends)


class LoggedPart(Struct, frozen=True, omit_defaults=True):
    """An entry of the log: who sent it, what it says of itself, its size, and that of its metadata before the split."""

    position: Position
    producer: str
    part: Part
    size_bytes: int
    metadata_bytes: int
    compression: Compression = "none"


class Came(Struct, frozen=True, tag="came", omit_defaults=True):
    """An entry that passed the proxy to a consumer."""

    position: Position
    producer: str
    part: Part
    redelivered: int = 0


class Acking(Struct, frozen=True, tag="acking", omit_defaults=True):
    """An acknowledgment that passed to the broker."""

    positions: tuple[Position, ...]
    is_cumulative: bool = False


class Asking(Struct, frozen=True, tag="asking"):
    """A request to have entries delivered again that passed to the broker; none: all of them."""

    positions: tuple[Position, ...]


class Joined(Struct, frozen=True, tag="joined"):
    """The consumer subscribed, for the first time or again."""


Passed = Came | Acking | Asking | Joined
"""What passed between the broker and a consumer."""


class Given(Struct, frozen=True):
    """A message that an application received: the position that the client says, size and digest of its payload."""

    position: Position
    size_bytes: int
    digest: str


class Stream(Struct, frozen=True, omit_defaults=True):
    """What passed between the broker and one consumer since the last look, and what its application received."""

    consumer: str
    passed: tuple[Passed, ...]
    given: tuple[Given, ...] = ()


class ChunkedTopic(Outcome, frozen=True):
    """A topic is there; what the broker takes at most in an entry, and whether it deduplicates."""

    limit_bytes: int
    deduplication: bool


class PayloadsSent(Outcome, frozen=True, omit_defaults=True):
    """What the client said of each payload or chunk, and what was on the wire: one life after the other.

    ``confirmed``: whether it was. ``errors``: where the client refused one, its error, else an empty text. ``died``:
    the producer is no more. ``moved_behind``: the topic was moved behind so many of the lives (0: it was not).
    """

    confirmed: tuple[bool, ...]
    errors: tuple[str, ...]
    lives: tuple[Life, ...]
    died: bool = False
    moved_behind: int = 0


class PayloadsInterleaved(Outcome, frozen=True):
    """What came of the payloads of the one that was held up, and of the other one's."""

    sent: PayloadsSent
    other: PayloadsSent


class ChunkedSubscribed(Outcome, frozen=True):
    """A consumer is subscribed."""


class ChunkedGathered(Outcome, frozen=True):
    """Each consumer's part, and the log, which was read behind all that."""

    log: tuple[LoggedPart, ...]
    streams: tuple[Stream, ...]
    waited_ms: float = 0.0


class ChunkedAsked(Outcome, frozen=True):
    """The messages that were acknowledged or given back (None: all of them), and what of it passed the proxy."""

    messages: tuple[Given, ...] | None
    stream: Stream


class ChunkedLeft(Outcome, frozen=True):
    """A consumer left; what passed until then."""

    stream: Stream


class SubscriptionMoved(Outcome, frozen=True):
    """What a subscription had not acknowledged before and after it was moved, by the broker's account.

    ``streams``: what passed between the broker and its consumers before that.
    """

    before: tuple[Position, ...]
    after: tuple[Position, ...]
    streams: tuple[Stream, ...] = ()


class ChunkedLog(Outcome, frozen=True):
    """The whole log, in the order of positions."""

    entries: tuple[LoggedPart, ...]


class ChunkedBacklog(Outcome, frozen=True):
    """What is not acknowledged, by the broker's account, and what passed between it and its consumers until then."""

    unacknowledged: tuple[Position, ...]
    streams: tuple[Stream, ...] = ()


class ChunkRate(Outcome, frozen=True):
    """The highest rates of chunks that were seen, a second, while payloads were sent; and the life that sent them.

    ``is_chunked``: the broker says that chunks were published.
    """

    rate: float
    is_chunked: bool
    sent: PayloadsSent


ChunkOperation = (
    CreateChunkedTopic
    | OpenChunking
    | SendPayloads
    | SendInterleaved
    | SendCrafted
    | LeaveChunking
    | SubscribeChunked
    | GatherChunked
    | AcknowledgeChunked
    | GiveBack
    | LeaveChunked
    | MoveSubscription
    | ReadChunkedLog
    | ReadChunkedBacklog
    | ReadChunkRate
)
"""Every operation that only document 002 has."""

ChunkOutcome = (
    ChunkedTopic
    | PayloadsSent
    | PayloadsInterleaved
    | ChunkedSubscribed
    | ChunkedGathered
    | ChunkedAsked
    | ChunkedLeft
    | SubscriptionMoved
    | ChunkedLog
    | ChunkedBacklog
    | ChunkRate
)
"""Every outcome that only these have."""
