"""A consumer of simulated subscriptions with its client: grouped acks, the receiver queue, and the received messages.
Which consumer receives what is left to :mod:`tests.lockstep.simulated.dispatch`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from model.events import Delivery
from model.log import Position
from model.subscription_operations import Subscribe
from model.vocabulary import Client, SubscriptionType
from tests.lockstep.simulated.subscription import Log, Spot

Key = tuple[str, str]
"""A topic, and the name of a subscription."""
Given = tuple[str, Delivery]
"""A delivered message, and its topic."""


def spot_of(message: Delivery) -> Spot:
    """The identity of a message."""
    return message.position, max(0, message.batch_index)


@dataclass(frozen=True, slots=True)
class HeldBack:
    """An ack that a client holds and has not sent yet."""

    topic: str
    spots: tuple[Spot, ...]
    cumulative: bool

    def covered(self, log: Log) -> Iterable[Spot]:
        """The messages of its topic's log that it covers."""
        if not self.cumulative:
            return self.spots
        return [spot for spot in log.spots(log.up_to(self.spots[0][0])) if spot <= self.spots[0]]


@dataclass(slots=True)
class Consumer:
    """A consumer and its client, of a topic or of all partitions of one."""

    topics: tuple[str, ...]
    subscription: str
    kind: SubscriptionType
    client: Client
    queue: int
    permits: int = 0
    taken_of_queue: int = 0
    waiting: deque[Given] = field(default_factory=deque)
    received: list[Given] = field(default_factory=list)
    acknowledged: set[tuple[str, Spot]] = field(default_factory=set)
    held_back: list[HeldBack] = field(default_factory=list)
    failed: list[tuple[str, Position]] = field(default_factory=list)
    hidden: set[tuple[str, Spot]] = field(default_factory=set)
    undercount: int = 0
    """How many messages it acknowledged without having received them, if that counts."""
    known_as: str | None = None
    claims: tuple[tuple[int, int], ...] = ()
    keeps_keys: bool = True

    @property
    def keys(self) -> list[Key]:
        """The subscriptions that it consumes, one on each topic."""
        return [(topic, self.subscription) for topic in self.topics]

    def ask_for(self, count: int) -> None:
        """Permit the missing messages; with a queue the broker may already send them."""
        if self.queue == 0:
            self.permits += max(0, count - len(self.waiting) - self.permits)

    def take(self, count: int) -> list[Given]:
        """Receive, and permit as many more once half of the queue is used up."""
        number = len(self.waiting) if self.queue == 0 else min(count, len(self.waiting))
        taken = [self.waiting.popleft() for _ in range(number)]
        self.received += taken
        if self.queue:
            self.taken_of_queue += number
            if self.taken_of_queue * 2 >= self.queue:
                self.permits += self.taken_of_queue
                self.taken_of_queue = 0
        return taken

    def lose_held_back(self, topic: str) -> list[HeldBack]:
        """Lose the acks of a topic that it held back; those."""
        lost = [ack for ack in self.held_back if ack.topic == topic]
        self.held_back = [ack for ack in self.held_back if ack.topic != topic]
        return lost

    def chosen(self, nth: Iterable[int]) -> list[Given]:
        """The received messages with these indexes, which wrap around; each once."""
        count = len(self.received)
        return [self.received[number] for number in dict.fromkeys(n % count for n in nth)] if count else []


def consumer_of(operation: Subscribe, topics: tuple[str, ...]) -> Consumer:
    """The consumer that subscribes; pulsar-client's always has a queue."""
    queue = max(1, operation.queue) if operation.client == "official" else operation.queue
    return Consumer(
        topics,
        operation.subscription,
        operation.kind,
        operation.client,
        queue,
        permits=queue,
        known_as=operation.known_as,
        claims=operation.sticky,
        keeps_keys=not operation.out_of_order,
    )


def dispatched(log: Log, name: str, spot: Spot) -> Delivery:
    """A message of the log as a client identifies it."""
    size = len(log.entries[spot[0]])
    return Delivery(spot[0], spot[1] if size > 1 else -1, size if size > 1 else 0, name)


def of_entries(logs: Mapping[str, Log], consumer: Consumer, messages: list[Given], *, cumulative: bool) -> list[Given]:
    """The acks of a client that waits for all messages of a batch, or, cumulatively, up to the entry before it."""
    acknowledged: list[Given] = []
    for topic, position in dict.fromkeys((topic, message.position) for topic, message in messages):
        log, entries = logs[topic], logs[topic].up_to(position)
        if not log.spots([position]) <= {spot for where, spot in consumer.acknowledged if where == topic}:
            entries.pop()
            if not cumulative:
                continue
        for last in entries[-1:]:
            spots = sorted(log.spots([last]))[-1 if cumulative else 0 :]
            acknowledged += [(topic, dispatched(log, log.entries[last][spot[1]], spot)) for spot in spots]
    return acknowledged
