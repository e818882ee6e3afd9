"""The observer's state of the chunked topics of one example: sends, progress of consumers, acks.

Immutable values only. The modules that judge change them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from model.chunking.assembly import Buffers
from model.chunking.variants import ChunksVariant
from model.log import EARLIEST, Position
from model.traffic import Delivery, Life, LoggedPart
from model.vocabulary import NO_LIMITS, Compression, LookAhead, SubscriptionId, SubscriptionType


@dataclass(frozen=True, slots=True)
class Reloaded:
    """The topic was reloaded: the broker's knowledge follows from the log."""


Act = Life | Reloaded
"""An event of a producer at its broker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SentMessage:
    """A message that an application sent: its expected content, and the client's answer."""

    sequence_id: int
    digest: str
    size_bytes: int
    is_split_allowed: bool = True
    is_confirmed: bool = False
    error: str = ""
    compression: Compression = "none"
    is_crafted: bool = False
    sticky_key: str | None = None


@dataclass(frozen=True, slots=True)
class ChunkingProducer:
    """A producer name on a topic: the messages of its application, and its events at the broker, in order."""

    asked: tuple[SentMessage, ...] = ()
    acts: tuple[Act, ...] = ()
    is_unloaded: bool = False
    """The topic was unloaded, and it did not reconnect since."""

    @property
    def confirmed(self) -> Iterator[Position]:
        """The confirmed positions of its entries."""
        for act in self.acts:
            if isinstance(act, Life):
                yield from (position for _, position in act.receipts if position is not None)

    def of(self, sequence_id: int) -> SentMessage | None:
        """The message with a sequence id."""
        return next((one for one in self.asked if one.sequence_id == sequence_id), None)


@dataclass(frozen=True, slots=True)
class ChunkTopic:
    """A topic: its limit, its deduplication, its producers, and its log at the last read."""

    limit_bytes: int
    deduplication: bool
    producers: Mapping[str, ChunkingProducer] = field(default_factory=dict)
    log: tuple[LoggedPart, ...] = ()
    look_ahead: LookAhead = NO_LIMITS
    drains: bool = True
    """Whether Key_Shared subscriptions have draining hashes, unlike those of the classic implementation."""

    @property
    def end(self) -> Position:
        """The last position that is known to be stored; EARLIEST if there is none."""
        confirmed = (position for producer in self.producers.values() for position in producer.confirmed)
        return max((*(entry.position for entry in self.log), *confirmed), default=EARLIEST)

    def sticky_key(self, entry: LoggedPart) -> str | None:
        """The key of an entry's message, if its application gave it one."""
        sent = self.producers.get(entry.producer, ChunkingProducer()).of(entry.part.sequence_id)
        return None if sent is None else sent.sticky_key

    @property
    def has_unanswered(self) -> bool:
        """Whether a producer's last sends were not answered, so that more may be stored than is known."""
        last = (producer.acts[-1] for producer in self.producers.values() if producer.acts)
        return any(isinstance(act, Life) and act.has_unanswered for act in last)


@dataclass(frozen=True, slots=True, kw_only=True)
class AssembledMessage:
    """A message at a consumer: its entries, up to the last chunk, and repeated ones that are acknowledged with it."""

    positions: tuple[Position, ...]
    repeated: tuple[Position, ...]
    producer: str
    sequence_id: int
    is_split: bool

    @property
    def position(self) -> Position:
        """The position that clients report."""
        return self.positions[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkClient:
    """The client of a consumer: its buffers, and the messages that it owes its application.

    ``variant``: how it assembles them. ``optional``: how many of the first ``owed`` messages need not be delivered,
    because a redelivery request for everything followed them. ``discarded``: entries that it discarded at its pending
    limit without a redelivery request.
    """

    variant: ChunksVariant
    buffers: Buffers
    owed: tuple[AssembledMessage, ...] = ()
    optional: int = 0
    discarded: frozenset[Position] = frozenset()
    requests_discarded: bool = False
    """Whether it ever requested redelivery of an entry that it discarded."""
    acknowledged: frozenset[Position] = frozenset()
    """Entries that it acknowledges without its application."""
    superseded: frozenset[Position] = frozenset()
    """Entries whose chunk it has from another entry: it may acknowledge them at once, or with their message."""
    delayed: frozenset[Position] = frozenset()
    """Entries that it ever discarded, which are redelivered later."""
    rules: frozenset[str] = frozenset()
    """The rules exercised since the last comparison."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackedConsumer:
    """A consumer: its client, the unacknowledged messages of its application, and the progress of its dispatch.

    ``last``: the last entry sent since everything was requested. ``is_rewound``: everything was requested, and nothing
    was sent since. ``requests``: how many requests for everything have not had the broker begin again, which it does at
    most once for each; one request may overtake what the broker sends for another. ``holds``: its pending entries.
    """

    subscription: SubscriptionId
    kind: SubscriptionType
    client: ChunkClient
    unacknowledged: tuple[tuple[Delivery, AssembledMessage], ...] = ()
    last: Position | None = None
    is_rewound: bool = True
    requests: int = 0
    holds: frozenset[Position] = frozenset()
    unsure: frozenset[Position] = frozenset()
    """Pending entries that the broker may have sent before a request for everything arrived, or before an unload. It
    may have sent them to another consumer since."""
    is_returning: bool = False
    """Whether such a request or unload is so recent that earlier dispatches may still arrive."""
    is_there: bool = True
    queue: int = 0
    """The places of its receiver queue; 0: any number."""
    permits: int | None = None
    """The entries that the broker may still send it. None: not known, as its first permits were not recorded."""
    awaits_permits: bool = False
    """Whether nothing has passed since it subscribed, so that the next permits are its first."""


@dataclass(frozen=True, slots=True)
class ChunkSubscription:
    """A subscription. ``acknowledged``: the entries that the broker need not dispatch, because acks of them passed.
    ``delayed``: entries that a client discarded and that are redelivered later.
    ``of_leavers``: entries that a consumer had when it left, since the topic was loaded.

    What the broker keeps of the acks is judged by the cursor (:mod:`model.subscriptions.watched`).
    """

    acknowledged: frozenset[Position] = frozenset()
    delayed: frozenset[Position] = frozenset()
    of_leavers: frozenset[Position] = frozenset()
    delivered: Mapping[str, int] = field(default_factory=dict)
    """The highest delivered sequence id of each producer, since the order last started over."""
    seen: frozenset[tuple[str, int]] = frozenset()
    """The delivered messages, by producer and sequence id."""


@dataclass(frozen=True, slots=True)
class Chunking:
    """All chunked topics of an example."""

    topics: Mapping[str, ChunkTopic] = field(default_factory=dict)
    consumers: Mapping[str, TrackedConsumer] = field(default_factory=dict)
    subscriptions: Mapping[SubscriptionId, ChunkSubscription] = field(default_factory=dict)

    def with_topic(self, name: str, topic: ChunkTopic) -> Chunking:
        return replace(self, topics={**self.topics, name: topic})

    def with_producer(self, topic: str, name: str, producer: ChunkingProducer) -> Chunking:
        view = self.topics[topic]
        return self.with_topic(topic, replace(view, producers={**view.producers, name: producer}))

    def with_consumer(self, name: str, consumer: TrackedConsumer) -> Chunking:
        return replace(self, consumers={**self.consumers, name: consumer})

    def with_subscription(self, subscription_id: SubscriptionId, subscription: ChunkSubscription) -> Chunking:
        return replace(self, subscriptions={**self.subscriptions, subscription_id: subscription})

    def without_leavers(self, topic: str | None) -> Chunking:
        """The same after a topic (None: each one) was reloaded."""
        state = self
        for subscription_id, subscription in self.subscriptions.items():
            if topic in (None, subscription_id.topic):
                state = state.with_subscription(subscription_id, replace(subscription, of_leavers=frozenset()))
        return state

    def consumers_of(self, subscription_id: SubscriptionId) -> Iterator[tuple[str, TrackedConsumer]]:
        """The connected consumers."""
        for name, consumer in self.consumers.items():
            if consumer.is_there and consumer.subscription == subscription_id:
                yield name, consumer

    def left(self, subscription_id: SubscriptionId) -> list[LoggedPart]:
        """The unacknowledged entries of the log at the last read."""
        acknowledged = self.subscriptions[subscription_id].acknowledged
        return [entry for entry in self.topics[subscription_id.topic].log if entry.position not in acknowledged]
