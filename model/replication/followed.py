"""What is known of replicated topics from outside: what was published and acknowledged where, what disturbed it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from model.log import Position
from model.replication.logs import Log
from model.replication.words import ClustersRead, GeoCreated

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


@dataclass(frozen=True, slots=True, kw_only=True)
class GeoTopic:
    """One topic in all clusters.

    ``published``: at each cluster, the business ids that are stored there, in their order; ``perhaps``: those of which
    that is not known. ``acknowledged``: what consumers acknowledged, by subscription, at any cluster. ``own``: the
    subscriptions that consumers made, and whether they made them replicated. ``cut``: since when and until when a link
    was not connected, by source and target, in milliseconds since 1970. ``reads``: how far dispatchers had read when
    something was acknowledged, since they began. ``moved``: the clusters that loaded the topic anew;
    ``killed``: those whose broker was killed, and may have forgotten acknowledgments since.

    ``is_settled``: every cluster has caught up, and nothing was done since. ``is_quiet``: all that is under way was
    through when it was read, and nothing was done since but at consumers. ``read``: what was read last.
    """

    made: GeoCreated
    is_replicated: bool
    deduplication: bool
    published: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    perhaps: frozenset[str] = frozenset()
    acknowledged: Mapping[str, frozenset[str]] = field(default_factory=dict)
    own: Mapping[At, bool] = field(default_factory=dict)
    cut: Mapping[tuple[str, str], tuple[tuple[int, int | None], ...]] = field(default_factory=dict)
    reads: Mapping[At, tuple[ReadAhead, ...]] = field(default_factory=dict)
    moved: frozenset[str] = frozenset()
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

    def with_published(self, cluster: str, messages: tuple[str, ...]) -> GeoTopic:
        """More messages are stored at a cluster."""
        return replace(self, published={**self.published, cluster: (*self.published.get(cluster, ()), *messages)})

    def with_acknowledged(self, subscription: str, messages: frozenset[str]) -> GeoTopic:
        """A consumer acknowledged messages, or may have."""
        before = self.acknowledged.get(subscription, frozenset())
        return replace(self, acknowledged={**self.acknowledged, subscription: before | messages})

    def stirred(self) -> GeoTopic:
        """Something was done: what was read is no longer all there is."""
        return replace(self, is_settled=False, is_quiet=False)

    def moved_at(self, cluster: str) -> GeoTopic:
        """The topic is loaded anew at a cluster: its dispatchers begin behind mark-delete, with empty caches."""
        reads = {at: reads for at, reads in self.reads.items() if at[1] != cluster}
        return replace(self.stirred(), reads=reads, moved=self.moved | {cluster})

    def updated_to(self, subscription: str, cluster: str) -> Position | None:
        """The position at a cluster that others said, when all was read last, that a subscription has passed."""
        if self.read is None:
            return None
        logs = [Log(label, read) for label, read in self.read.clusters.items() if label != cluster]
        latest = [log.updates(subscription)[-1:] for log in logs]
        told = (update.positions.get(cluster) for one in latest for _, update in one)
        return max((position for position in told if position is not None), default=None)

    def is_replicated_subscription(self, subscription: str) -> bool:
        """Whether a consumer anywhere made this subscription a replicated one."""
        return any(is_replicated for (name, _), is_replicated in self.own.items() if name == subscription)


@dataclass(frozen=True, slots=True, kw_only=True)
class GeoConsumer:
    """A consumer: of which subscription, where, and what it was given and did not acknowledge, each where it stands."""

    cluster: str
    topic: str
    subscription: str
    outstanding: tuple[tuple[str, Position], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Replication:
    """All of it in one example."""

    topics: Mapping[str, GeoTopic] = field(default_factory=dict)
    consumers: Mapping[str, GeoConsumer] = field(default_factory=dict)

    def with_topic(self, name: str, topic: GeoTopic) -> Replication:
        """The same with another view of one topic."""
        return replace(self, topics={**self.topics, name: topic})

    def with_consumer(self, name: str, consumer: GeoConsumer) -> Replication:
        """The same with one consumer more, or another view of it."""
        return replace(self, consumers={**self.consumers, name: consumer})

    def without_consumers(self, names: frozenset[str]) -> Replication:
        """The same without these consumers."""
        return replace(self, consumers={name: one for name, one in self.consumers.items() if name not in names})
