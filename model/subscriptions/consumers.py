"""The observer's view of a consumer: its pending acks, and what may be in flight to it.

The broker dispatches at any time, and the harness learns of it when the consumer receives. A message that is
acknowledged by now may still arrive, if it was unacknowledged when the consumer last had nothing in flight.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from model.cursors.acked import Acked
from model.cursors.log import Place
from model.immutable.map import Map
from model.vocabulary import Client, HashRange, SubscriptionId, SubscriptionType

Message = tuple[str, Place]
"""A message: its topic, and its place there."""

SHARED: frozenset[SubscriptionType] = frozenset({"Shared", "Key_Shared"})
"""The subscription types whose consumers share the messages."""

RedeliveryReason = Literal["nacked", "left", "unloaded"]
"""Why a message is due for redelivery: its consumer nacked it, its consumer left, or its topic was unloaded."""


@dataclass(frozen=True, slots=True)
class Consumer:
    """A consumer that is subscribed."""

    subscriptions: tuple[SubscriptionId, ...]
    """One on each topic."""
    kind: SubscriptionType
    client: Client
    seen: Map[str, frozenset[Acked]]
    """By topic, the possible states when the consumer last had nothing in flight."""
    unacknowledged: Map[Message, None] = Map()
    """Its pending acks. They are the keys of a map, because a set is copied whole for each message."""
    is_settled: bool = True
    """It has nothing in flight now."""
    rewinds: int = 0
    """How often it may still receive everything again, in order. A single active consumer does so after a redelivery
    request, and when another consumer joins or leaves, which may make it the active one."""
    may_repeat: bool = False
    """It requested redelivery while messages may have been in flight, or it belongs to pulsar-client and was
    disconnected. It receives messages in flight as well as their redelivery."""
    requested_twice: frozenset[Message] = frozenset()
    """Messages whose redelivery it requested while they may have been in flight to it. Until they are acknowledged the
    broker may send them at any time, and may or may not count them as pending here."""
    keeps_keys: bool = True
    """It does not allow out-of-order delivery."""
    claims: tuple[HashRange, ...] = ()
    """The hash ranges that it claims."""
    never_disconnected: bool = True
    """Otherwise it may not have reconnected, and then cannot send its grouped acks."""
    had_permits_left: bool = True
    """A receive may have left it permits, or it may have had some without one."""
    acked_by_others: frozenset[Message] = frozenset()
    """Messages that others acknowledged while they were pending here, or before they arrived. A broker may count them
    until this consumer acknowledges them too."""

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(one.topic for one in self.subscriptions)

    @property
    def subscription(self) -> str:
        """The name of its subscription."""
        return self.subscriptions[0].name

    def is_on(self, subscription: SubscriptionId) -> bool:
        """Whether it is a consumer of this subscription."""
        return subscription in self.subscriptions

    @property
    def least(self) -> int:
        """The fewest messages that a broker may count as unacknowledged here."""
        return len(self.unacknowledged) - sum(
            one in self.unacknowledged for one in self.requested_twice | self.acked_by_others
        )

    @property
    def most(self) -> int:
        """The most that it may count."""
        asked = sum(one not in self.unacknowledged for one in self.requested_twice - self.acked_by_others)
        return len(self.unacknowledged) + len(self.acked_by_others) + asked

    def acknowledging(self, messages: Iterable[Message]) -> Consumer:
        """The consumer after it acknowledged these messages, including those that others had acknowledged."""
        return replace(self, acked_by_others=self.acked_by_others.difference(messages))

    def without(self, messages: Iterable[Message]) -> Consumer:
        """The consumer when these messages are no longer pending."""
        unacknowledged = dict(self.unacknowledged)
        for message in messages:
            unacknowledged.pop(message, None)
        return replace(self, unacknowledged=Map(unacknowledged))

    def given(self, message: Message, *, is_late: bool = False) -> Consumer:
        """The consumer with one more pending message. ``is_late``: others acknowledged it, or have it too."""
        acked_by_others = self.acked_by_others | {message} if is_late else self.acked_by_others
        return replace(self, unacknowledged=self.unacknowledged.set(message, None), acked_by_others=acked_by_others)
