"""One subscription in one cluster: its acks, its read position, and its snapshot cache."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from model.replication.snapshots import Cache

NOTHING = -1
"""Mark-delete before anything is acknowledged."""


class Subscription(Struct, frozen=True, kw_only=True, cache_hash=True, gc=False):
    """A subscription: everything up to ``mark_delete`` is acknowledged, and the later positions in ``individual``.

    Its dispatcher reads only while a consumer is connected. ``read``: the read position.
    """

    name: str
    replicated: bool = True
    connected: bool = False
    mark_delete: int = NOTHING
    individual: frozenset[int] = frozenset()
    read: int = 0
    cache: Cache = ()

    def is_acknowledged(self, position: int) -> bool:
        """Whether the entry at this position is acknowledged."""
        return position <= self.mark_delete or position in self.individual

    @property
    def unacknowledged(self) -> tuple[int, ...]:
        """The positions that were read and are not acknowledged."""
        first = self.mark_delete + 1
        return tuple(one for one in range(first, self.read) if one not in self.individual)


def acknowledge(subscription: Subscription, position: int) -> Subscription:
    """The subscription with one position acknowledged; mark-delete advances over contiguous ones."""
    if subscription.is_acknowledged(position):
        return subscription
    individual = subscription.individual | {position}
    mark_delete = subscription.mark_delete
    while mark_delete + 1 in individual:
        mark_delete += 1
    return _at(subscription, mark_delete, individual)


def acknowledge_to(subscription: Subscription, position: int) -> Subscription:
    """The subscription with everything up to a position acknowledged."""
    if position <= subscription.mark_delete:
        return subscription
    mark_delete = position
    while mark_delete + 1 in subscription.individual:
        mark_delete += 1
    return _at(subscription, mark_delete, subscription.individual)


def connect(subscription: Subscription) -> Subscription:
    """A consumer connects and is sent the unacknowledged entries after mark-delete."""
    return replace(subscription, connected=True, read=subscription.mark_delete + 1)


def disconnect(subscription: Subscription) -> Subscription:
    """The consumer disconnects, which ends reading."""
    return replace(subscription, connected=False, read=subscription.mark_delete + 1)


def _at(subscription: Subscription, mark_delete: int, individual: frozenset[int]) -> Subscription:
    return replace(
        subscription,
        mark_delete=mark_delete,
        individual=frozenset(one for one in individual if one > mark_delete),
        read=max(subscription.read, mark_delete + 1),
    )
