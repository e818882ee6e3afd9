"""Several clusters with geo-replication between them, in one call: two or three brokers, and a link for each direction.

Each cluster is a broker of any kind, with its own metadata. Each link has a proxy of its own, which can cut, delay and
heal one direction. The replicated messages mean nothing here.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import permutations
from types import TracebackType
from typing import Final, Literal, Self

import msgspec

from conformance.brokers.deployment import deployment_of
from conformance.brokers.interface import Broker
from conformance.brokers.select import parse_broker
from conformance.brokers.settings import Base
from conformance.clients.admin.client import Admin
from conformance.clients.admin.types import NamespacePolicies
from conformance.harness_error import HarnessError
from conformance.proxy.armed import ArmedFault
from conformance.proxy.events import Direction, Event
from conformance.proxy.faults import DelayFrames, HoldFrames, Refuse, Which
from conformance.proxy.proxy import Proxy
from conformance.tenancy.run_name import UNLIMITED_S, RunName
from model.cluster_operations import LABELS

QUICK: Final[Mapping[str, str]] = {
    "enableReplicatedSubscriptions": "true",
    "replicatedSubscriptionsSnapshotFrequencyMillis": "250",
    "replicatedSubscriptionsSnapshotTimeoutSeconds": "2",
    "replicatedSubscriptionsSnapshotMaxCachedPerSubscription": "3",
    "brokerClient_keepAliveIntervalSeconds": "5",
    "brokerDeleteInactiveTopicsEnabled": "true",
    "brokerDeleteInactiveTopicsFrequencySeconds": "1",
    "brokerDeleteInactiveTopicsMaxInactiveDurationSeconds": "86400",
}
"""Settings for brokers of clusters; a user's own take precedence. Snapshots are taken every 250 ms instead of every
second, time out after 2 s instead of 30, and a subscription caches three instead of ten. A hung peer is detected in 8 s
instead of 40. (2 s would be too short: on a busy machine connections break, and messages in flight are sent again.)
Brokers check for inactive topics every second; only a namespace policy makes a topic inactive."""

Held = Literal["messages", "receipts"]
_HELD: Final[Mapping[Held, tuple[str, Direction]]] = {
    "messages": ("SEND", "to-broker"),
    "receipts": ("SEND_RECEIPT", "to-client"),
}
"""The commands that a link can hold, each with its direction."""

_TOPICS_AHEAD: Final = 3
"""How many more topics each cluster creates than the one before it. Otherwise new clusters have the same ledger ids,
and confused positions would go unnoticed."""


class FurtherClusters(msgspec.Struct, frozen=True, kw_only=True):
    """The clusters that a run starts besides its broker: the names of their brokers, which they get in turn, and the
    settings of each."""

    brokers: tuple[str, ...]
    settings: dict[str, str]
    base: Base = "quick"

    def making(self) -> Callable[[], Broker]:
        """Returns what makes the next broker, not started yet. It raises :class:`HarnessError`."""
        names = itertools.cycle(self.brokers)
        return lambda: parse_broker(next(names), settings={**QUICK, **self.settings}, base=self.base)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningCluster:
    """One cluster: its label in histories, its name in Pulsar, its broker and its admin API."""

    label: str
    name: str
    broker: Broker
    admin: Admin


class Clusters:
    """Two or three clusters, each of which replicates to all others; a context manager.

    ``recorder`` returns the recorder of a link's commands for the labels of its source and target. ``tenant``: the
    tenant to create for replicated namespaces.
    """

    def __init__(
        self,
        brokers: Sequence[Broker],
        *,
        recorder: Callable[[str, str], Callable[[Event], None]] | None = None,
        tenant: str | None = None,
    ) -> None:
        """Raises :class:`HarnessError` unless there are two or three brokers."""
        if not 2 <= len(brokers) <= len(LABELS):
            raise HarnessError(f"Geo-replication is checked with two or three clusters, not with {len(brokers)}.")
        self._brokers: Final = dict(zip(LABELS, brokers, strict=False))
        self._recorder = recorder
        self.tenant: Final = tenant or str(RunName.new(at_most_s=UNLIMITED_S))
        self._clusters: dict[str, RunningCluster] = {}
        self._links: dict[tuple[str, str], Proxy] = {}
        self._refusing: dict[tuple[str, str], ArmedFault] = {}
        self._holding: dict[tuple[str, str], list[ArmedFault]] = {}
        self._open = ExitStack()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    @property
    def labels(self) -> tuple[str, ...]:
        """A, B, and C if there are three clusters."""
        return tuple(self._brokers)

    def cluster(self, label: str) -> RunningCluster:
        """Return a started cluster. Raises :class:`HarnessError` for an unknown label."""
        if label not in self._clusters:
            raise HarnessError(f"There is no cluster {label}: {', '.join(self._clusters) or 'none'} are up.")
        return self._clusters[label]

    def link(self, source: str, target: str) -> Proxy:
        """Return the proxy of a link."""
        return self._links[self.cluster(source).label, self.cluster(target).label]

    def start(self) -> None:
        """Start all brokers at once, and register each cluster with the others.

        Raises:
            HarnessError: a broker does not start; the others are stopped.
        """
        try:
            for broker in self._brokers.values():
                self._open.callback(broker.stop)
            with ThreadPoolExecutor(len(self._brokers)) as pool:
                list(pool.map(lambda broker: broker.start(), self._brokers.values()))
            for label, broker in self._brokers.items():
                self._clusters[label] = self._met(label, broker)
            for source, target in permutations(self._clusters.values(), 2):
                self._links[source.label, target.label] = self._linked(source, target)
            for label in self._clusters:
                self._set_up(label)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop all links and brokers. Safe to call twice."""
        self._clusters.clear()
        self._links.clear()
        self._refusing.clear()
        self._holding.clear()
        self._open.close()

    def may_lose_data(self, label: str) -> bool:
        """Whether a cluster can come back empty."""
        return deployment_of(self._brokers[label]) is not None

    def start_empty(self, label: str) -> None:
        """Start a cluster again without its data, under its name; it is registered with the others as before."""
        deployment = deployment_of(self._brokers[label])
        if deployment is None:
            raise HarnessError(f"The broker {self._brokers[label].name} cannot come back empty.")
        deployment.start_empty()
        self._set_up(label)

    def create_namespace(self, name: str, among: Mapping[str, Sequence[str]] | None = None) -> str:
        """Create a namespace that is replicated between all clusters; returns its full name.

        ``among``: the clusters that have it, by label, each with the names of those to replicate it between.
        """
        namespace = f"{self.tenant}/{name}"
        for label, names in (among or dict.fromkeys(self.labels, self._names())).items():
            policies = NamespacePolicies(replication_clusters=tuple(names))
            self.cluster(label).admin.create_namespace(namespace, policies)
        return namespace

    def cut(self, source: str, target: str) -> None:
        """Cut a link until it is healed; replicators reconnect with a backoff."""
        if not self.is_cut(source, target):
            link = self.link(source, target)
            self._refusing[source, target] = link.inject(Refuse())
            link.cut()
            self.release(source, target)

    def hold(self, source: str, target: str, what: Held) -> None:
        """Hold the next message or receipt on a link, and everything after it, until it is released.

        If the link is cut before, the held frames are lost.
        """
        kind, direction = _HELD[what]
        armed = self.link(source, target).inject(HoldFrames(which=Which(kind=kind, direction=direction)))
        self._holding.setdefault((source, target), []).append(armed)

    def slow(self, source: str, target: str, delay_s: float) -> None:
        """Delay every message on a link until it is released."""
        fault = DelayFrames(which=Which(kind="SEND", direction="to-broker", count=None), delay_s=delay_s)
        self._holding.setdefault((source, target), []).append(self.link(source, target).inject(fault))

    def is_held(self, source: str, target: str) -> bool:
        """Whether a link holds or delays frames."""
        return (source, target) in self._holding

    def release(self, source: str, target: str) -> None:
        """End the holding and delaying on a link."""
        for armed in self._holding.pop((source, target), []):
            armed.lift()

    def is_cut(self, source: str, target: str) -> bool:
        return (source, target) in self._refusing

    def heal(self, source: str, target: str) -> None:
        """Heal a link, if it is cut."""
        refusing = self._refusing.pop((source, target), None)
        if refusing is not None:
            refusing.lift()

    def heal_all(self) -> None:
        for source, target in list(self._holding):
            self.release(source, target)
        for source, target in list(self._refusing):
            self.heal(source, target)

    def _names(self) -> tuple[str, ...]:
        return tuple(cluster.name for cluster in self._clusters.values())

    def _met(self, label: str, broker: Broker) -> RunningCluster:
        admin = self._open.enter_context(Admin(broker.addresses.admin))
        name = admin.runtime_configuration()["clusterName"]
        return RunningCluster(label=label, name=name, broker=broker, admin=admin)

    def _linked(self, source: RunningCluster, target: RunningCluster) -> Proxy:
        """A proxy in front of a cluster for one other: a standalone broker does not redirect its clients."""
        record = self._recorder(source.label, target.label) if self._recorder else (lambda _: None)
        host = source.broker.addresses.this_machine
        return self._open.enter_context(Proxy(target.broker.addresses.service, record=record, host=host))

    def _set_up(self, label: str) -> None:
        """Register the others with a new cluster, and create the tenant, and some topics that nobody uses."""
        cluster = self.cluster(label)
        for (source, target), link in self._links.items():
            if source == label:
                other = self.cluster(target)
                admin_url = other.broker.addresses.admin_url
                cluster.admin.create_cluster(other.name, admin_url=admin_url, service_url=link.url)
        cluster.admin.create_tenant(self.tenant, clusters=self._names())
        alone = self.create_namespace("ahead", {label: (cluster.name,)})
        for number in range(_TOPICS_AHEAD * LABELS.index(label)):
            cluster.admin.create_topic(f"persistent://{alone}/ahead-{number}")
