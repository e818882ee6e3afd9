"""What breaks a rule on counts, limits or what is sent: the evidence that deviations look at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from model.cursors.acked import Acked
from model.cursors.cursor import Persisting
from model.cursors.log import TopicLog
from model.log import Position
from model.subscriptions.consumers import SHARED, Message
from model.subscriptions.state import Consumption
from model.vocabulary import SubscriptionId

Counted = Literal["at consumer", "in all", "blocked", "starving", "backlog"]
"""What a count is of: the unacknowledged messages of a consumer, or of a subscription, by the stats; those for which a
consumer is blocked, or starves; or the unacknowledged entries of a subscription."""


@dataclass(frozen=True, slots=True)
class Count:
    """A count of a broker that is wrong by ``difference``: too high, or too low if that is negative.

    ``shown``: the count. ``state``: when it was compared. ``consumer``: whose count it is. ``seen``: the state of the
    cursor, if it is known.
    """

    of: Counted
    state: Consumption
    subscription: SubscriptionId
    difference: int
    consumer: str = ""
    shown: int = 0
    seen: Acked | None = None

    @property
    def counts(self) -> tuple[Count, ...]:
        """All counts that are to be explained."""
        return (self,)


@dataclass(frozen=True, slots=True)
class Starving:
    """Consumers of a subscription that are sent nothing, although messages are due."""

    state: Consumption
    consumers: tuple[str, ...]

    @property
    def counts(self) -> tuple[Count, ...]:
        """How many more messages the broker must count at each of them to block them all; none if it never does."""
        every = tuple(self._blocking())
        return every if len(every) == len(self.consumers) else ()

    def _blocking(self) -> Iterator[Count]:
        for name in self.consumers:
            consumer = self.state.consumers[name]
            limit = self.state.limit_of(consumer)
            if limit and consumer.kind in SHARED:
                needed = max(1, limit - consumer.most)
                yield Count("starving", self.state, consumer.subscriptions[0], needed, name)


@dataclass(frozen=True, slots=True)
class BeyondLimit:
    """A consumer was sent messages although it had as many as allowed, or more."""

    consumer: str
    had: int
    limit: int


@dataclass(frozen=True, slots=True)
class SentAgain:
    """A consumer was sent a message that is pending at it, or at another one."""

    state: Consumption
    subscription: SubscriptionId
    consumer: str
    message: Message


@dataclass(frozen=True, slots=True)
class SentOnceMore:
    """A consumer was sent a message that is acknowledged, or a copy besides the redelivery that it requested."""

    subscription: SubscriptionId
    message: Message


@dataclass(frozen=True, slots=True)
class TakenTwice:
    """One new consumer was sent these messages twice."""

    subscription: SubscriptionId
    messages: frozenset[Message]


@dataclass(frozen=True, slots=True)
class Peeked:
    """A peek at the ``nth`` unacknowledged entry returned another one, by all ``possible`` states of the cursor."""

    possible: frozenset[Acked]
    log: TopicLog
    nth: int
    position: Position | None


@dataclass(frozen=True, slots=True)
class MarkDeleteLags:
    """The mark-delete position is right before entries that are acknowledged."""

    subscription: SubscriptionId
    mark_delete: Position


@dataclass(frozen=True, slots=True)
class StoredBeyondLimit:
    """After an unload the metadata store has a cursor with more ranges than it may have."""

    subscription: SubscriptionId


@dataclass(frozen=True, slots=True)
class PersistedLate:
    """A cursor was persisted only after so many milliseconds."""

    after_ms: float
    persisting: Persisting
