"""What is done to several clusters: operations that a history may hold, as in :mod:`model.operations`.

Clusters go by their labels in a history (``A``, ``B``, ``C``), because the names of real ones differ from run to run.
Messages go by their business ids, which are the same in every cluster.
"""

from __future__ import annotations

from typing import Final, Literal

from model.vocabulary import Operation

LABELS: Final = ("A", "B", "C")
"""What clusters are called in histories, where the names that their brokers have differ from run to run."""


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

    Who is named twice is to have answered twice. ``after``: only snapshots that it began after this message.
    Done, or Skipped if neither comes in time.
    """

    cluster: str
    topic: str
    by: tuple[str, ...]
    after: str | None = None


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


class CatchUp(Operation, frozen=True):
    """All links heal; a consumer is given all that there is at its cluster and acknowledges it; then messages go on
    being published and acknowledged there, until every other cluster's subscription has passed what was there before.

    The messages for that are called ``prefix`` and a number. CaughtUp, or Lagging after so many periods, or
    ReplicatorStalled.
    """

    consumer: str
    prefix: str
    most_periods: int = 300


class ReadClusters(Operation, frozen=True):
    """Read back what every cluster has of a topic: its log, markers included, and its subscriptions.

    ClustersRead, or Skipped where there is more than can be read in time.
    """

    topic: str


ReplicationOperation = (
    CutLink
    | HealLink
    | HoldLink
    | SlowLink
    | ReleaseLink
    | AwaitMessage
    | AwaitAnswered
    | AwaitTimedOut
    | AwaitIdle
    | CatchUp
    | ReadClusters
)
"""Every operation that only document 001 has."""
