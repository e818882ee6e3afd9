"""The entries of a replicated topic: messages, and the four kinds of markers by which subscriptions are replicated.

Every cluster has a log of its own. An entry knows in which cluster it was written first, and at which position there:
this is the correspondence between the clusters' positions. Real brokers tell it too, as a property of each message that
was replicated.
"""

from __future__ import annotations

from msgspec import Struct

from model.replication.variants import ReplicationVariant
from model.rules.catalogue import carries

Positions = tuple[tuple[str, int], ...]
"""Clusters with a position in each, by the clusters' names in order."""


class Message(Struct, frozen=True, cache_hash=True, gc=False):
    """A message: the cluster where it was published, and its number there, from 1."""

    cluster: str
    number: int

    def __str__(self) -> str:
        return f"{self.cluster}{self.number}"


class Request(Struct, frozen=True, cache_hash=True, gc=False):
    """A cluster asks all others how far they are, for a snapshot, in its round 1 or 2."""

    snapshot: str
    round: int


class Response(Struct, frozen=True, cache_hash=True, gc=False):
    """The answer of a cluster, to the one that asked: its last position when it answered."""

    snapshot: str
    round: int
    to: str
    position: int


class Snapshot(Struct, frozen=True, cache_hash=True, gc=False):
    """Which position of each other cluster has been passed once the local position has been (REPL-09)."""

    name: str
    local: int
    positions: Positions

    def position(self, cluster: str) -> int | None:
        """The position of a cluster, if the snapshot has one."""
        return dict(self.positions).get(cluster)


class Update(Struct, frozen=True, cache_hash=True, gc=False):
    """A subscription has passed a snapshot: all clusters may acknowledge up to their positions."""

    subscription: str
    positions: Positions


Marker = Request | Response | Snapshot | Update
"""What is no message."""


class Entry(Struct, frozen=True, cache_hash=True, gc=False):
    """An entry: the cluster that wrote it first, its position there, and what it is."""

    origin: str
    source: int
    item: Message | Marker

    @property
    def is_message(self) -> bool:
        """Whether it is for consumers."""
        return isinstance(self.item, Message)


Log = tuple[Entry, ...]
"""A topic in one cluster, by position from 0."""


@carries("REPL-01", "REPL-04")
def is_sent(entry: Entry, *, owner: str, remote: str, variant: ReplicationVariant) -> bool:
    """Whether the replicator from ``owner`` to ``remote`` sends this entry of the owner's log.

    It sends what was first written there: messages, requests and updates to all (REPL-01, REPL-04), a response to the
    cluster that asked. A snapshot stays where it is, for its positions mean nothing elsewhere.
    """
    if entry.origin != owner:
        return False
    match entry.item:
        case Response(to=to):
            return to == remote
        case Snapshot():
            return variant.snapshot_replicated
        case _:
            return True


@carries("REPL-05")
def is_handled(entry: Entry, *, owner: str, remote: str, variant: ReplicationVariant) -> bool:
    """Whether the replicator from ``owner`` to ``remote`` handles this entry: a marker that ``remote`` wrote (REPL-05).

    Every replicator reads every marker; so each is handled once.
    """
    if not isinstance(entry.item, Request | Response | Update):
        return False
    return entry.origin != owner if variant.handled_by_every_replicator else entry.origin == remote
