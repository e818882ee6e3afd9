"""Operations on the links between clusters, and on a topic in all of them, as in :mod:`model.operations`.

A history names clusters by label (``A``, ``B``, ``C``), because the names of real ones differ from run to run. Messages
go by their business ids, which are the same in every cluster.
"""

from __future__ import annotations

from typing import ClassVar, Final, Literal

from model.subscription_operations import (
    CreateSubscription,
    DeleteSubscription,
    Expire,
    ResetCursor,
    Skip,
    SkipAll,
)
from model.vocabulary import Operation

LABELS: Final = ("A", "B", "C")
"""The labels of clusters in histories."""

HOME: Final = LABELS[0]
AWAY: Final = LABELS[1]
"""A topic that is judged by the rules of all documents is at ``HOME``, and is replicated to ``AWAY``."""


AdministratorsRequest = Skip | SkipAll | Expire | ResetCursor | CreateSubscription | DeleteSubscription
"""What an administrator may request for a subscription at a cluster of several."""


class CutLink(Operation, frozen=True):
    """Cut the link from one cluster to another, in this direction. LinkCut, once the replicator is disconnected."""

    may_be_cause: ClassVar = True

    source: str
    target: str


class HealLink(Operation, frozen=True):
    """Heal a link that was cut; its replicator reconnects when it retries. LinkHealed.

    ``is_awaited``: wait until it has reconnected.
    """

    source: str
    target: str
    is_awaited: bool = False


class HoldLink(Operation, frozen=True):
    """Hold messages from one cluster to another, or their receipts, from now on. The link stays connected. Done."""

    may_be_cause: ClassVar = True

    source: str
    target: str
    what: Literal["messages", "receipts"] = "messages"


class SlowLink(Operation, frozen=True):
    """Delay every message from one cluster to another from now on. Done."""

    may_be_cause: ClassVar = True

    source: str
    target: str
    delay_ms: int


class ReleaseLink(Operation, frozen=True):
    """End the holds and delays of a link; held messages go on in order, unless the link was cut since. Done."""

    source: str
    target: str


class SetLink(Operation, frozen=True):
    """Have a cluster replicate a topic to another one from now on, or not, by the clusters of its policy there.

    That is the policy of the topic, if it is replicated by that, and otherwise the one of its namespace. Only for a
    topic that has a namespace of its own then, because it was created with ``links``. Done, once the cluster's
    replicator is connected or gone.
    """

    source: str
    target: str
    topic: str
    on: bool


class AdministerAt(Operation, frozen=True):
    """An administrator requests something for a subscription at one cluster. CursorAdministered, or Refused.

    An expiry or a reset is to a message that the cluster has, or a reset to the earliest.
    """

    request: ClassVar = "administer a subscription"
    may_be_cause: ClassVar = True

    cluster: str
    asked: AdministratorsRequest

    @property
    def topic(self) -> str:
        return self.asked.topic

    @property
    def subscription(self) -> str:
        return self.asked.subscription


class LoseCluster(Operation, frozen=True):
    """A cluster's broker is killed, or frozen, and stays so until RecoverCluster or the end of the example.

    Nothing is done at the cluster meanwhile. LinkCut, once the other clusters' replicators to it are disconnected
    according to their stats; Done for a frozen one, which they do not notice for a while.
    """

    may_be_cause: ClassVar = True

    cluster: str
    how: Literal["kill", "freeze"] = "kill"


class RecoverCluster(Operation, frozen=True):
    """The broker of a lost cluster runs again, on its data. LinkHealed.

    With ``is_empty``, a killed one has lost its data. Its namespaces and the example's topics were created again, and
    the others' replicators are connected. With ``is_reached_early`` besides, these reach it before its namespaces are
    created. Once it is seen whether they connect after that, the topics are reloaded at the others, where clients are
    disconnected.
    """

    cluster: str
    is_empty: bool = False
    is_reached_early: bool = False


class AwaitMessage(Operation, frozen=True):
    """Wait until a message is in a cluster's log. Done, or Skipped if it is not in time."""

    is_look: ClassVar = True

    cluster: str
    topic: str
    message: str


class AwaitAnswered(Operation, frozen=True):
    """Wait until these clusters responded to one of a cluster's snapshots, or it gave that up and started another.

    A cluster that is named twice must respond twice. ``after``: only snapshots that start after this message in the
    log. Done, or Skipped if neither happens in time.
    """

    is_look: ClassVar = True

    cluster: str
    topic: str
    by: tuple[str, ...]
    after: str | None = None


class AwaitTimedOut(Operation, frozen=True):
    """Wait until a snapshot of a cluster has timed out, according to its metrics, and any response would be too late.

    Done, or Skipped if none times out in time.
    """

    is_look: ClassVar = True

    cluster: str


class AwaitIdle(Operation, frozen=True):
    """Wait until a cluster closes its replicators of a topic because the topic is inactive there.

    Only if the topic has no message, producer or subscription there yet. ReplicatorsClosed, or Skipped.
    """

    cluster: str
    topic: str


class CatchUp(Operation, frozen=True):
    """Heal all links; a consumer receives and acknowledges all messages of its cluster; then publish and acknowledge
    there until every other cluster's subscription has passed what was there before.

    With ``lag``, the consumer first does so while it leaves so many messages unacknowledged that it has received.

    The business ids of these messages are ``prefix`` and a number. CaughtUp, Lagging after so many snapshot periods, or
    ReplicatorStalled.
    """

    consumer: str
    prefix: str
    most_periods: int = 300
    lag: int = 0


class ReadClusters(Operation, frozen=True):
    """Read a topic's log, with its markers, and its subscriptions in every cluster.

    ClustersRead, or Skipped if the logs are too long to be read in time.
    """

    is_look: ClassVar = True

    topic: str


LinkOperation = CutLink | HealLink | HoldLink | SlowLink | ReleaseLink
"""Every operation on a link."""

ReplicationOperation = (
    LinkOperation
    | SetLink
    | AdministerAt
    | LoseCluster
    | RecoverCluster
    | AwaitMessage
    | AwaitAnswered
    | AwaitTimedOut
    | AwaitIdle
    | CatchUp
    | ReadClusters
)
"""Every operation of document 001 alone."""
