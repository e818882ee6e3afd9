"""What the tap remembers of topics, subscriptions, and the producers and consumers on the connections.

All of it is bounded: per topic and subscription, per connected handle, and per request without an answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from msgspec import Struct

from conformance.proxy.events import ChunkFields, Contents, MessageFields
from model.log import Position

MOST_BATCHES: Final = 50_000
"""How many unacknowledged batches of a subscription are remembered with their sizes; older ones are dropped."""

Row = dict[str, Any]
"""Fields of a recorded event."""


class TopicLook(Struct, frozen=True, kw_only=True):
    """What the admin API said of a topic at one time; None of a number that it did not say."""

    topic: str
    invoked_ns: int
    completed_ns: int
    is_deduplicated: bool | None
    is_replicated: bool
    first_ledger: int | None
    first: Position | None
    """The position of its first entry."""
    producers: frozenset[str]
    """Those in its deduplication snapshot."""
    subscriptions: dict[str, SubscriptionLook]


class FailedLook(Struct, frozen=True):
    """The admin API did not say anything of a topic."""

    topic: str


class SubscriptionLook(Struct, frozen=True, kw_only=True):
    """The same of a durable subscription."""

    mark_delete: Position
    is_replicated: bool
    has_ranges: bool
    """Whether messages are acknowledged individually."""
    expired: int
    strangers: tuple[str, ...]
    """The addresses of consumers that do not connect through the tap."""


class PendingSend(Struct):
    """A SEND without an answer."""

    sequence_id: int
    invoked_ns: int
    contents: Contents | None
    chunk: ChunkFields | None


@dataclass(slots=True)
class TapTopic:
    """A topic that producers or consumers have used through the tap."""

    name: str
    handles: int = 0
    """How many producers and consumers are connected."""
    unseen_since_ns: int | None = None
    """Since when something may have happened to it that the tap does not see."""
    first: Position | None = None
    """The lowest position that was confirmed to a producer."""
    producers: set[str] | None = field(default_factory=set)
    """The names of its producers until the first look; None after that."""
    begins: TopicLook | None = None
    not_deduplicated: str | None = None
    """Why it is not judged whether it is deduplicated correctly."""
    trouble: str | None = None
    """Why its log is not judged."""
    subscriptions: dict[str, TapSubscription] = field(default_factory=dict)


@dataclass(slots=True)
class TapSubscription:
    """A subscription that consumers have used through the tap."""

    name: str
    is_durable: bool
    consumers: int = 0
    """How many are connected."""
    acks: int = 0
    begins: SubscriptionLook | None = None
    trouble: str | None = None
    """Why it is not judged what it received and acknowledged in all."""
    batches: dict[Position, int] = field(default_factory=dict)
    """The sizes of batches that were dispatched and not yet acknowledged."""

    def dispatched(self, position: Position, batch_size: int) -> tuple[Position, int] | None:
        """Remember a batch; returns the one that is dropped for it, if any, with its size."""
        self.batches.pop(position, None)
        self.batches[position] = batch_size
        if len(self.batches) <= MOST_BATCHES:
            return None
        oldest = next(iter(self.batches))
        return oldest, self.batches.pop(oldest)


class TapProducer(Struct):
    """A producer on a connection."""

    topic: TapTopic
    name: str
    told: int
    """The last sequence id that the broker told when it was created; -1 for none."""
    pending: deque[PendingSend]
    highest: int
    """The highest sequence id that it sent; -1 for none."""
    refused: set[str]
    """The uuids of chunked messages of which a chunk was not stored for certain."""

    def answered(self, sequence_id: int) -> PendingSend | None:
        """Take the oldest SEND with this sequence id."""
        for index, send in enumerate(self.pending):
            if send.sequence_id == sequence_id:
                del self.pending[index]
                return send
        return None


class TapConsumer(Struct):
    """A consumer on a connection; ``who``: the fields that its events have."""

    topic: TapTopic
    subscription: TapSubscription
    who: Row
    subscribed_ns: int
    is_replicated: bool
    left_ns: int | None = None
    """When it asked to leave."""


class PendingAck(Struct):
    """An ACK without an answer."""

    consumer: TapConsumer
    invoked_ns: int
    rows: list[Row]
    positions: tuple[Position, ...]
    """Those that it acknowledges whole."""


@dataclass(slots=True)
class TapConnection:
    """A connection, with the requests that are not answered yet, by request id."""

    producers: dict[int, TapProducer] = field(default_factory=dict)
    consumers: dict[int, TapConsumer] = field(default_factory=dict)
    subscribing: dict[int, tuple[int, TapConsumer]] = field(default_factory=dict)
    closing: dict[int, Callable[[int, bool | None], None]] = field(default_factory=dict)
    """What to do with the answer to a request: its time, and whether it is a success; None without an answer."""
    acks: dict[int, PendingAck] = field(default_factory=dict)

    def topics(self) -> Iterator[TapTopic]:
        """The topics that it has a producer or consumer of, each once for each."""
        for producer in self.producers.values():
            yield producer.topic
        for consumer in self.consumers.values():
            yield consumer.topic


def rows_of_entry(position: Position, indexes: Iterable[int]) -> list[Row]:
    """The position of each message of an entry."""
    return [{"ledger": position.ledger, "entry": position.entry, "batch_index": index} for index in indexes]


def fields_of(message: MessageFields) -> Row:
    """What a message on the wire is, as fields of an event."""
    return {
        "sequence_id": message.sequence_id,
        "key": message.key,
        "digest": message.digest,
        "size_bytes": message.size_bytes,
    }
