"""What the examples of document 001 share in a run: three clusters, their namespaces, the links between them.

The clusters are started when the first example asks for them, and stay up. A topic is replicated between the first two
of them or between all three.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import permutations
from typing import Final

from conformance.brokers.interface import Broker
from conformance.clusters import LABELS, QUICK, Clusters
from conformance.lockstep.cursor_accounts import PAUSE_S
from conformance.systems.admin_http import AdminError
from conformance.systems.deadline import Deadline
from conformance.tap.armed import Armed
from conformance.tap.faults import Refuse
from conformance.tap.words import Command, Event
from conformance.trouble import Trouble

Link = tuple[str, str]
"""The labels of the cluster that sends and of the one that it sends to."""

CONNECT_TIMEOUT_S: Final = 60.0
"""How long replicators may take to connect: they wait ever longer between their tries."""

PERIOD_MS: Final = int(QUICK["replicatedSubscriptionsSnapshotFrequencyMillis"])
TIMEOUT_MS: Final = 1000 * int(QUICK["replicatedSubscriptionsSnapshotTimeoutSeconds"])
CACHED: Final = int(QUICK["replicatedSubscriptionsSnapshotMaxCachedPerSubscription"])


class GeoWorld:
    """Three started clusters. Not for use by several threads at once."""

    def __init__(self, make: Callable[[], Broker], *, run: str) -> None:
        """``make`` gives a broker that is not started yet; ``run`` is a word that no other run on these uses."""
        self._run = run
        self._namespaces: dict[tuple[int, bool, bool], str] = {}
        self._connections: Counter[tuple[Link, str]] = Counter()
        self._refusing: dict[Link, Armed] = {}
        self.clusters: Final = Clusters([make() for _ in LABELS], recorder=self._recorder)
        self.clusters.start()
        self.labels_by_name: Final = {self.clusters.cluster(label).name: label for label in LABELS}

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
            namespace = self.clusters.create_namespace(f"pc-{self._run}-{kind}", among)
            for label in labels:
                admin = self.clusters.cluster(label).admin
                admin.set_retention(namespace, size_mb=-1, time_minutes=-1)
                admin.set_namespace_deduplication(namespace, deduplication)
            self._namespaces[key] = namespace
        return self._namespaces[key]

    def cut(self, link: Link) -> None:
        """Let nothing come over a link, until it is healed."""
        if link not in self._refusing:
            tap = self.clusters.link(*link)
            self._refusing[link] = tap.inject(Refuse())
            tap.cut()

    def is_cut(self, link: Link) -> bool:
        """Whether a link was cut and is not healed yet."""
        return link in self._refusing

    def heal(self, link: Link) -> None:
        """Let what comes over a link come again."""
        refusing = self._refusing.pop(link, None)
        if refusing is not None:
            refusing.lift()

    def heal_all(self) -> None:
        """Let everything come again."""
        for link in list(self._refusing):
            self.heal(link)

    def is_connected(self, link: Link, topic: str) -> bool:
        """Whether the cluster that sends says that its replicator of a topic is connected; False if it says nothing."""
        source, target = (self.clusters.cluster(label) for label in link)
        try:
            told = source.admin.stats(topic).replication.get(target.name)
        except AdminError:
            return False
        return told is not None and told.connected

    def await_connected(self, labels: Sequence[str], topic: str) -> None:
        """Wait until every cluster's replicators of a topic are connected; :class:`Trouble` if they are not in time."""
        self.await_all(
            lambda: all(self.is_connected(link, topic) for link in permutations(labels, 2)),
            f"the replicators of {topic} do not connect",
        )

    @staticmethod
    def await_all(condition: Callable[[], bool], otherwise: str) -> None:
        """Wait for something that must come, whatever the rules say; else :class:`Trouble`."""
        deadline = Deadline.after(CONNECT_TIMEOUT_S)
        while not condition():
            if deadline.passed:
                raise Trouble(f"{otherwise} within {CONNECT_TIMEOUT_S:g} s")
            time.sleep(PAUSE_S)

    def timed_out(self, cluster: str) -> float:
        """How many snapshots a cluster has given up since it was started, by its own count."""
        name = "pulsar_replicated_subscriptions_timedout_snapshots"
        return self.clusters.cluster(cluster).admin.metric(name)

    def close(self) -> None:
        """End the links and all clusters."""
        self.clusters.stop()
