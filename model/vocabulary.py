"""Values that operations and outcomes share: their base classes, messages, subscription types, network faults."""

from __future__ import annotations

from typing import ClassVar, Final, Literal, NamedTuple

from msgspec import Struct

Client = Literal["wire", "official"]
"""The client of a session or consumer: the suite's own on the binary protocol, or pulsar-client."""

SubscriptionType = Literal["Exclusive", "Failover", "Shared", "Key_Shared"]
"""The subscription types of Pulsar."""
IN_ORDER: frozenset[SubscriptionType] = frozenset({"Exclusive", "Failover"})
"""Those whose messages are sent in order, to one consumer."""


AccessMode = Literal["Shared", "Exclusive", "ExclusiveWithFencing", "WaitForExclusive"]
"""The access modes of producers (PIP-68, PIP-161)."""


class SubscriptionId(NamedTuple):
    """A subscription's topic and name."""

    topic: str
    name: str


REPLICATOR: Final = "pulsar.repl."
"""What the names of replicators begin with, as producers in the other cluster and as cursors in their own."""

Start = Literal["earliest", "latest"]
"""The initial position of a new subscription."""

WideScope = Literal["namespace", "bundle"]
RequestScope = Literal["topic"] | WideScope
"""What an administrator's request is for: one topic, its namespace, or its bundle. Then the namespace is of this topic
alone."""

Persistence = Literal["shipped", "once-a-second", "every-ack"]
"""The rate limit for persisting a topic's cursors: as the release ships it (0.1 a second in its configuration file),
once a second as document 003 has it, or with every ack (no limit)."""

PERSISTED_PER_S: Final[dict[Persistence, float | None]] = {"shipped": 0.1, "once-a-second": 1.0, "every-ack": None}
"""The same in numbers; None: no limit."""


Quorum = Literal["2/2/2", "3/3/2", "3/2/2"]
"""On how many bookies the ledgers of a topic are: ensemble size, write quorum, ack quorum."""
ENSEMBLE: Final[dict[Quorum, int]] = {"2/2/2": 2, "3/3/2": 3, "3/2/2": 3}
"""How many bookies a ledger takes. All of these allow the loss of one."""


class Limits(Struct, frozen=True):
    """What a topic's namespace allows each subscription; 0 is any number.

    ``consumers``: so many at a time. Where consumers share the messages, ``unacknowledged``: so many unacknowledged
    messages at a consumer, and ``in_all``: so many at all consumers of the subscription.
    """

    consumers: int = 0
    unacknowledged: int = 0
    in_all: int = 0


class LookAhead(Struct, frozen=True):
    """How many messages may wait in the replay queue of a Key_Shared subscription before its dispatcher reads no new
    messages: so many for each consumer, and so many in all (0: no limit)."""

    per_consumer: int = 2000
    per_subscription: int = 20000

    def limit(self, consumers: int) -> int | None:
        """The limit with so many consumers; None: there is none."""
        limits = [one for one in (self.per_consumer * consumers, self.per_subscription) if one > 0]
        return min(limits, default=None)


NO_LIMITS = LookAhead(0, 0)


class SnapshotSchedule(Struct, frozen=True):
    """When a deduplication snapshot of a topic is due.

    ``entries``: after so many entries. ``period_s``: by the timer at the latest so long after the last one, where
    anything was stored since; None: there is no timer.
    """

    entries: int
    period_s: float | None = None


class Withheld(Struct, frozen=True):
    """By the broker's stats, new messages are withheld from a subscription with too many ``unacknowledged`` messages.

    ``read_pending``: a read that began before may still end with new messages.
    """

    unacknowledged: int
    read_pending: bool = False


ACTORS: Final = ("session", "consumer", "reader", "source", "program")
"""The fields that name who performs an operation, in the history's own names."""


class Operation(Struct, frozen=True, tag_field="op", tag=True):
    """An operation of a history: one command, or one step of an application.

    Every operation has a topic, subscription, actor and cluster: None where it has none, or where an earlier operation
    of its actor named it. A field of that name is the answer. What else the suite needs to know of it are constants of
    its class, so that no list elsewhere names it.
    """

    request: ClassVar[str] = ""
    """What a diagram calls it, if it is one request to the broker."""
    is_look: ClassVar[bool] = False
    """Whether the suite only observes by it, or waits: what follows it follows the operation before."""
    may_be_cause: ClassVar[bool] = False
    """Whether it is a fault or an administrator's change, which may be the cause of what breaks a rule later."""

    @property
    def topic(self) -> str | None:
        """The topic that the operation names."""
        return None

    @property
    def subscription(self) -> str | None:
        """The subscription that the operation names."""
        return None

    @property
    def cluster(self) -> str | None:
        """The cluster that the operation names."""
        return None

    @property
    def actor(self) -> str | None:
        """The session, consumer, source or program that performs the operation."""
        return next((getattr(self, field) for field in ACTORS if field in self.__struct_fields__), None)


class Outcome(Struct, frozen=True, tag_field="outcome", tag=True):
    """The outcome of an operation, as the client or the broker reported it."""


Compression = Literal["none", "lz4", "zlib"]
"""The compression of a producer."""

Content = Literal["text", "noise", "pattern"]
"""The payload of a message: its business id, with spaces up to its size; or bytes that follow from its business id,
which do not compress, or do."""


class ChunkNumber(Struct, frozen=True, omit_defaults=True):
    """The chunk that the wire client sends of a message.

    With a ``uuid`` the chunk has a business id of its own, and a payload of text, as consumers that take entries as
    they are tell messages apart. Without one the business id is that of the message, and its uuid.
    """

    chunk_id: int
    chunks: int
    uuid: str | None = None

    @property
    def is_last(self) -> bool:
        """Whether the message is complete with it."""
        return self.chunk_id == self.chunks - 1


class Message(Struct, frozen=True, omit_defaults=True):
    """One message: its sequence id, the business id that its payload carries, and its keys if it has any.

    ``size_bytes``: the least size of the payload. With ``chunk``, only that chunk of the message is sent.
    ``only_to``: the clusters that it may be replicated to; None: to all. ``delay_ms``: consumers that share their
    subscription receive it so long after it was sent, at the earliest. Batches and chunks have no delay.
    """

    sequence_id: int
    business_id: str
    key: str | None = None
    ordering_key: str | None = None
    size_bytes: int = 0
    content: Content = "text"
    chunk: ChunkNumber | None = None
    only_to: tuple[str, ...] | None = None
    delay_ms: int = 0

    @property
    def sticky_key(self) -> str | None:
        """The key that Key_Shared subscriptions use: the ordering key where there is one, otherwise the key."""
        return self.key if self.ordering_key is None else self.ordering_key

    def __str__(self) -> str:
        """Its business id, and its size where it has one."""
        if self.chunk is not None:
            of_uuid = self.business_id if self.chunk.uuid is None else f"{self.chunk.uuid}: {self.business_id}"
            return f"chunk {self.chunk.chunk_id} of {self.chunk.chunks} of {of_uuid}"
        if self.only_to is not None:
            return f"{self.business_id}, only to {' and '.join(self.only_to) or 'no other cluster'}"
        if self.delay_ms:
            return f"{self.business_id}, delayed by {self.delay_ms} ms"
        if not self.size_bytes:
            return self.business_id
        content = "" if self.content == "text" else f" of {self.content}"
        return f"{self.business_id}, {self.size_bytes} bytes{content}"


class Entry(Struct, frozen=True):
    """What becomes one entry of the log: a single message, or a batch of several, ids rising."""

    messages: tuple[Message, ...]

    @property
    def lowest(self) -> int:
        """The lowest sequence id in it."""
        return self.messages[0].sequence_id

    @property
    def highest(self) -> int:
        """The highest sequence id in it."""
        return self.messages[-1].sequence_id

    @property
    def sticky_key(self) -> str | None:
        """The key that Key_Shared subscriptions use: that of its first message."""
        return self.messages[0].sticky_key

    @property
    def chunk(self) -> ChunkNumber | None:
        """Which chunk of a message it is, with the message's uuid; None if it is no chunk."""
        first = self.messages[0]
        if first.chunk is None or first.chunk.uuid is not None:
            return first.chunk
        return ChunkNumber(first.chunk.chunk_id, first.chunk.chunks, first.business_id)

    @property
    def is_part(self) -> bool:
        """Whether it is a chunk of a message that is not complete with it."""
        chunk = self.messages[0].chunk
        return chunk is not None and not chunk.is_last

    @property
    def is_batch(self) -> bool:
        """Whether it holds more than one message."""
        return len(self.messages) > 1

    def __str__(self) -> str:
        ids = str(self.lowest)
        if self.is_batch:
            is_dense = self.highest - self.lowest < len(self.messages)
            own = (str(message.sequence_id) for message in self.messages)
            ids = f"batch {self.lowest}..{self.highest}" if is_dense else f"batch {','.join(own)}"
        key = f", key {self.sticky_key}" if self.sticky_key is not None else ""
        return f"{ids} ({', '.join(map(str, self.messages))}{key})"


def partition_name(topic: str, number: int) -> str:
    """The name of a partition of a topic, in a history as on a broker."""
    return f"{topic}-partition-{number}"


# ------------------------------------------------------------------------------------------------------ network faults
#
# A network that carries streams keeps their order; what does not get through ends with its connection. Each fault acts
# on commands by their type, so that a replay repeats it. Faults make outcomes unknown and excuse nothing else: what a
# client was told before its connection ended still holds.

Carried = Literal["PRODUCER", "PRODUCER_SUCCESS", "SEND", "SEND_RECEIPT", "FLOW", "MESSAGE", "ACK", "ACK_RESPONSE"]
"""The commands that faults act on, by their names in the protocol."""

Where = Literal["before", "within", "after"]
"""Where a connection ends: with nothing of a command passed on, with some of its bytes, or with all of it."""


class CutAt(Struct, frozen=True, tag="cut-at"):
    """The connection ends at the ``nth`` command of this kind."""

    kind: Carried
    nth: int = 1
    where: Where = "before"


class CutAfter(Struct, frozen=True, tag="cut-after"):
    """The first connection that has carried so many more bytes to the broker, or to the client, ends there."""

    size_bytes: int
    to_broker: bool = True


class LoseThenCut(Struct, frozen=True, tag="lose-then-cut"):
    """The ``count`` commands of this kind from the ``nth`` on never arrive, and the connection ends with them."""

    kind: Carried
    nth: int = 1
    count: int = 1


class Delay(Struct, frozen=True, tag="delay"):
    """The ``nth`` command of this kind, and all that follows it in the stream, arrives later."""

    kind: Carried
    nth: int = 1
    delay_ms: int = 20


class Hold(Struct, frozen=True, tag="hold"):
    """The ``nth`` command of this kind, and all that follows it, arrives when a client next waits for an answer."""

    kind: Carried
    nth: int = 1


class RefuseConnections(Struct, frozen=True, tag="turn-away"):
    """New connections are refused for so long."""

    for_ms: int


NetworkFault = CutAt | CutAfter | LoseThenCut | Delay | Hold | RefuseConnections
"""Every fault of the network."""


class HashRange(Struct, frozen=True, order=True, gc=False):
    """The hashes from ``first`` to ``last``, both included."""

    first: int
    last: int

    def __contains__(self, hashed: int) -> bool:
        return self.first <= hashed <= self.last

    def __len__(self) -> int:
        return max(0, self.last - self.first + 1)

    def __str__(self) -> str:
        return f"{self.first}..{self.last}"

    def overlaps(self, other: HashRange) -> bool:
        """Whether some hash is in both."""
        return self.first <= other.last and other.first <= self.last
