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
from model.vocabulary import Client, HashRange, SubscriptionType

Key = tuple[str, str]
"""A subscription: its topic, and its name."""

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
    ``asks_twice``: it asked for a message once more that it had asked for and was not given yet, so whatever comes of
    that may have been sent before or after, and may come again at any time.
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
    asks_twice: bool = False
    keeps_keys: bool = True
    claims: tuple[HashRange, ...] = ()
    is_back: bool = True
    acked_unheld: int = 0
    """How many messages it acknowledged individually that were unacknowledged at nobody."""
    is_outdone: bool = False
    """Something was acknowledged by others while it had it, or before it was given it: a broker may count that on."""

    @property
    def keys(self) -> tuple[Key, ...]:
        """The subscriptions that it consumes, one on each topic."""
        return tuple((topic, self.subscription) for topic in self.topics)

    def without(self, messages: Iterable[Message]) -> Consumer:
        """The consumer when it has these unacknowledged no more."""
        unacknowledged = self.unacknowledged.mutate()
        for message in messages:
            unacknowledged.pop(message, None)
        return replace(self, unacknowledged=unacknowledged.finish())

    def given(self, message: Message, *, is_late: bool = False) -> Consumer:
        """The consumer when it has this one as well; ``is_late``: others had acknowledged it, or have it too."""
        return replace(
            self, unacknowledged=self.unacknowledged.set(message, None), is_outdone=self.is_outdone or is_late
        )
