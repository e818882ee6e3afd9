"""Operations and outcomes of document 001: what is done at clusters, and what all of them have stored.

Clusters go by their labels in a history (``A``, ``B``, ``C``), because the names of real ones differ from run to run.
Messages go by their business ids, which say the same in every cluster; positions are those of the cluster that they are
read in. Nothing is performed or judged here.
"""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

from model.log import Position
from model.vocabulary import Operation, Outcome

LABELS: Final = ("A", "B", "C")
"""What clusters are called in histories, where the names that their brokers have differ from run to run."""


class CreateReplicatedTopic(Operation, frozen=True):
    """A fresh topic that is replicated between all clusters; or, for comparison, one that no cluster replicates.

    With ``deduplication``, what a replicator sends again is stored once. ``clusters``: how many there are. GeoCreated.
    """

    topic: str
    clusters: int = 2
    is_replicated: bool = True
    deduplication: bool = False


class PublishAt(Operation, frozen=True):
    """Publish messages at a cluster, one behind the other. Published, Refused or Unknown.

    ``size_bytes``: how large each of them is made, by spaces behind its business id; no larger for 0.
    """

    cluster: str
    topic: str
    messages: tuple[str, ...]
    size_bytes: int = 0


class JoinAt(Operation, frozen=True):
    """A consumer of a subscription connects at a cluster; the subscription begins at the topic's beginning. Done."""

    consumer: str
    cluster: str
    topic: str
    subscription: str
    is_replicated: bool = True


class ReceiveAt(Operation, frozen=True):
    """A consumer is given up to so many messages; fewer only if there are no more. Received."""

    consumer: str
    count: int


class AcknowledgeAt(Operation, frozen=True):
    """A consumer acknowledges messages that it was given, by business id; ``is_cumulative``: all up to one.

    AcknowledgedAt.
    """

    consumer: str
    messages: tuple[str, ...]
    is_cumulative: bool = False


class LeaveAt(Operation, frozen=True):
    """A consumer leaves. Done."""

    consumer: str


class CutLink(Operation, frozen=True):
    """From now on nothing comes from one cluster to another. LinkCut."""

    source: str
    target: str


class HealLink(Operation, frozen=True):
    """What comes from one cluster to another does so again, once its replicator has tried. LinkHealed.

    ``is_awaited``: wait until it has.
    """

    source: str
    target: str
    is_awaited: bool = False


class HoldLink(Operation, frozen=True):
    """From now on messages from one cluster to another, or the receipts for them, are held up on their way.

    The link stays connected. Done.
    """

    source: str
    target: str
    what: Literal["messages", "receipts"] = "messages"


class SlowLink(Operation, frozen=True):
    """From now on every message from one cluster to another takes so many milliseconds longer. Done."""

    source: str
    target: str
    delay_ms: int


class ReleaseLink(Operation, frozen=True):
    """What was held up on a link goes on, in its order, and nothing is slow; if it was cut since, it is lost. Done."""

    source: str
    target: str


class AwaitMessage(Operation, frozen=True):
    """Wait until a cluster has a message. Done, or Skipped if it does not come in time."""

    cluster: str
    topic: str
    message: str


class AwaitAnswered(Operation, frozen=True):
    """Wait until a cluster has these clusters' answers to one of its snapshots, or has begun another in its place.

    Who is named twice is to have answered twice. ``behind``: only snapshots that it began behind this message.
    Done, or Skipped if neither comes in time.
    """

    cluster: str
    topic: str
    by: tuple[str, ...]
    behind: str | None = None


class AwaitTimedOut(Operation, frozen=True):
    """Wait until a cluster has given up a snapshot, by its own count, and so long that nobody can doubt that what
    answers to it comes too late. Done, or Skipped if it gives up none in time.
    """

    cluster: str


class AwaitIdle(Operation, frozen=True):
    """Wait until a cluster has closed its replicators of a topic, which was idle there for long enough.

    Only where it has no message, producer or subscription there yet. ReplicatorsClosed, or Skipped.
    """

    cluster: str
    topic: str


class UnloadAt(Operation, frozen=True):
    """Unload a topic at one cluster. Done."""

    cluster: str
    topic: str


class RestartCluster(Operation, frozen=True):
    """Stop a cluster's broker gracefully, and start it again on the same data. Done."""

    cluster: str


class KillCluster(Operation, frozen=True):
    """Kill a cluster's broker with SIGKILL, and start it again on the same data. Done."""

    cluster: str


class CatchUp(Operation, frozen=True):
    """All links heal; a consumer is given all that there is at its cluster and acknowledges it; then messages go on
    being published and acknowledged there, until every other cluster's subscription has passed what was there before.

    The messages for that are called ``prefix`` and a number. CaughtUp, or Behind after so many periods; NotPassedOn
    where a replicator stands still.
    """

    consumer: str
    prefix: str
    most_periods: int = 300


class ReadClusters(Operation, frozen=True):
    """Read back what every cluster has of a topic: its log, markers included, and its subscriptions.

    ClustersRead, or Skipped where there is more than can be read in time.
    """

    topic: str


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


class GeoEntry(Struct, frozen=True, kw_only=True):
    """An entry of one cluster's log: a message, by its business id, or a marker; the cluster that wrote it first, and
    when that was, by the clock of the broker or client that did, in milliseconds since 1970."""

    position: Position
    origin: str
    published_ms: int
    message: str | None = None
    marker: Marker | None = None


class GeoCursor(Struct, frozen=True, kw_only=True):
    """A subscription in one cluster: its mark-delete position, what is acknowledged behind that, and its backlog."""

    subscription: str
    mark_delete: Position
    acknowledged: tuple[tuple[Position, Position], ...] = ()
    """Ranges of positions, the first one left out and the last one included, as brokers have them."""
    backlog: int = 0
    is_replicated: bool = True


class ClusterRead(Struct, frozen=True, kw_only=True):
    """What one cluster has of a topic."""

    entries: tuple[GeoEntry, ...]
    cursors: tuple[GeoCursor, ...]


class GeoCreated(Outcome, frozen=True):
    """A topic is there, in these clusters; and how they make snapshots: how often at most, how long one may take, and
    how many a subscription keeps. ``largest_bytes``: how large a message may be; 0 where that was not written down."""

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


class Published(Outcome, frozen=True):
    """Each message was stored, at these positions of the cluster that it was published at."""

    positions: tuple[Position, ...]


class GivenMessage(Struct, frozen=True):
    """A message that a consumer was given."""

    message: str
    position: Position


class ReceivedAt(Outcome, frozen=True):
    """What a consumer was given, in the broker's order."""

    messages: tuple[GivenMessage, ...]


class AcknowledgedAt(Outcome, frozen=True):
    """The acknowledgment was begun at this moment, in milliseconds since 1970, and the cluster has confirmed it."""

    begun_ms: int


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


class Behind(Outcome, frozen=True):
    """A cluster's subscription did not pass it in so many periods: which cluster, and where it is.

    ``read``: what all clusters had then, to see what came in between.
    """

    cluster: str
    mark_delete: Position
    periods: float
    read: ClustersRead | None = None


class NotPassedOn(Outcome, frozen=True):
    """A replicator, connected all the while, passed nothing on for so many seconds, though it had something left.

    ``messages``: those that were published where it sends from, in the log's order, behind the last one of them that
    the other cluster has.
    """

    source: str
    target: str
    seconds: float
    messages: tuple[str, ...]


GeoOperation = (
    CreateReplicatedTopic
    | PublishAt
    | JoinAt
    | ReceiveAt
    | AcknowledgeAt
    | LeaveAt
    | CutLink
    | HealLink
    | HoldLink
    | SlowLink
    | ReleaseLink
    | AwaitMessage
    | AwaitAnswered
    | AwaitTimedOut
    | AwaitIdle
    | UnloadAt
    | RestartCluster
    | KillCluster
    | CatchUp
    | ReadClusters
)
"""Every operation that only document 001 has."""

GeoOutcome = (
    GeoCreated
    | LinkCut
    | LinkHealed
    | ReplicatorsClosed
    | Published
    | ReceivedAt
    | AcknowledgedAt
    | CaughtUp
    | Behind
    | NotPassedOn
    | ClustersRead
)
"""Every outcome that only these have."""
