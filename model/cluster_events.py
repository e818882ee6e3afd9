"""What was observed of several clusters: outcomes that a history may have, as in :mod:`model.events`.

Positions are those of the cluster whose log they are read in.
"""

from __future__ import annotations

from msgspec import Struct

from model.log import Position
from model.vocabulary import Outcome


class SnapshotRequest(Struct, frozen=True, tag="request"):
    """A cluster requests the last position of all others (REPL-04)."""

    snapshot: str
    cluster: str


class SnapshotResponse(Struct, frozen=True, tag="response"):
    """A cluster responds to a request with its last position (REPL-04)."""

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
"""The entries of a log that clusters write for one another; no consumer receives them."""


class ClusterEntry(Struct, frozen=True, kw_only=True):
    """An entry of one cluster's log: a message, by its business id, or a marker.

    ``origin``: the cluster that it was first written in. ``published_ms``: its publish time, in ms since 1970.
    """

    position: Position
    origin: str
    published_ms: int
    message: str | None = None
    marker: Marker | None = None


class ClusterCursor(Struct, frozen=True, kw_only=True):
    """A subscription in one cluster: its mark-delete position, ranges acknowledged after that, and its backlog."""

    subscription: str
    mark_delete: Position
    acknowledged: tuple[tuple[Position, Position], ...] = ()
    """Ranges of positions as brokers have them: after the first one, up to the last one."""
    backlog: int = 0
    is_replicated: bool = True


class ClusterRead(Struct, frozen=True, kw_only=True):
    """A topic's log and cursors in one cluster."""

    entries: tuple[ClusterEntry, ...]
    cursors: tuple[ClusterCursor, ...]


class ReplicationSettings(Struct, frozen=True):
    """The clusters that have a topic, and their settings: the snapshot period and timeout, the size of the snapshot
    cache, and ``maxMessageSize`` (0 if that was not recorded)."""

    clusters: tuple[str, ...]
    period_ms: int
    timeout_ms: int
    cached: int
    largest_bytes: int = 0


class LinkCut(Outcome, frozen=True):
    """The replicator is disconnected according to its cluster's stats, at the latest since then; in ms since 1970."""

    since_ms: int


class LinkHealed(Outcome, frozen=True):
    """The replicator was disconnected at least until then; in ms since 1970.

    ``unconnected``: the clusters whose replicators to a recovered one did not connect again.
    """

    until_ms: int
    unconnected: tuple[str, ...] = ()


class ReplicatorsClosed(Outcome, frozen=True):
    """The replicators are closed according to their cluster's stats, at the latest since then; in ms since 1970."""

    since_ms: int


class ClustersRead(Outcome, frozen=True):
    """What was read from every cluster, by label.

    ``reconnected``: the links, by source and target, whose replicator reconnected since the topic was created.
    ``consumed``: the subscriptions, each with its cluster, that a consumer has read to the end. ``is_quiet``: every
    replicator was connected and without backlog, and nothing had changed for some time. ``closed``: the links whose
    replicator is disconnected, according to the source's stats. ``at_ms``: when the reading began, in ms since 1970; 0
    if that was not recorded.
    """

    clusters: dict[str, ClusterRead]
    reconnected: tuple[tuple[str, str], ...] = ()
    consumed: tuple[tuple[str, str], ...] = ()
    is_quiet: bool = False
    closed: tuple[tuple[str, str], ...] = ()
    at_ms: int = 0


class Lagging(Outcome, frozen=True):
    """The subscription of this cluster did not follow within so many snapshot periods; its mark-delete position.

    ``read``: what was read from all clusters then, as evidence.
    """

    cluster: str
    mark_delete: Position
    periods: float
    read: ClustersRead | None = None


class CaughtUp(Outcome, frozen=True):
    """Every cluster's subscription followed within so many snapshot periods; these messages were published meanwhile.

    All messages are in every cluster, and acknowledged at the consumer's. ``lagged``: the cluster that did not follow
    while the consumer left messages unacknowledged.
    """

    periods: float
    messages: tuple[str, ...]
    lagged: Lagging | None = None


class CursorAdministered(Outcome, frozen=True):
    """An administrator's request was done: the subscription before and after, None where there was none.

    ``to``: the position of the message that was named.
    """

    before: ClusterCursor | None
    after: ClusterCursor | None
    to: Position | None = None


class ReplicatorStalled(Outcome, frozen=True):
    """A replicator was connected, had a backlog, and replicated nothing for so long.

    ``messages``: those published at the source after the last one that the target has, in the order of the log.
    """

    source: str
    target: str
    stalled_s: float
    messages: tuple[str, ...]


ReplicationOutcome = (
    LinkCut
    | LinkHealed
    | ReplicatorsClosed
    | CursorAdministered
    | CaughtUp
    | Lagging
    | ReplicatorStalled
    | ClustersRead
)
"""Every outcome of these operations alone."""
