"""What was observed of several clusters: outcomes that a history may have, as in :mod:`model.events`.

Positions are those of the cluster whose log they are read in.
"""

from __future__ import annotations

from msgspec import Struct

from model.log import Position
from model.vocabulary import Outcome


class SnapshotRequest(Struct, frozen=True, tag="request"):
    """A cluster asks all others how far they are (REPL-04)."""

    snapshot: str
    cluster: str


class SnapshotResponse(Struct, frozen=True, tag="response"):
    """A cluster answers one that asked: its last position when it did (REPL-04)."""

    snapshot: str
    cluster: str
    position: Position


class SnapshotTaken(Struct, frozen=True, tag="snapshot"):
    """A snapshot is complete: once the local position is passed, so are those of the other clusters (REPL-09)."""

    snapshot: str
    local: Position
    positions: dict[str, Position]


class SubscriptionUpdated(Struct, frozen=True, tag="update"):
    """A subscription has passed a snapshot: the other clusters may acknowledge up to their positions (REPL-12)."""

    subscription: str
    positions: dict[str, Position]


Marker = SnapshotRequest | SnapshotResponse | SnapshotTaken | SubscriptionUpdated
"""What clusters write into a topic's log for one another, and no consumer sees."""


class ClusterEntry(Struct, frozen=True, kw_only=True):
    """An entry of one cluster's log: a message, by its business id, or a marker; the cluster that wrote it first, and
    when that was, by the clock of the broker or client that did, in milliseconds since 1970."""

    position: Position
    origin: str
    published_ms: int
    message: str | None = None
    marker: Marker | None = None


class ClusterCursor(Struct, frozen=True, kw_only=True):
    """A subscription in one cluster: its mark-delete position, what is acknowledged behind that, and its backlog."""

    subscription: str
    mark_delete: Position
    acknowledged: tuple[tuple[Position, Position], ...] = ()
    """Ranges of positions, the first one left out and the last one included, as brokers have them."""
    backlog: int = 0
    is_replicated: bool = True


class ClusterRead(Struct, frozen=True, kw_only=True):
    """What one cluster has of a topic."""

    entries: tuple[ClusterEntry, ...]
    cursors: tuple[ClusterCursor, ...]


class ReplicationSettings(Struct, frozen=True):
    """The clusters that have a topic, and how they make snapshots: how often at most, how long one may take, and how
    many a subscription keeps. ``largest_bytes``: how large a message may be; 0 where that is not noted."""

    clusters: tuple[str, ...]
    period_ms: int
    timeout_ms: int
    cached: int
    largest_bytes: int = 0


class LinkCut(Outcome, frozen=True):
    """The cluster itself says that its replicator is not connected, since this moment at the latest; ms since 1970."""

    since_ms: int


class LinkHealed(Outcome, frozen=True):
    """Up to this moment at least the replicator was not connected; milliseconds since 1970."""

    until_ms: int


class ReplicatorsClosed(Outcome, frozen=True):
    """The cluster itself says that its replicators are not connected, since this moment at the latest; in ms."""

    since_ms: int


class CaughtUp(Outcome, frozen=True):
    """Every cluster's subscription passed it, in so many snapshot periods since the links were healed; these messages
    were published meanwhile. All that any cluster has is everywhere, and acknowledged at the consumer's."""

    periods: float
    messages: tuple[str, ...]


class ClustersRead(Outcome, frozen=True):
    """What every cluster has, by label; the links over which a replicator came back since the topic was made, by
    source and target; and the subscriptions, each with its cluster, that a consumer has read to the end.

    ``is_quiet``: every replicator was connected and had sent all that there was, and nothing had changed for some time.
    ``closed``: the links whose replicator is not connected, as the cluster says that it sends from. ``at_ms``: when the
    reading began, in milliseconds since 1970; 0 where that was not written down.
    """

    clusters: dict[str, ClusterRead]
    reconnected: tuple[tuple[str, str], ...] = ()
    consumed: tuple[tuple[str, str], ...] = ()
    is_quiet: bool = False
    closed: tuple[tuple[str, str], ...] = ()
    at_ms: int = 0


class Lagging(Outcome, frozen=True):
    """A cluster's subscription did not pass it in so many periods: which cluster, and where it is.

    ``read``: what all clusters had then, to see what came in between.
    """

    cluster: str
    mark_delete: Position
    periods: float
    read: ClustersRead | None = None


class ReplicatorStalled(Outcome, frozen=True):
    """A replicator, connected all the while, passed nothing on for so many seconds, though it had something left.

    ``messages``: those that were published where it sends from, in the log's order, behind the last one of them that
    the other cluster has.
    """

    source: str
    target: str
    stalled_s: float
    messages: tuple[str, ...]


ReplicationOutcome = LinkCut | LinkHealed | ReplicatorsClosed | CaughtUp | Lagging | ReplicatorStalled | ClustersRead
"""Every outcome that only these have."""
