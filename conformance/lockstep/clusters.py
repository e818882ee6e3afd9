"""What the examples of document 001 share in a run: three clusters, their namespaces, the links between them.

The clusters are started when the first example asks for them, and stay up. A topic is replicated between the first two
of them or between all three.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import permutations
from typing import Final

from conformance.brokers.interface import Broker
from conformance.clients.admin.http import AdminError
from conformance.clients.admin.types import ReplicationStats
from conformance.clients.security.service import Service
from conformance.clusters import QUICK, Clusters
from conformance.lockstep.answers import LateToReturn
from conformance.lockstep.traits import Traits
from conformance.proxy.events import Command, Event
from conformance.wait import Deadline, retry, wait_until
from model.cluster_operations import LABELS

Link = tuple[str, str]
"""The labels of the cluster that sends and of the one that it sends to."""

CONNECT_TIMEOUT_S: Final = 60.0
"""How long replicators may take to connect: they wait ever longer between their tries."""

ASKED_EVERY_S: Final = 10.0
"""How often a namespace is told to be idle, while nothing comes of it."""

PERIOD_MS: Final = int(QUICK["replicatedSubscriptionsSnapshotFrequencyMillis"])
TIMEOUT_MS: Final = 1000 * int(QUICK["replicatedSubscriptionsSnapshotTimeoutSeconds"])
NEVER_IDLE_S: Final = int(QUICK["brokerDeleteInactiveTopicsMaxInactiveDurationSeconds"])
CACHED: Final = int(QUICK["replicatedSubscriptionsSnapshotMaxCachedPerSubscription"])


class ReplicationWorld:
    """Three started clusters. Not for use by several threads at once."""

    def __init__(self, make: Callable[[], Broker], *, tenant: str, on_start: Callable[[Broker], None]) -> None:
        """``make`` gives a broker that is not started yet; ``tenant`` is made for their namespaces.

        ``on_start`` is done to each of them after each start.
        """
        self._on_start = on_start
        self._namespaces: dict[tuple[int, bool, bool], str] = {}
        self._connections: Counter[tuple[Link, str]] = Counter()
        self.clusters: Final = Clusters([make() for _ in LABELS], recorder=self._recorder, tenant=tenant)
        self.clusters.start()
        for label in LABELS:
            on_start(self.clusters.cluster(label).broker)
        configuration = self.clusters.cluster(LABELS[0]).admin.runtime_configuration()
        self.largest_bytes: Final = int(configuration["maxMessageSize"])
        self.snapshot_room: Final = int(configuration["brokerDeduplicationMaxNumberOfProducers"])
        self.traits: Final = Traits.of(configuration)
        self.labels_by_name: Final = {self.clusters.cluster(label).name: label for label in LABELS}

    def service(self, cluster: str) -> Service:
        """Where clients find a cluster."""
        return self.clusters.cluster(cluster).broker.addresses.service

    def _recorder(self, source: str, target: str) -> Callable[[Event], None]:
        """Count how often a replicator of each topic came over a link."""

        def record(event: Event) -> None:
            if isinstance(event, Command) and event.kind == "PRODUCER" and event.topic is not None:
                self._connections[(source, target), event.topic] += 1

        return record

    def has_reconnected(self, link: Link, topic: str) -> bool:
        """Whether a topic's replicator came over a link more than once."""
        return self._connections[link, topic] > 1

    def namespace(self, labels: Sequence[str], *, is_replicated: bool, deduplication: bool) -> str:
        """The namespace of topics that are replicated between these clusters, or by none; made on first use."""
        key = (len(labels), is_replicated, deduplication)
        if key not in self._namespaces:
            kind = f"{len(labels)}{'' if is_replicated else '-alone'}{'-deduplicated' if deduplication else ''}"
            names = {label: self.clusters.cluster(label).name for label in labels}
            among = {label: tuple(names.values()) if is_replicated else (names[label],) for label in labels}
            namespace = self.clusters.create_namespace(kind, among)
            for label in labels:
                admin = self.clusters.cluster(label).admin
                admin.set_retention(namespace, size_mb=-1, time_minutes=-1)
                admin.set_namespace_deduplication(namespace, deduplication)
            self._namespaces[key] = namespace
        return self._namespaces[key]

    def replicators(self, labels: Sequence[str], topic: str) -> dict[Link, ReplicationStats]:
        """What these clusters say of a topic's replicators, by link; nothing where one says nothing of the topic."""
        told: dict[Link, ReplicationStats] = {}
        for source in labels:
            with suppress(AdminError):  # it is being loaded
                replication = self.clusters.cluster(source).admin.stats(topic).replication
                told |= {(source, self.labels_by_name[name]): one for name, one in replication.items()}
        return told

    def is_connected(self, link: Link, topic: str) -> bool:
        """Whether the cluster that sends says that its replicator of a topic is connected; False if it says nothing."""
        told = self.replicators(link[:1], topic).get(link)
        return told is not None and told.connected

    def closed(self, labels: Sequence[str], topic: str) -> tuple[Link, ...]:
        """The links between clusters over which, as the cluster that sends says, no replicator of a topic goes."""
        return tuple(sorted(link for link, told in self.replicators(labels, topic).items() if not told.connected))

    def close_idle(self, cluster: str, labels: Sequence[str], topic: str) -> None:
        """Have a cluster find a topic idle that it has nothing of, and wait until it has closed its replicators.

        Its other topics of that namespace may be idle as well; they are of examples that are over.
        """
        admin, namespace = self.clusters.cluster(cluster).admin, "/".join(topic.split("/")[2:4])
        links = {(cluster, other) for other in labels if other != cluster}
        asked = Deadline.after(0)

        def is_closed() -> bool:
            nonlocal asked
            if asked.passed:  # again and again: once a topic did nothing for a minute, as if it had missed the change
                admin.set_retention(namespace, size_mb=0, time_minutes=0)
                admin.set_inactive_after(namespace, idle_s=1)
                asked = Deadline.after(ASKED_EVERY_S)
            return links <= set(self.closed(labels, topic))

        try:
            self.await_all(
                is_closed, f"cluster {cluster} does not close the replicators of {topic}, which is idle there"
            )
        finally:
            admin.set_inactive_after(namespace, idle_s=NEVER_IDLE_S)
            admin.set_retention(namespace, size_mb=-1, time_minutes=-1)

    def await_connected(self, labels: Sequence[str], topic: str) -> None:
        """Wait until every cluster's replicators of a topic are connected; :class:`LateToReturn` if they are not in
        time."""
        self.await_all(
            lambda: all(self.is_connected(link, topic) for link in permutations(labels, 2)),
            f"the replicators of {topic} do not connect",
        )

    @staticmethod
    def await_all(condition: Callable[[], bool], otherwise: str) -> None:
        """Wait for something that clusters do by themselves; else :class:`LateToReturn`."""
        if not wait_until(condition, CONNECT_TIMEOUT_S):
            raise LateToReturn(f"{otherwise} within {CONNECT_TIMEOUT_S:g} s")

    def gone(self) -> list[str]:
        """The clusters whose brokers' processes are gone."""
        return [label for label in self.clusters.labels if not self.clusters.cluster(label).broker.is_alive()]

    def bounce(self, label: str, *, is_kill: bool) -> None:
        """Kill a cluster's broker, or stop it, and start it again."""
        broker = self.clusters.cluster(label).broker
        if is_kill:
            broker.kill()
            broker.start()
        else:
            broker.restart()
        self._on_start(broker)

    def timed_out(self, cluster: str) -> float:
        """How many snapshots a cluster has given up since it was started, by its own count."""
        name = "pulsar_replicated_subscriptions_timedout_snapshots"
        admin = self.clusters.cluster(cluster).admin
        return retry(lambda: admin.metric(name), CONNECT_TIMEOUT_S)  # 500 where a busy broker is too slow

    def close(self) -> None:
        """End the links and all clusters."""
        self.clusters.stop()


def now_ms() -> int:
    """The clock that all times of an example are read from, which is that of brokers: milliseconds since 1970."""
    return time.time_ns() // 1_000_000
