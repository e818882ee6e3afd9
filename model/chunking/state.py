"""What is known of chunked topics in one example: who sent what, how far each consumer is, what is acknowledged.

Values only; what becomes of them is told by the modules that judge.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from model.chunking.assembly import Buffers
from model.chunking.assignment import NOTHING_SENT, Assignment
from model.log import EARLIEST, Position
from model.traffic import Delivery, Life, LoggedPart
from model.vocabulary import NO_LIMITS, Compression, LookAhead, SubscriptionId, SubscriptionType


@dataclass(frozen=True, slots=True)
class Moved:
    """The topic was closed and is loaded again: what its broker remembers follows from the log."""


Act = Life | Moved
"""What a broker met of a producer, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A message that an application had sent: what it should come out as, and what the client said of it."""

    sequence_id: int
    digest: str
    size_bytes: int
    is_split_allowed: bool = True
    is_confirmed: bool = False
    error: str = ""
    compression: Compression = "none"
    is_crafted: bool = False


@dataclass(frozen=True, slots=True)
class Producer:
    """A producer's name on a topic: what was asked of it, in order, and what the broker met of it."""

    asked: tuple[Asked, ...] = ()
    acts: tuple[Act, ...] = ()
    is_unloaded: bool = False
    """The topic was moved, and it did not come back since."""

    @property
    def confirmed(self) -> Iterator[Position]:
        """Where the broker confirmed to it that entries are stored."""
        for act in self.acts:
            if isinstance(act, Life):
                yield from (position for _, position in act.receipts if position is not None)

    def of(self, sequence_id: int) -> Asked | None:
        """What was sent under a sequence id."""
        return next((one for one in self.asked if one.sequence_id == sequence_id), None)


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic: its limit, whether it deduplicates, its producers, and its log as it was read last."""

    limit_bytes: int
    deduplication: bool
    producers: Mapping[str, Producer] = field(default_factory=dict)
    log: tuple[LoggedPart, ...] = ()
    deviating: frozenset[str] = frozenset()
    """The producers of which a known deviation took something from its log, or stored it again."""
    look_ahead: LookAhead = NO_LIMITS

    @property
    def end(self) -> Position:
        """The last position that is known to be stored; before the first one if there is none."""
        confirmed = (position for producer in self.producers.values() for position in producer.confirmed)
        return max((*(entry.position for entry in self.log), *confirmed), default=EARLIEST)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message as it came to a consumer: its entries, the last chunk's being last, and what else is acknowledged."""

    positions: tuple[Position, ...]
    laid_by: tuple[Position, ...]
    producer: str
    sequence_id: int
    is_split: bool

    @property
    def position(self) -> Position:
        """The one that clients say."""
        return self.positions[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientHypothesis:
    """One way in which a consumer may work: by which deviations, with which buffers, and what it is to deliver.

    ``optional``: how many of the first ``owed`` messages may not come, because everything was asked for again behind
    them. ``discarded``: entries that it threw away past its limit and did not ask for again.
    """

    deviations: tuple[str, ...]
    buffers: Buffers
    owed: tuple[Message, ...] = ()
    optional: int = 0
    discarded: frozenset[Position] = frozenset()
    acknowledged: frozenset[Position] = frozenset()
    """What it acknowledges by itself."""
    put_off: frozenset[Position] = frozenset()
    """What it ever discarded or set aside, which comes again later."""
    rules: frozenset[str] = frozenset()
    """What was put to the test since it was last held against what came."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumer:
    """A consumer: its hypotheses, the messages that its application has, and where the broker is with it.

    ``last``: the entry that was sent last since everything was asked for. ``is_rewound``: everything was asked for, and
    nothing came since. ``holds``: what was sent to it, was not acknowledged, and was not asked for again.
    """

    topic: str
    subscription: str
    kind: SubscriptionType
    hypotheses: tuple[ClientHypothesis, ...]
    queue: int = 0
    """Of how many messages its receiver queue is, which is the most permits that it gives; 0: it gives any number."""
    held: tuple[tuple[Delivery, Message], ...] = ()
    last: Position | None = None
    is_rewound: bool = True
    asked_after: Position | None = None
    """What an ordered consumer was sent last when it requested redelivery, until all that was due has come."""
    holds: frozenset[Position] = frozenset()
    skipped: frozenset[Position] = frozenset()
    """What two reads in parallel skipped after a redelivery request, until everything is sent again."""
    unsure: frozenset[Position] = frozenset()
    """Of these, what the broker may have sent before it met a request for everything, or before the topic was moved.
    It may have sent that to another consumer since."""
    reassigned: frozenset[Position] = frozenset()
    """The pending entries of a Key_Shared consumer when another one joined or left, which may have reassigned their
    hash. It is known once all was received that was on its way then."""
    is_reassigning: bool = False
    """Whether another one joined or left, and not all was received since."""
    is_returning: bool = False
    """Whether such a request, or a move, is so recent that what is sent may be from before it."""
    is_there: bool = True


@dataclass(frozen=True, slots=True)
class Subscription:
    """A subscription: what is acknowledged, and what of it a broker may have lost with its topic.

    ``settled``: what the broker was seen to have as acknowledged. ``perhaps_lost``: what it need not have any more:
    when a topic is closed, acknowledgments that may not have reached it; when it is killed, any. ``put_off``: entries
    that a client discarded or set aside, which come again later.
    """

    acknowledged: frozenset[Position] = frozenset()
    assignment: Assignment = NOTHING_SENT
    settled: frozenset[Position] = frozenset()
    perhaps_lost: frozenset[Position] = frozenset()
    put_off: frozenset[Position] = frozenset()
    delivered: Mapping[str, int] = field(default_factory=dict)
    """The highest sequence id that was delivered of each producer, since the order was last broken for a reason."""
    seen: frozenset[tuple[str, int]] = frozenset()
    """What was delivered, by producer and sequence id."""

    def unloaded(self, *, is_graceful: bool) -> Subscription:
        """The same when its topic was closed, or its broker killed, and is loaded again."""
        lost = self.acknowledged - self.settled if is_graceful else self.acknowledged
        return replace(self, assignment=NOTHING_SENT, perhaps_lost=self.perhaps_lost | lost)


@dataclass(frozen=True, slots=True)
class Chunking:
    """All chunked topics of an example."""

    topics: Mapping[str, Topic] = field(default_factory=dict)
    consumers: Mapping[str, Consumer] = field(default_factory=dict)
    subscriptions: Mapping[SubscriptionId, Subscription] = field(default_factory=dict)

    def with_topic(self, name: str, topic: Topic) -> Chunking:
        """The same with another state of a topic."""
        return replace(self, topics={**self.topics, name: topic})

    def with_producer(self, topic: str, name: str, producer: Producer) -> Chunking:
        """The same with another state of a producer."""
        view = self.topics[topic]
        return self.with_topic(topic, replace(view, producers={**view.producers, name: producer}))

    def with_consumer(self, name: str, consumer: Consumer) -> Chunking:
        """The same with another state of a consumer."""
        return replace(self, consumers={**self.consumers, name: consumer})

    def with_subscription(self, subscription_id: SubscriptionId, subscription: Subscription) -> Chunking:
        """The same with another state of a subscription."""
        return replace(self, subscriptions={**self.subscriptions, subscription_id: subscription})

    def with_reassigned_hashes(self, subscription_id: SubscriptionId) -> Chunking:
        """The same when a consumer joined a subscription or left it."""
        state = self
        for name, consumer in self.consumers_of(subscription_id):
            if consumer.kind == "Key_Shared":
                state = state.with_consumer(name, replace(consumer, is_reassigning=True))
        return state

    def consumers_of(self, subscription_id: SubscriptionId) -> Iterator[tuple[str, Consumer]]:
        """The consumers that are there."""
        for name, consumer in self.consumers.items():
            if consumer.is_there and (consumer.topic, consumer.subscription) == subscription_id:
                yield name, consumer

    def left(self, subscription_id: SubscriptionId) -> list[LoggedPart]:
        """What is in the log as it was read last and is not acknowledged."""
        acknowledged = self.subscriptions[subscription_id].acknowledged
        return [entry for entry in self.topics[subscription_id.topic].log if entry.position not in acknowledged]
