"""The entries of a replicated topic: messages, and the four markers of replicated subscriptions.

Every cluster has its own log. An entry contains its origin cluster and its position there, which relates the clusters'
positions. Real brokers store it too, as a property of each replicated message.
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
    """A cluster requests the last positions of all others for a snapshot, in round 1 or 2."""

    snapshot: str
    round: int


class Response(Struct, frozen=True, cache_hash=True, gc=False):
    """The response of a cluster to the requesting one: its last position at that time."""

    snapshot: str
    round: int
    to: str
    position: int


class Snapshot(Struct, frozen=True, cache_hash=True, gc=False):
    """The positions of other clusters that are passed once the local position is passed (REPL-09)."""

    name: str
    local: int
    positions: Positions

    def position(self, cluster: str) -> int | None:
        """The position of a cluster, if the snapshot has one."""
        return dict(self.positions).get(cluster)


class Update(Struct, frozen=True, cache_hash=True, gc=False):
    """A subscription has passed a snapshot, so all clusters may acknowledge up to their positions."""

    subscription: str
    positions: Positions


Marker = Request | Response | Snapshot | Update
"""An entry that is not a message."""


class Entry(Struct, frozen=True, cache_hash=True, gc=False):
    """An entry: its origin cluster, its position there, and its content."""

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

    It sends entries of local origin: messages, requests and updates to all (REPL-01, REPL-04), a response to the
    requesting cluster. A snapshot is not sent, because its positions have no meaning elsewhere.
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

    Every replicator reads every marker, so each is handled once.
    """
    if not isinstance(entry.item, Request | Response | Update):
        return False
    return entry.origin != owner if variant.handled_by_every_replicator else entry.origin == remote
