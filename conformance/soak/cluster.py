"""The clusters of a soak: one, or two or three that replicate to one another, each with its recording."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from conformance.brokers.interface import Broker, Capability
from conformance.brokers.select import parse_broker
from conformance.clients.admin.client import Admin
from conformance.clients.admin.http import AdminError
from conformance.clients.outcomes import ConnectionLost, NoAnswer
from conformance.clients.security.service import Service
from conformance.clients.wire.consumer import Kind as Type
from conformance.clusters import Clusters
from conformance.faults import catalogue
from conformance.faults.seeded_defect import SeededDefect, seed_defect
from conformance.harness_error import HarnessError
from conformance.history.lane_recorder import LaneRecorder, now_ns
from conformance.history.recorded import FIRST_OF_ALL, Kind
from conformance.soak.request import SoakRequest
from conformance.tenancy.place import RunPlace
from conformance.topic_reader import read_cursors
from model.cluster_operations import LABELS

ALONE: Final = ""
"""The label of the only cluster."""

UNANSWERED: Final = (AdminError, ConnectionLost, NoAnswer)
"""What is raised while a broker is away, or a topic is being loaded."""

SETTINGS: Final = {
    "managedLedgerMaxEntriesPerLedger": "2000",
    "managedLedgerMaxUnackedRangesToPersistInMetadataStore": "1000",
    "managedLedgerDefaultMarkDeleteRateLimit": "1.0",
    "managedLedgerCursorPositionFlushSeconds": "2",
    "brokerDeduplicationEntriesInterval": "500",
    "brokerDeduplicationSnapshotIntervalSeconds": "5",
}
"""Further settings of a soak's broker: ledgers and snapshots for many messages, and acks that are persisted soon, so
that a kill undoes little (``pipeline.persisting``)."""

SETTINGS_OF_CLUSTERS: Final = {
    "enableReplicatedSubscriptions": "true",
    "replicatedSubscriptionsSnapshotTimeoutSeconds": "5",
    "brokerClient_keepAliveIntervalSeconds": "5",
}
"""And these where there are several: a snapshot a second, as shipped, times out soon; a hung peer is noticed soon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SoakCluster:
    """One cluster: its label in the history, its broker, and the soak's own recording."""

    label: str
    broker: Broker
    service: Service
    """What clients, or their proxies, connect to."""
    admin: Admin
    recording: LaneRecorder

    def begin(self, topic: str, name: str, type_: Type, *, is_replicated: bool) -> None:
        """Record that a subscription begins at its topic's beginning."""
        ledger, entry = FIRST_OF_ALL
        fields: dict[str, Any] = {"topic": topic, "subscription": name, "subscription_type": type_}
        fields |= {"replicated": is_replicated, "ledger": ledger, "entry": entry}
        self.recording.record(Kind.BEGIN, invoked_ns=now_ns(), **fields)

    def read_cursors(self, topic: str) -> None:
        """Record how far the subscriptions of a topic are, if that can be asked just now."""
        with contextlib.suppress(*UNANSWERED):
            for _ in read_cursors(self.recording, self.admin, topic):
                pass


class SoakClusters:
    """The started brokers of a soak, with the requested defects."""

    def __init__(self, request: SoakRequest, stack: contextlib.ExitStack) -> None:
        """Start all of them; ``stack`` ends them. Raises :class:`HarnessError` where one does not start."""
        own = {name: value for defect in request.defects for name, value in catalogue.find(defect).settings}
        several = SETTINGS_OF_CLUSTERS if request.clusters > 1 else {}
        settings = {**SETTINGS, **several, **own, **dict(request.settings)}
        brokers = [
            parse_broker(request.broker, settings=settings, security=request.security) for _ in range(request.clusters)
        ]
        self.clusters: Final = _clusters(brokers) if request.clusters > 1 else None
        if self.clusters is None:
            stack.callback(brokers[0].stop)
            brokers[0].start()
            self._place = stack.enter_context(RunPlace(brokers[0], request.footprint))
        else:
            stack.enter_context(self.clusters)
        self.brokers: Final[Mapping[str, Broker]] = dict(
            zip([ALONE] if self.clusters is None else LABELS, brokers, strict=False)
        )
        self._seeded: list[SeededDefect] = []
        for name in request.defects:
            seeded = seed_defect(brokers[0], name)
            assert seeded is not None
            stack.callback(seeded.close)
            self._seeded.append(seeded)
            for broker in brokers[1:]:
                seeded.give(broker)

    def each(self, recording: Callable[[str], LaneRecorder], stack: contextlib.ExitStack) -> tuple[SoakCluster, ...]:
        """Each cluster, with a recording for its label."""
        return tuple(
            SoakCluster(
                label=label,
                broker=broker,
                service=self._service(number, broker),
                admin=stack.enter_context(Admin(broker.addresses.admin)),
                recording=recording(label),
            )
            for number, (label, broker) in enumerate(self.brokers.items())
        )

    def give_defects(self, broker: Broker) -> None:
        """Switch the defects on in a broker that was restarted."""
        for one in self._seeded:
            one.give(broker)

    @property
    def labels_by_name(self) -> Mapping[str, str]:
        """The labels of the history by the clusters' own names."""
        if self.clusters is None:
            return {}
        return {self.clusters.cluster(label).name: label for label in self.clusters.labels}

    def create_namespace(self, name: str) -> str:
        """Create a namespace, replicated among all clusters; returns its full name."""
        if self.clusters is not None:
            return self.clusters.create_namespace(name)
        return self._place.tenant.create_namespace(name)

    def _service(self, number: int, broker: Broker) -> Service:
        """What clients connect to: a defect of the wire is in front of the first broker."""
        on_the_wire = [one.service for one in self._seeded if one.service is not None]
        return on_the_wire[-1] if on_the_wire and number == 0 else broker.addresses.service


def _clusters(brokers: Sequence[Broker]) -> Clusters:
    if any(Capability.CLUSTERS not in broker.capabilities for broker in brokers):
        raise HarnessError(f"{brokers[0].name} cannot be started several times, which a soak of clusters needs")
    return Clusters(brokers)
