"""The observer's state of replicated topics: published and acknowledged messages by cluster, and faults."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import permutations
from typing import Final

from model.cluster_events import ClustersRead, CursorAdministered, ReplicationSettings
from model.cluster_operations import AdministerAt, ReplicationOperation
from model.deduplication.topic_observer import TopicView
from model.log import Position
from model.operations import CreateTopic
from model.replication.logs import Log, Logs, updated_to
from model.subscription_operations import CreateSubscription, DeleteSubscription, ResetCursor
from model.vocabulary import Entry, Operation

REPLICATORS_ADD_BYTES: Final = 256
"""A message is nearly too large if less than this is left for its headers (sequence id, producer) and for the origin
cluster and position that a replicator adds. With names of usual lengths that takes 80 bytes."""

Link = tuple[str, str]
"""A direction of replication: the source and the target cluster."""

At = tuple[str, str]
"""A subscription and a cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadAhead:
    """The messages of a consumer when it began an ack: the first and the last position.

    ``begun_ms``: milliseconds since 1970. The dispatcher had read everything before ``last``.
    """

    begun_ms: int
    first: Position
    last: Position


@dataclass(frozen=True, slots=True)
class Administered:
    """An administrator's request for a subscription at a cluster, and the subscription before and after."""

    operation: AdministerAt
    seen: CursorAdministered

    @property
    def at(self) -> At:
        return self.operation.subscription, self.operation.cluster

    @property
    def is_backward(self) -> bool:
        """Whether it may have made acknowledged messages unacknowledged."""
        return isinstance(self.operation.asked, ResetCursor | DeleteSubscription)


Cuts = tuple[tuple[int, int | None], ...]
"""The periods in which a link was not connected, in milliseconds since 1970; None until it heals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicatedTopic:
    """One topic in all clusters. ``only_links``: the directions in which it is replicated, if not all.
    ``changed``: of each direction that was added or removed, the messages that may or may not come.

    ``published``: by cluster, the stored business ids, in order. ``maybe_published``: those whose store is unknown.
    ``restricted``: the clusters of restricted messages. ``acknowledged_at``: the
    messages that consumers acknowledged at each cluster, or may have. ``own``: the subscriptions that consumers
    created, and whether as replicated. ``unreplicated``: how many consumers subscribed at each cluster without
    replication. ``cut``: the cuts of each link, by source and target. ``closed``: the clusters that closed their
    replicators because the topic was idle, and since when. ``reads``: the read progress of dispatchers at each ack,
    since they began. ``killed``: the clusters whose broker was killed and may have lost acks. ``lost``: those whose
    broker is killed or frozen now, and which. ``emptied``: those that came back without their data, with the messages
    that they may have had, the last time. ``is_by_topic``: the topic's own policy names the clusters.
    ``over_reload``: of each link and the time since which it was cut, the messages that its source had published when
    it reloaded the topic. ``administered``: what administrators did to subscriptions, in order.

    ``is_settled``: every cluster has caught up, and no operation followed. ``is_quiet``: nothing was in flight at the
    last read, and only operations of consumers followed. ``read``: the last read.
    """

    made: ReplicationSettings
    is_replicated: bool
    deduplication: bool
    only_links: frozenset[Link] | None = None
    changed: Mapping[Link, frozenset[str]] = field(default_factory=dict)
    published: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    maybe_published: frozenset[str] = frozenset()
    restricted: Mapping[str, frozenset[str]] = field(default_factory=dict)
    acknowledged_at: Mapping[At, frozenset[str]] = field(default_factory=dict)
    own: Mapping[At, bool] = field(default_factory=dict)
    unreplicated: Mapping[str, int] = field(default_factory=dict)
    cut: Mapping[Link, Cuts] = field(default_factory=dict)
    closed: Mapping[str, int] = field(default_factory=dict)
    reads: Mapping[At, tuple[ReadAhead, ...]] = field(default_factory=dict)
    is_settled: bool = False
    killed: frozenset[str] = frozenset()
    lost: Mapping[str, str] = field(default_factory=dict)
    emptied: Mapping[str, frozenset[str]] = field(default_factory=dict)
    is_quiet: bool = False
    read: ClustersRead | None = None
    is_by_topic: bool = False
    over_reload: Mapping[tuple[Link, int], frozenset[str]] = field(default_factory=dict)
    administered: tuple[Administered, ...] = ()

    @property
    def clusters(self) -> tuple[str, ...]:
        return self.made.clusters

    @property
    def links(self) -> frozenset[Link]:
        """The directions in which the topic is replicated."""
        if not self.is_replicated:
            return frozenset()
        return frozenset(permutations(self.clusters, 2)) if self.only_links is None else self.only_links

    @property
    def links_so_far(self) -> frozenset[Link]:
        """The directions in which it is or was replicated."""
        return self.links.union(self.changed)

    def with_link(self, link: Link, *, on: bool) -> ReplicatedTopic:
        """A direction was added or removed: whether messages from before come is not known."""
        links = self.links | {link} if on else self.links - {link}
        before = self.maybe_published.union(self.published.get(link[0], ()))
        return replace(self.disturbed(), only_links=links, changed={**self.changed, link: before})

    def without_data_of(self, cluster: str) -> ReplicatedTopic:
        """A cluster came back without its data: whether more of its messages from before come is not known."""
        before = {link: self.all_published for link in self.links_so_far if link[0] == cluster}
        return replace(self, emptied={**self.emptied, cluster: self.all_published}, changed={**self.changed, **before})

    def left(self, logs: Logs) -> Iterator[Log]:
        """The logs of the clusters that have kept their data (REPL-20)."""
        return (log for log in logs.values() if log.cluster not in self.emptied)

    def remotes_of(self, cluster: str) -> frozenset[str]:
        """The clusters that one replicates the topic to."""
        return frozenset(target for source, target in self.links if source == cluster)

    def is_followed(self, cluster: str) -> bool:
        """Whether other clusters can follow one: each that it replicates to responds to it."""
        remotes = self.remotes_of(cluster)
        return bool(remotes) and all((remote, cluster) in self.links for remote in remotes)

    def published_for(self, cluster: str) -> frozenset[str]:
        """All messages that may be stored at a cluster."""
        sources = {cluster, *(source for source, target in self.links_so_far if target == cluster)}
        return self.maybe_published.union(*(self.published.get(source, ()) for source in sources))

    @property
    def all_published(self) -> frozenset[str]:
        """All messages that are, or may be, stored at their origin cluster."""
        return self.maybe_published.union(*self.published.values())

    def with_restricted(self, cluster: str, entry: Entry) -> ReplicatedTopic:
        """Messages are published at a cluster, some of which may be restricted to clusters."""
        only_to = ((one.business_id, one.only_to) for one in entry.messages)
        added = {message: frozenset((cluster, *labels)) for message, labels in only_to if labels is not None}
        return replace(self, restricted={**self.restricted, **added}) if added else self

    def may_be_at(self, message: str, cluster: str) -> bool:
        """Whether a message may be replicated to a cluster."""
        return cluster in self.restricted.get(message, self.clusters)

    def acknowledged(self, subscription: str) -> frozenset[str]:
        """The messages that consumers of a subscription acknowledged at any cluster, or may have."""
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
        """An operation was performed, so the last read may be outdated."""
        return replace(self, is_settled=False, is_quiet=False)

    def unloaded_at(self, cluster: str) -> ReplicatedTopic:
        """The topic is reloaded at a cluster: its dispatchers start at mark-delete, with empty snapshot caches."""
        reads = {at: reads for at, reads in self.reads.items() if at[1] != cluster}
        published = frozenset(self.published.get(cluster, ()))
        cut = {
            (link, since_ms): published
            for link, cuts in self.cut.items()
            for since_ms, until_ms in cuts
            if link[0] == cluster and until_ms is None
        }
        return replace(self.disturbed().opened_at(cluster), reads=reads, over_reload={**self.over_reload, **cut})

    def with_administered(self, one: Administered) -> ReplicatedTopic:
        """An administrator did something to a subscription."""
        asked, own = one.operation.asked, self.own
        if isinstance(asked, CreateSubscription):
            own = {**own, one.at: asked.is_replicated}
        reads = {at: reads for at, reads in self.reads.items() if at != one.at}
        return replace(self.disturbed(), own=own, reads=reads, administered=(*self.administered, one))

    def updated_to(self, subscription: str, cluster: str) -> Position | None:
        """The position at a cluster in the others' last updates of a subscription, at the last read."""
        if self.read is None:
            return None
        return updated_to({label: Log(label, one) for label, one in self.read.clusters.items()}, subscription, cluster)

    def is_replicated_subscription(self, subscription: str) -> bool:
        """Whether a consumer in any cluster created this subscription as replicated."""
        return any(is_replicated for (name, _), is_replicated in self.own.items() if name == subscription)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConsumer:
    """A consumer: its cluster, topic and subscription, and its unacknowledged messages with their positions, of which a
    message has two that a replicator sent twice.

    ``passed``: the position of its subscription according to updates, if all had taken effect when it subscribed.
    """

    cluster: str
    topic: str
    subscription: str
    unacknowledged: tuple[tuple[str, Position], ...] = ()
    passed: Position | None = None


@dataclass(frozen=True, slots=True)
class ClusterProducer:
    topic: str
    cluster: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Replication:
    """The replicated topics of one example.

    ``producers``: those that were opened, by session. ``views``: the view of each cluster's own producers, by topic and
    cluster.
    """

    topics: Mapping[str, ReplicatedTopic] = field(default_factory=dict)
    producers: Mapping[str, ClusterProducer] = field(default_factory=dict)
    consumers: Mapping[str, ClusterConsumer] = field(default_factory=dict)
    views: Mapping[tuple[str, str], TopicView] = field(default_factory=dict)

    def follows(self, operation: Operation) -> bool:
        """Whether an operation is about several clusters, by its topic, its actor or its cluster."""
        if isinstance(operation, ReplicationOperation) or operation.cluster is not None:
            return True
        if isinstance(operation, CreateTopic):
            return operation.clusters > 1 and operation.home is None
        return operation.topic in self.topics or operation.actor in self.producers.keys() | self.consumers.keys()

    @property
    def size(self) -> int:
        return sum(view.size for view in self.views.values())

    def with_producer(self, session: str, producer: ClusterProducer) -> Replication:
        return replace(self, producers={**self.producers, session: producer})

    def with_topic(self, name: str, topic: ReplicatedTopic) -> Replication:
        return replace(self, topics={**self.topics, name: topic})

    def with_consumer(self, name: str, consumer: ClusterConsumer) -> Replication:
        return replace(self, consumers={**self.consumers, name: consumer})

    def without_consumers(self, names: frozenset[str]) -> Replication:
        return replace(self, consumers={name: one for name, one in self.consumers.items() if name not in names})
