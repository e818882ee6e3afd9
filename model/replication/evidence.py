"""What the checks over the clusters' logs found: one result for each occasion that exercised a rule."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from msgspec import Struct

from model.cluster_events import ClusterCursor, ClusterEntry
from model.replication.logs import Logs, SnapshotSeen
from model.replication.rounds import Complete
from model.replication.tracked import ReplicatedTopic

SLACK_MS = 2000
"""The longest delay between the publish time of a message and its store, or of a timer, on a busy machine."""


@dataclass(frozen=True, slots=True, eq=False)
class Finding:
    """What breaks a rule: a sentence, and what it is about."""

    because: str
    about: object = None


class Excused(Struct, frozen=True):
    """An undecidable check: the logs do not show whether the rule holds."""


EXCUSED: Final = Excused()

CheckResult = str | Finding | Excused | None
"""The violation of a rule, with nothing or something more to say of it, or None if the rule was exercised and holds."""


@dataclass(frozen=True, slots=True)
class Findings:
    """Everything that breaks a rule in the logs of a topic that were read."""

    name: str
    topic: ReplicatedTopic
    logs: Logs
    every: tuple[Finding, ...]

    @classmethod
    def of(cls, name: str, topic: ReplicatedTopic, logs: Logs, results: Iterable[CheckResult]) -> Findings:
        found = (Finding(one) if isinstance(one, str) else one for one in results)
        return cls(name, topic, logs, tuple(one for one in found if isinstance(one, Finding)))


# ------------------------------------------------------------------------------------------- what a finding is about


@dataclass(frozen=True, slots=True)
class Missed:
    """A message that a cluster has as acknowledged for a subscription, and that no consumer acknowledged."""

    cluster: str
    subscription: str
    message: str


@dataclass(frozen=True, slots=True)
class StoredAgain:
    """A message that a cluster has several times. ``is_sent_again``: a replicator to it has reconnected."""

    cluster: str
    message: str
    is_sent_again: bool


@dataclass(frozen=True, slots=True)
class NotInOrder:
    """The messages of a cluster, and those of them that another one has, which are not the first ones."""

    own: tuple[str, ...]
    arrived: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NotReplicated:
    """A message that a cluster lacks although replication has caught up."""

    message: str


@dataclass(frozen=True, slots=True)
class MovedByOthers:
    """A subscription that is not replicated in its cluster, where these messages are acknowledged by no consumer."""

    cluster: str
    cursor: ClusterCursor
    messages: frozenset[str]


@dataclass(frozen=True, slots=True)
class MarkersOfNone:
    """The markers in a cluster that is to have none."""

    cluster: str
    markers: tuple[ClusterEntry, ...]


@dataclass(frozen=True, slots=True)
class BegunWithoutNews:
    """The snapshots of a cluster that began without a new message: the one before each, and itself.

    ``of``: how many snapshots were judged, if so many of them are a coincidence no more. None: a single one is none.
    """

    cluster: str
    snapshots: tuple[tuple[SnapshotSeen, SnapshotSeen], ...]
    of: int | None = None


@dataclass(frozen=True, slots=True)
class BegunDisconnected:
    """A snapshot's request in a cluster's log, while a replicator was not connected."""

    cluster: str
    index: int


@dataclass(frozen=True, slots=True)
class WithoutPosition:
    """A snapshot that has no position of one of the clusters."""

    snapshot: Complete


@dataclass(frozen=True, slots=True)
class BeforeResponse:
    """A snapshot whose local position is before a response of the last round."""

    snapshot: Complete


@dataclass(frozen=True, slots=True)
class NotAnsweredAgain:
    """A snapshot that was complete although these clusters did not answer the second request."""

    snapshot: Complete
    lacking: frozenset[str]


@dataclass(frozen=True, slots=True)
class NotPublished:
    """A snapshot, at this index of its cluster's log, that a subscription cached and passed, and did not publish."""

    subscription: str
    cluster: str
    index: int


@dataclass(frozen=True, slots=True)
class Evicted:
    """An update with a snapshot that a cache had evicted if it evicts the oldest one first."""


@dataclass(frozen=True, slots=True)
class NotUpdated:
    """A subscription in a cluster that has not passed the last update ``by`` another one."""

    cluster: str
    cursor: ClusterCursor
    by: str


@dataclass(frozen=True, slots=True)
class NotAnswered:
    """A request that a cluster with closed replicators did not answer. ``has_read``: it answered another one."""

    has_read: bool
