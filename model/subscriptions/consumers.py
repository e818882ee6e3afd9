"""Consumers as an observer holds them: what each has unacknowledged, and what may be on its way to it.

The broker sends when it likes, and what it sent is learnt when it is received. So a message that is acknowledged by now
may still come, if it was not when the consumer was last seen to have nothing under way.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from immutables import Map

from model.cursors.acked import Acked
from model.cursors.log import Place
from model.vocabulary import Client, HashRange, SubscriptionId, SubscriptionType

Message = tuple[str, Place]
"""A message: its topic, and where it stands there."""

SHARED: frozenset[SubscriptionType] = frozenset({"Shared", "Key_Shared"})
"""The kinds of subscriptions whose consumers share the messages."""

Freed = Literal["failed", "left", "moved"]
"""Why a message that was unacknowledged is to be delivered again: its consumer said that it failed, or is gone; or the
topic was moved, and with it all of them."""


@dataclass(frozen=True, slots=True)
class Consumer:
    """A consumer that is subscribed.

    ``unacknowledged``: what it received and nobody acknowledged since; the keys of a map, because a set is copied whole
    for each message. ``seen``: by topic, what the state may have been the last time that nothing can have been on its
    way to the consumer. ``is_settled``: nothing is now.
    ``rewinds``: how often it may get everything again, in order, from now on: because it asked for it (as a single
    active consumer only can), or because other consumers came or went, which may make it the active one.
    ``may_repeat``: it asked for messages again while some may have been on their way to it, or, of pulsar-client's, was
    disconnected: those it is given as well as what the broker sends again. ``keeps_keys``: messages of one key are to
    be at one consumer at a time, which it did not give up; ``claims``: the hash ranges that it has for itself.
    ``asked_twice``: what it asked for once more although it had asked for it and was not given it yet. Until it is
    acknowledged it may come again at any time, and whether the consumer has it for the broker is not known.
    ``outdone``: what was acknowledged by others while it had it, or before it was given it. A broker may count that
    until the consumer acknowledges it once more.
    ``is_back``: it was never disconnected; otherwise it may not be connected again, and cannot send what it holds back.
    """

    topics: tuple[str, ...]
    subscription: str
    kind: SubscriptionType
    client: Client
    seen: Map[str, frozenset[Acked]]
    unacknowledged: Map[Message, None] = Map()
    is_settled: bool = True
    rewinds: int = 0
    may_repeat: bool = False
    asked_twice: frozenset[Message] = frozenset()
    keeps_keys: bool = True
    claims: tuple[HashRange, ...] = ()
    is_back: bool = True
    acked_unheld: int = 0
    """How many messages it acknowledged individually that were unacknowledged at nobody."""
    outdone: frozenset[Message] = frozenset()
    acked_outdone: int = 0
    """How many messages it acknowledged once more that others had acknowledged before."""
    parts_recounted: int = 0
    """How many parts of batches may have been counted off again, with another part that others had acknowledged."""

    @property
    def subscriptions(self) -> tuple[SubscriptionId, ...]:
        """The subscriptions that it consumes, one on each topic."""
        return tuple(SubscriptionId(topic, self.subscription) for topic in self.topics)

    @property
    def least(self) -> int:
        """The fewest messages that a broker may count as unacknowledged here."""
        return len(self.unacknowledged) - sum(one in self.unacknowledged for one in self.asked_twice | self.outdone)

    @property
    def most(self) -> int:
        """The most that it may: what came twice it counts twice."""
        asked = sum(one not in self.unacknowledged for one in self.asked_twice - self.outdone)
        return len(self.unacknowledged) + len(self.outdone) + asked

    def acknowledging(self, messages: Iterable[Message]) -> Consumer:
        """The consumer after it acknowledged these, also where another consumer had acknowledged them."""
        left = self.outdone.difference(messages)
        return replace(self, outdone=left, acked_outdone=self.acked_outdone + len(self.outdone) - len(left))

    def without(self, messages: Iterable[Message]) -> Consumer:
        """The consumer when it has these unacknowledged no more."""
        unacknowledged = self.unacknowledged.mutate()
        for message in messages:
            unacknowledged.pop(message, None)
        return replace(self, unacknowledged=unacknowledged.finish())

    def given(self, message: Message, *, is_late: bool = False) -> Consumer:
        """The consumer when it has this one as well; ``is_late``: others had acknowledged it, or have it too."""
        outdone = self.outdone | {message} if is_late else self.outdone
        return replace(self, unacknowledged=self.unacknowledged.set(message, None), outdone=outdone)
