"""What is known of replicated topics from outside: what was published and acknowledged in which cluster, and faults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from model.cluster_events import ClustersRead, ReplicationSettings
from model.cluster_operations import ReplicationOperation
from model.deduplication.topic_observer import TopicView
from model.log import Position
from model.operations import CreateTopic
from model.replication.logs import Log, updated_to
from model.vocabulary import Entry, Operation

REPLICATORS_ADD_BYTES: Final = 256
"""A message is nearly as large as may be where less than this is left: for headers of its own (sequence id, producer),
and for what a replicator adds, where it comes from and where it stands there. With names of usual lengths it is 80."""

At = tuple[str, str]
"""A subscription, and the cluster in which it is meant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadAhead:
    """What a consumer had when it began to acknowledge something: from the first position up to the last one.

    ``begun_ms``: when, in milliseconds since 1970. The dispatcher has read all that stands before ``last``.
    """

    begun_ms: int
    first: Position
    last: Position


Cuts = tuple[tuple[int, int | None], ...]
"""Since when and until when a link was not connected, in milliseconds since 1970; None until it heals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicatedTopic:
    """One topic in all clusters.

    ``published``: at each cluster, the business ids that are stored there, in their order; ``perhaps``: those of which
    that is not known. ``nearly_full``: those of both that may leave no room for what replicators add to them
    (:data:`REPLICATORS_ADD_BYTES`). ``restricted``: those that may only be at these clusters. ``acknowledged_at``: what
    consumers acknowledged at each cluster, or may have. ``own``: the subscriptions that consumers made, and whether
    they made them replicated. ``unreplicated``: how many consumers came to each cluster without asking for that.
    ``cut``: the cuts of each link, by source and target. ``closed``: the clusters that closed their replicators because
    the topic was idle there, since when, and did nothing since that opens them. ``reads``: how far dispatchers had read
    when something was acknowledged, since they began. ``moved``: the clusters that reloaded the topic, and what was
    published anywhere by then; ``killed``: those whose broker was killed, and may have forgotten acknowledgments since.

    ``is_settled``: every cluster has caught up, and nothing was done since. ``is_quiet``: all that is under way was
    through when it was read, and nothing was done since but at consumers. ``read``: what was read last.
    """

    made: ReplicationSettings
    is_replicated: bool
    deduplication: bool
    published: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    perhaps: frozenset[str] = frozenset()
    nearly_full: frozenset[str] = frozenset()
    restricted: Mapping[str, frozenset[str]] = field(default_factory=dict)
    acknowledged_at: Mapping[At, frozenset[str]] = field(default_factory=dict)
    own: Mapping[At, bool] = field(default_factory=dict)
    unreplicated: Mapping[str, int] = field(default_factory=dict)
    cut: Mapping[tuple[str, str], Cuts] = field(default_factory=dict)
    closed: Mapping[str, int] = field(default_factory=dict)
    reads: Mapping[At, tuple[ReadAhead, ...]] = field(default_factory=dict)
    moved: Mapping[str, frozenset[str]] = field(default_factory=dict)
    is_settled: bool = False
    killed: frozenset[str] = frozenset()
    is_quiet: bool = False
    read: ClustersRead | None = None

    @property
    def clusters(self) -> tuple[str, ...]:
        """The labels of all clusters."""
        return self.made.clusters

    @property
    def all_published(self) -> frozenset[str]:
        """Everything that is or may be stored at the cluster where it was published."""
        return self.perhaps.union(*self.published.values())

    def with_restricted(self, cluster: str, entry: Entry) -> ReplicatedTopic:
        """Messages are published at a cluster, of which some may be restricted to it and others."""
        only_to = ((one.business_id, one.only_to) for one in entry.messages)
        added = {message: frozenset((cluster, *labels)) for message, labels in only_to if labels is not None}
        return replace(self, restricted={**self.restricted, **added}) if added else self

    def may_be_at(self, message: str, cluster: str) -> bool:
        """Whether a message may be replicated to a cluster."""
        return cluster in self.restricted.get(message, self.clusters)

    def acknowledged(self, subscription: str) -> frozenset[str]:
        """What consumers of a subscription acknowledged, or may have, at any cluster."""
        of_each = (messages for (name, _), messages in self.acknowledged_at.items() if name == subscription)
        return frozenset[str]().union(*of_each)

    def with_published(self, cluster: str, messages: tuple[str, ...]) -> ReplicatedTopic:
        """More messages are stored at a cluster."""
        return replace(self, published={**self.published, cluster: (*self.published.get(cluster, ()), *messages)})

    def opened_at(self, cluster: str) -> ReplicatedTopic:
        """A producer was opened at a cluster, or the topic was reloaded: closed replicators are opened."""
        return replace(self, closed={label: since for label, since in self.closed.items() if label != cluster})

    def with_acknowledged(self, subscription: str, cluster: str, messages: frozenset[str]) -> ReplicatedTopic:
        """A consumer acknowledged messages at a cluster, or may have."""
        at = (subscription, cluster)
        here = self.acknowledged_at.get(at, frozenset())
        return replace(self, acknowledged_at={**self.acknowledged_at, at: here | messages})

    def disturbed(self) -> ReplicatedTopic:
        """An operation was performed: what was read last may be outdated."""
        return replace(self, is_settled=False, is_quiet=False)

    def unloaded_at(self, cluster: str) -> ReplicatedTopic:
        """The topic is reloaded at a cluster: its dispatchers start at mark-delete, with empty snapshot caches."""
        reads = {at: reads for at, reads in self.reads.items() if at[1] != cluster}
        moved = {**self.moved, cluster: self.all_published}
        return replace(self.disturbed().opened_at(cluster), reads=reads, moved=moved)

    def updated_to(self, subscription: str, cluster: str) -> Position | None:
        """The position at a cluster in the last updates of a subscription by the others, when all was read last."""
        if self.read is None:
            return None
        return updated_to({label: Log(label, one) for label, one in self.read.clusters.items()}, subscription, cluster)

    def is_replicated_subscription(self, subscription: str) -> bool:
        """Whether a consumer anywhere made this subscription a replicated one."""
        return any(is_replicated for (name, _), is_replicated in self.own.items() if name == subscription)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConsumer:
    """A consumer: of which subscription, where, and what it was given and did not acknowledge, each where it stands.

    ``passed``: up to where updates had said that its subscription was, when it came and they had all taken effect.
    """

    cluster: str
    topic: str
    subscription: str
    unacknowledged: tuple[tuple[str, Position], ...] = ()
    passed: Position | None = None


@dataclass(frozen=True, slots=True)
class ClusterProducer:
    """A producer: of which topic, at which cluster, and its name there."""

    topic: str
    cluster: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Replication:
    """All of it in one example.

    ``producers``: those that were opened, by session. ``views``: what each cluster knows of its own producers, by topic
    and cluster.
    """

    topics: Mapping[str, ReplicatedTopic] = field(default_factory=dict)
    producers: Mapping[str, ClusterProducer] = field(default_factory=dict)
    consumers: Mapping[str, ClusterConsumer] = field(default_factory=dict)
    views: Mapping[tuple[str, str], TopicView] = field(default_factory=dict)

    def follows(self, operation: Operation) -> bool:
        """Whether an operation is about several clusters: by its topic, by who acts, or because it names a cluster."""
        if isinstance(operation, ReplicationOperation) or operation.cluster is not None:
            return True
        if isinstance(operation, CreateTopic):
            return operation.clusters > 1
        return operation.topic in self.topics or operation.actor in self.producers.keys() | self.consumers.keys()

    @property
    def size(self) -> int:
        """The number of states held as possible."""
        return sum(view.size for view in self.views.values())

    def with_producer(self, session: str, producer: ClusterProducer) -> Replication:
        """The same with one producer more."""
        return replace(self, producers={**self.producers, session: producer})

    def with_topic(self, name: str, topic: ReplicatedTopic) -> Replication:
        """The same with another view of one topic."""
        return replace(self, topics={**self.topics, name: topic})

    def with_consumer(self, name: str, consumer: ClusterConsumer) -> Replication:
        """The same with one consumer more, or another view of it."""
        return replace(self, consumers={**self.consumers, name: consumer})

    def without_consumers(self, names: frozenset[str]) -> Replication:
        """The same without these consumers."""
        return replace(self, consumers={name: one for name, one in self.consumers.items() if name not in names})
