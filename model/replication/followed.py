"""What is known of replicated topics from outside: what was published and acknowledged where, what disturbed it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from model.replication.words import ClustersRead, GeoCreated

At = tuple[str, str]
"""A subscription, and the cluster in which it is meant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GeoTopic:
    """One topic in all clusters.

    ``published``: at each cluster, the business ids that are stored there, in their order; ``perhaps``: those of which
    that is not known. ``acknowledged``: what consumers acknowledged, by subscription, at any cluster. ``own``: the
    subscriptions that consumers made, and whether they made them replicated. ``cut``: since when and until when a link
    was not connected, by source and target, in milliseconds since 1970. ``is_settled``: every cluster has caught up,
    and nothing was done since. ``killed``: the clusters whose broker was killed, and may have forgotten acknowledgments
    since. ``read``: what was read last.
    """

    made: GeoCreated
    is_replicated: bool
    deduplication: bool
    published: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    perhaps: frozenset[str] = frozenset()
    acknowledged: Mapping[str, frozenset[str]] = field(default_factory=dict)
    own: Mapping[At, bool] = field(default_factory=dict)
    cut: Mapping[tuple[str, str], tuple[tuple[int, int | None], ...]] = field(default_factory=dict)
    is_settled: bool = False
    killed: frozenset[str] = frozenset()
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

    def is_replicated_subscription(self, subscription: str) -> bool:
        """Whether a consumer anywhere made this subscription a replicated one."""
        return any(is_replicated for (name, _), is_replicated in self.own.items() if name == subscription)


@dataclass(frozen=True, slots=True, kw_only=True)
class GeoConsumer:
    """A consumer: of which subscription, where, and what it was given and has not acknowledged, in order."""

    cluster: str
    topic: str
    subscription: str
    outstanding: tuple[str, ...] = ()


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
