"""The three clusters, namespaces and links that the examples of document 001 share in a run.

The first example starts the clusters, and they stay up. A topic is replicated between the first two or all three.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import permutations
from typing import Final, Literal

from msgspec import structs

from conformance.brokers.interface import Broker
from conformance.clients.admin.client import Admin
from conformance.clients.admin.http import AdminError, namespace_of
from conformance.clients.admin.types import NamespacePolicies, ReplicationStats
from conformance.clients.security.service import Service
from conformance.clusters import QUICK, Clusters
from conformance.lockstep.answers import LateToReturn, OutOfTime, expected_back
from conformance.lockstep.settings.traits import Traits
from conformance.proxy.events import Command, Event
from conformance.tenancy.cluster_settings import ClusterSettings
from conformance.tenancy.run_name import RunName
from conformance.tenancy.run_tenant import RunTenant
from conformance.wait import Deadline, retry, wait_until
from model.cluster_operations import AWAY, HOME, LABELS

Link = tuple[str, str]
"""The labels of the sending and the receiving cluster."""

CONNECT_TIMEOUT_S: Final = 60.0
"""How long replicators may take to connect: they back off between attempts."""

RETRY_TIMEOUT_S: Final = 30.0
"""How long replicators may take to connect to a cluster that they could reach before: several times their back-off."""

SET_EVERY_S: Final = 10.0
"""How often the idle policy of a namespace is set again until it takes effect."""

IDLE_REPLICATORS: Final = "brokerReplicationInactiveThresholdSeconds"
"""The setting of releases that close idle replicators apart from inactive topics."""

PERIOD_MS: Final = int(QUICK["replicatedSubscriptionsSnapshotFrequencyMillis"])
TIMEOUT_MS: Final = 1000 * int(QUICK["replicatedSubscriptionsSnapshotTimeoutSeconds"])
NEVER_IDLE_S: Final = int(QUICK["brokerDeleteInactiveTopicsMaxInactiveDurationSeconds"])
CACHED: Final = int(QUICK["replicatedSubscriptionsSnapshotMaxCachedPerSubscription"])


Loss = Literal["kill", "freeze"]


@dataclass(slots=True, kw_only=True)
class _Namespace:
    """A namespace in several clusters: its name in the tenant, and the links that replicate its topics."""

    kind: str
    links: frozenset[Link]
    deduplication: bool


class ReplicationWorld:
    """Three started clusters. Not for use by several threads at once."""

    def __init__(
        self,
        make: Callable[[], Broker],
        *,
        tenant: str,
        on_start: Callable[[Broker], None],
        is_time_up: Callable[[], bool] = lambda: False,
    ) -> None:
        """``make`` returns a broker that is not started yet; ``on_start`` runs after each start of a broker.

        ``is_time_up``: whether the run has ended, and with it what may wait for minutes.
        """
        self._on_start = on_start
        self.is_time_up = is_time_up
        self._namespaces: dict[tuple[tuple[str, ...], str, bool], _Namespace] = {}
        self.lost: Final[dict[str, Loss]] = {}
        """The clusters whose broker is killed or frozen, until it is recovered."""
        self._connections: Counter[tuple[Link, str]] = Counter()
        self._requests: Counter[tuple[Link, str]] = Counter()
        """How often replicators asked for each topic over each link."""
        self.clusters: Final = Clusters([make() for _ in LABELS], recorder=self._recorder, tenant=tenant)
        self.clusters.start()
        for label in LABELS:
            on_start(self.clusters.cluster(label).broker)
        configuration = self.clusters.cluster(LABELS[0]).admin.runtime_configuration()
        self.largest_bytes: Final = int(configuration["maxMessageSize"])
        self.snapshot_room: Final = int(configuration["brokerDeduplicationMaxNumberOfProducers"])
        self.traits: Final = Traits.of(configuration)
        self._idle_replicators_s: Final = configuration.get(IDLE_REPLICATORS)
        self.labels_by_name: Final = {self.clusters.cluster(label).name: label for label in LABELS}

    def service(self, cluster: str) -> Service:
        return self.clusters.cluster(cluster).broker.addresses.service

    def _recorder(self, source: str, target: str) -> Callable[[Event], None]:
        """Count how often a replicator of each topic asks for it and connects over a link."""

        def record(event: Event) -> None:
            if isinstance(event, Command) and event.topic is not None and event.direction == "to-broker":
                self._requests[(source, target), event.topic] += 1
                self._connections[(source, target), event.topic] += event.kind == "PRODUCER"

        return record

    def require_time(self) -> None:
        """Raise :class:`OutOfTime` once the run has ended."""
        if self.is_time_up():
            raise OutOfTime

    def has_reconnected(self, link: Link, topic: str) -> bool:
        """Whether a topic's replicator connected over a link more than once."""
        return self._connections[link, topic] > 1

    def namespace(
        self, labels: Sequence[str], links: Collection[Link], *, deduplication: bool, of: str | None = None
    ) -> str:
        """The namespace of topics that these clusters have and that these links replicate; made on first use.

        ``of``: the one topic that has a namespace of its own, whose links may change.
        """
        key = (tuple(labels), of or ("all" if links else "alone"), deduplication)
        if key not in self._namespaces:
            kind = "-".join([str(len(labels)), key[1], *(["deduplicated"] if deduplication else [])])
            made = _Namespace(kind=kind, links=frozenset(links), deduplication=deduplication)
            for label in labels:
                self._create(made, label)
            self._namespaces[key] = made
        return self._full_name(self._namespaces[key])

    def set_link(self, namespace: str, link: Link, *, on: bool) -> frozenset[Link]:
        """Have the topics of a namespace, by its full name, replicated over a link from now on, or not.

        Returns all links that replicate them.
        """
        changed = next(one for one in self._namespaces.values() if self._full_name(one) == namespace)
        changed.links = changed.links | {link} if on else changed.links - {link}
        names = self._names_among(link[0], changed.links)
        self.clusters.cluster(link[0]).admin.set_replication_clusters(namespace, names)
        return changed.links

    def set_topic_links(self, topic: str, label: str, links: Collection[Link]) -> None:
        """Have a cluster replicate a topic over these links from now on, by the topic's own policy there.

        Without a link from there it has no such policy, and its namespace names no other cluster.
        """
        admin, names = self.clusters.cluster(label).admin, self._names_among(label, links)
        retry(lambda: admin.set_topic_replication_clusters(topic, names if len(names) > 1 else None), RETRY_TIMEOUT_S)

    def _create(self, made: _Namespace, label: str) -> None:
        """Create a namespace in one cluster."""
        namespace = self.clusters.create_namespace(made.kind, {label: self._names_among(label, made.links)})
        admin = self.clusters.cluster(label).admin
        admin.set_retention(namespace, size_mb=-1, time_minutes=-1)
        admin.set_namespace_deduplication(namespace, made.deduplication)

    def _full_name(self, made: _Namespace) -> str:
        return f"{self.clusters.tenant}/{made.kind}"

    def _names_among(self, label: str, links: Collection[Link]) -> tuple[str, ...]:
        """The names of a cluster and of those that these links replicate to from it."""
        return tuple(self.clusters.cluster(other).name for other in LABELS if other == label or (label, other) in links)

    def replicators(self, labels: Sequence[str], topic: str) -> dict[Link, ReplicationStats]:
        """The stats of a topic's replicators in these clusters, by link, without those that are not loaded."""
        stats: dict[Link, ReplicationStats] = {}
        for source in (label for label in labels if label not in self.lost):
            with suppress(AdminError):  # it is being loaded
                replication = self.clusters.cluster(source).admin.stats(topic).replication
                stats |= {(source, self.labels_by_name[name]): one for name, one in replication.items()}
        return stats

    def is_connected(self, link: Link, topic: str) -> bool:
        """Whether a topic's replicator is connected according to the sending cluster's stats."""
        stats = self.replicators(link[:1], topic).get(link)
        return stats is not None and stats.connected

    def closed(self, labels: Sequence[str], topic: str) -> tuple[Link, ...]:
        """The links without a connected replicator of a topic, according to the sending cluster's stats."""
        return tuple(sorted(link for link, stats in self.replicators(labels, topic).items() if not stats.connected))

    def close_idle(self, cluster: str, labels: Sequence[str], topic: str) -> bool:
        """Make a cluster treat an empty topic as inactive, and wait until it has closed its replicators.

        Whether it has: no document promises that. This may close other topics, too, whose examples are over.
        """
        admin, namespace = self.clusters.cluster(cluster).admin, namespace_of(topic)
        links = {(cluster, other) for other in labels if other != cluster}
        next_set = Deadline.after(0)

        def is_closed() -> bool:
            nonlocal next_set
            if next_set.passed:  # repeated: a topic was once seen to miss the change for a minute
                admin.set_retention(namespace, size_mb=0, time_minutes=0)
                admin.set_inactive_after(namespace, idle_s=1)
                if self._idle_replicators_s is not None:
                    admin.set_dynamic_configuration(IDLE_REPLICATORS, "1")
                next_set = Deadline.after(SET_EVERY_S)
            return links <= set(self.closed(labels, topic))

        try:
            return wait_until(is_closed, CONNECT_TIMEOUT_S)
        finally:
            if self._idle_replicators_s is not None:
                admin.set_dynamic_configuration(IDLE_REPLICATORS, self._idle_replicators_s)
            admin.set_inactive_after(namespace, idle_s=NEVER_IDLE_S)
            admin.set_retention(namespace, size_mb=-1, time_minutes=-1)

    def await_connected(self, links: Collection[Link], topic: str) -> None:
        """Wait until these links have a connected replicator of a topic. Raises :class:`LateToReturn`."""
        self.await_all(
            lambda: all(self.is_connected(link, topic) for link in links),
            f"the replicators of {topic} do not connect",
        )

    @staticmethod
    def await_all(condition: Callable[[], bool], otherwise: str) -> None:
        """Wait for a condition. Raises :class:`LateToReturn`."""
        if not wait_until(condition, CONNECT_TIMEOUT_S):
            raise LateToReturn(f"{otherwise} within {CONNECT_TIMEOUT_S:g} s")

    def gone(self) -> list[str]:
        """The clusters whose broker process is gone, except those that are to be."""
        there = (label for label in self.clusters.labels if label not in self.lost)
        return [label for label in there if not self.clusters.cluster(label).broker.is_alive()]

    def lose(self, label: str, how: Loss) -> None:
        """Kill or freeze a cluster's broker, and leave it so."""
        broker = self.clusters.cluster(label).broker
        self.lost[label] = how
        if how == "kill":
            broker.kill()
        else:
            broker.pause()

    def may_lose_data(self, label: str) -> bool:
        """Whether a lost cluster can come back empty: not one that topics of other machines have as well."""
        return label not in (HOME, AWAY) and self.lost[label] == "kill" and self.clusters.may_lose_data(label)

    def recover(self, label: str) -> None:
        """Have the broker of a lost cluster run again."""
        how, broker = self.lost.pop(label), self.clusters.cluster(label).broker
        if how == "freeze":
            broker.resume()
        if not broker.is_alive() or how == "kill":
            with expected_back():
                broker.start()
            self._on_start(broker)

    def recover_empty(
        self, label: str, topics: Mapping[str, Collection[Link]], *, is_reached_early: bool
    ) -> list[Link]:
        """Have a killed cluster run again without its data, but with all namespaces and these topics.

        ``topics``: the links that replicate each, which connect then unless they are cut. With ``is_reached_early`` the
        others reach the cluster before its namespaces exist, and otherwise only then. Returns the links over which a
        topic's replicator did not connect again although it should.
        """
        del self.lost[label]
        to_it = [link for link in permutations(LABELS, 2) if link[1] == label and not self.clusters.is_cut(*link)]
        wanted = [(link, topic) for topic, links in topics.items() for link in links if link in to_it]
        for link in to_it:
            self.clusters.cut(*link)
        with expected_back():
            self.clusters.start_empty(label)
        self._on_start(self.clusters.cluster(label).broker)
        if is_reached_early:
            self._await_requests(to_it, wanted)
        for (labels, _, _), made in self._namespaces.items():
            if label in labels:
                self._create(made, label)
        for topic in topics:
            self.clusters.cluster(label).admin.ensure_topic(topic)
        for link in to_it:
            self.clusters.heal(*link)
        deadline = Deadline.after(RETRY_TIMEOUT_S if is_reached_early else CONNECT_TIMEOUT_S)
        return [link for link, topic in wanted if not wait_until(partial(self.is_connected, link, topic), deadline)]

    def _await_requests(self, links: Collection[Link], wanted: Collection[tuple[Link, str]]) -> None:
        """Heal these links, and wait until replicators have asked for topics over them."""
        before = self._requests.copy()
        for link in links:
            self.clusters.heal(*link)
        self.await_all(
            lambda: all(self._requests[one] > before[one] for one in wanted),
            "the replicators do not ask for their topics again",
        )

    def bounce(self, label: str, *, is_kill: bool) -> None:
        """Kill or restart a cluster's broker."""
        broker = self.clusters.cluster(label).broker
        with expected_back():
            if is_kill:
                broker.kill()
                broker.start()
            else:
                broker.restart()
        self._on_start(broker)

    def timed_out(self, cluster: str) -> float:
        """How many snapshots timed out in a cluster since its start, according to its metrics."""
        name = "pulsar_replicated_subscriptions_timedout_snapshots"
        admin = self.clusters.cluster(cluster).admin
        return retry(lambda: admin.metric(name), CONNECT_TIMEOUT_S)  # 500 where a busy broker is too slow

    def close(self) -> None:
        """End the links and all clusters."""
        self.clusters.stop()


class ReplicatedTenant(RunTenant):
    """Namespaces that two clusters have, in the tenant that both of them have."""

    def __init__(self, clusters: Clusters, admin: Admin, name: RunName) -> None:
        super().__init__(admin, name, within=clusters.tenant)
        self._away = clusters.cluster(AWAY).admin
        self._names = tuple(clusters.cluster(label).name for label in (HOME, AWAY))

    def create_namespace(self, kind: str, policies: NamespacePolicies | None = None) -> str:
        """Create a namespace in both clusters. In the other one, all messages are retained."""
        replicated = structs.replace(policies or NamespacePolicies(), replication_clusters=self._names)
        namespace = super().create_namespace(kind, replicated)
        self._away.create_namespace(namespace, replicated)
        self._away.set_retention(namespace, size_mb=-1, time_minutes=-1)
        return namespace


class ReplicatedPlace:
    """The place on the first cluster."""

    def __init__(self, clusters: Clusters, name: RunName) -> None:
        admin = clusters.cluster(HOME).admin
        self.tenant: Final = ReplicatedTenant(clusters, admin, name)
        self.settings: Final = ClusterSettings(admin, self.tenant, may_change=True)
        self.tenant.begin_record()


def now_ms() -> int:
    """The wall clock that examples and brokers share, in milliseconds since 1970."""
    return time.time_ns() // 1_000_000
