"""What the examples of one run share: broker, namespaces, failpoints, and a connection for reading.

A world creates fresh names and never cleans up. The run's place removes everything.
"""

from __future__ import annotations

import contextlib
import itertools
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from conformance.brokers.deployment import deployment_of
from conformance.brokers.interface import Broker, Capability
from conformance.clients.admin.client import Admin
from conformance.clients.driver.connect import versions
from conformance.clients.outcomes import NoAnswer, Receipt
from conformance.clients.security.service import Service
from conformance.clients.wire.client import WireClient
from conformance.clusters import FurtherClusters
from conformance.harness_error import HarnessError
from conformance.lockstep.answers import Answers, DidNotReturn, Ends
from conformance.lockstep.capabilities import Capabilities
from conformance.lockstep.clusters import ReplicatedPlace, ReplicationWorld
from conformance.lockstep.failpoints import Failpoints
from conformance.lockstep.namespaces import Namespaces
from conformance.lockstep.settings.dispatchers import Dispatchers, KeySharedImplementation
from conformance.lockstep.settings.in_force import completed, settings_in_force
from conformance.lockstep.settings.shown_fields import ShownFields
from conformance.lockstep.settings.traits import Traits, snapshot_schedule
from conformance.tenancy.cluster_settings import CLASSIC
from conformance.tenancy.ended_topics import EndedTopics
from conformance.tenancy.place import LanePlace, RunPlace
from conformance.wait import wait_until
from conformance.workers.protocol import read_report
from conformance.workers.starter import Starter
from model.cluster_operations import AWAY, HOME
from model.deduplication.policies import STATUS
from model.operations import Switch
from model.vocabulary import PERSISTED_PER_S, Persistence

CONNECT_TIMEOUT_S = 10.0
ALIVE_TIMEOUT_S = 30.0
"""How long a running broker may take to store a message."""
LEAST_FREE_BYTES = 20 * 1024 * 1024
"""With less free space on the disk, a failure is not the broker's fault."""
POLICY_TIMEOUT_S: Final = 10.0
"""How long a policy may take to appear in the topic's stats; far longer than ever measured."""
REPORTED_SETTINGS = (
    "acknowledgmentAtBatchIndexLevelEnabled",
    "brokerDeduplicationEnabled",
    "brokerDeduplicationEntriesInterval",
    "brokerDeduplicationMaxNumberOfProducers",
    "brokerDeduplicationSnapshotIntervalSeconds",
    "managedLedgerCursorPositionFlushSeconds",
    "managedLedgerDefaultMarkDeleteRateLimit",
    "managedLedgerMaxEntriesPerLedger",
    "managedLedgerMaxUnackedRangesToPersist",
    "managedLedgerMaxUnackedRangesToPersistInMetadataStore",
    "maxMessageSize",
    "statsUpdateFrequencyInSecs",
    CLASSIC,
)
"""The settings that are reported of a broker that the suite did not configure; others may be secrets."""


class World:
    """A started broker, ready for examples. Not for use by several threads at once."""

    def __init__(
        self,
        broker: Broker,
        *,
        place: RunPlace | LanePlace | ReplicatedPlace,
        on_start: Callable[[Broker], None] | None = None,
        service: Service | None = None,
        further: FurtherClusters | None = None,
        beside: ReplicationWorld | None = None,
    ) -> None:
        """``place`` is the run's on this broker, or the lane's. ``on_start`` runs after each restart of this broker,
        and after each start of a broker of other clusters.

        ``service``: the address for the clients of examples, if it is not the broker's. ``further``: the
        clusters to start on first use. ``beside``: the clusters that this broker is one of.
        """
        self.further: Final = further
        self._replication = beside
        self.is_home: Final = beside is not None
        """Whether topics are replicated to another cluster, and may have markers."""
        self._home: World | None = None
        self.ends_at: float | None = None
        """When the run ends, on the monotonic clock: waits of minutes end then. None where it may take its time."""
        self.broker = broker
        self._service = service
        self._on_start: Callable[[Broker], None] = on_start or (lambda _: None)
        self.answers = Answers({})
        """The unexpected answers of the current operation."""
        self._ends = Ends()
        self.is_storage_disturbed = False
        """Whether the current example disturbed the metadata store or a bookie, so that reads may have failed."""
        self.admin = Admin(broker.addresses.admin, on_error=lambda error: self.answers.on_admin_error(error))
        self.ended_topics: Final = EndedTopics(
            lambda: self.broker.addresses.admin,
            is_of_one_topic=lambda namespace: self.namespaces.is_of_one_topic(namespace),
        )
        self._place = place
        self.dispatchers: Final = Dispatchers(broker, lambda: place.tenant.namespace("off"))
        self._numbers = itertools.count(1)
        self._reader: WireClient | None = None
        self.starter = Starter("conformance.applications", read_report)
        self.failpoints = Failpoints(broker.load_agents) if Capability.DEFECTS in broker.capabilities else None
        self.clients = versions()
        self.runtime = settings_in_force(self.admin)
        self.assumes_settings = self.runtime is None
        self.namespaces: Final = Namespaces(
            self.admin,
            place.tenant,
            self.runtime or {},
            persisted_per_s=self.persisted_per_s,
            away=(lambda: self.replication.clusters.cluster(AWAY).admin) if self.is_home else None,
        )
        self.fields: Final = ShownFields(broker, self.admin, f"persistent://{place.tenant.namespace('off')}/fields")
        runtime = self._completed_settings()
        self._read_settings(runtime)
        if self.assumes_settings:
            self.broker_default = self._usual_default = self._is_deduplicated_by_default()
            self.namespaces.lift_limit(runtime)
        self.capabilities = Capabilities(self)

    @property
    def failed_reads_s(self) -> float:
        """How long dispatchers may wait because a read has failed; 0 where nothing explains that."""
        return self._read_retry_s if self.is_storage_disturbed else 0.0

    def _completed_settings(self) -> Mapping[str, str]:
        at, topic = self.broker.addresses.service, self.fields.topic
        return completed(self.runtime, self.admin, at, topic, shows_draining=self.fields.show_draining)

    def _read_settings(self, runtime: Mapping[str, str]) -> None:
        """Read the settings that operations depend on."""
        self.settings = dict(self.broker.configuration) or {
            name: runtime[name] for name in REPORTED_SETTINGS if name in runtime
        }
        """The reported settings: known deviations depend on them, and a replay can have the same."""
        self.snapshot_room = int(runtime.get("brokerDeduplicationMaxNumberOfProducers", "10000"))
        self.ledger_room = int(runtime.get("managedLedgerMaxEntriesPerLedger", "50000"))
        self.traits = Traits.of(runtime)
        self.snapshots = snapshot_schedule(runtime)
        self.flush_interval_s = float(runtime.get("managedLedgerCursorPositionFlushSeconds", "60"))
        self.stored_ranges = int(runtime.get("managedLedgerMaxUnackedRangesToPersistInMetadataStore", "1000"))
        self.persisted_ranges = int(runtime.get("managedLedgerMaxUnackedRangesToPersist", "10000"))
        self.max_message_bytes = int(runtime.get("maxMessageSize", "5242880"))
        self._read_retry_s = float(runtime.get("dispatcherReadFailureBackoffInitialTimeInMs", "15000")) / 1000
        self.stats_period_s = float(runtime.get("statsUpdateFrequencyInSecs", "60"))
        self.key_shared = KeySharedImplementation(
            self.admin,
            self._place.settings,
            shows_draining=self.fields.show_draining,
            has_switch=CLASSIC in (self.runtime or ()) and self.dispatchers.are_of_one_release,
            is_classic=runtime.get(CLASSIC) == "true",
        )
        self._shipped_persisted_per_s = float(runtime.get("managedLedgerDefaultMarkDeleteRateLimit", "1.0"))
        self.broker_default = self._usual_default = runtime.get("brokerDeduplicationEnabled", "false") == "true"

    def _is_deduplicated_by_default(self) -> bool:
        """Whether the broker deduplicates topics without a policy, according to a topic's stats."""
        topic = f"persistent://{self.namespaces.of_switch('broker')}/alive"
        self.admin.create_topic(topic)
        return self.admin.stats(topic).is_deduplicated is True

    @property
    def can_fail_power(self) -> bool:
        """Whether the power of its bookies can fail."""
        return Capability.POWER_FAILURE in self.broker.capabilities

    @property
    def can_change_release(self) -> bool:
        """Whether its brokers can be restarted with another release."""
        deployment = deployment_of(self.broker)
        return deployment is not None and deployment.two_releases is not None

    def has_admin_request(self, path: str) -> bool:
        """Whether the broker has a request of the admin API, by its path below the topic's."""
        return self.fields.has_admin_request(path)

    def has_stats_field(self, part: str, name: str) -> bool:
        """Whether the stats of each of a topic's publishers or subscriptions have this field."""
        return self.fields.has_stats_field(part, name)

    def has_entry_header(self, name: str) -> bool:
        """Whether the admin API shows this field of an entry's metadata."""
        return self.fields.has_entry_header(name)

    def fresh(self) -> int:
        """A new number."""
        return next(self._numbers)

    def persisted_per_s(self, persistence: Persistence) -> float | None:
        """How often per second a cursor may be persisted on this broker; None: with every ack."""
        return self._shipped_persisted_per_s if persistence == "shipped" else PERSISTED_PER_S[persistence]

    def is_on(self, switch: Switch) -> bool:
        """Whether deduplication should be on for a topic with this switch."""
        return self.broker_default if switch == "broker" else switch.endswith("-on")

    @property
    def has_clusters(self) -> bool:
        """Whether the further clusters are started."""
        return self._replication is not None

    @property
    def replication(self) -> ReplicationWorld:
        """Three clusters of the same kind of broker, started on first use."""
        if self._replication is None:
            if self.further is None:
                raise HarnessError("this broker is one cluster only, and there are no others")
            self._replication = ReplicationWorld(
                self.further.making(),
                tenant=self._place.tenant.tenant,
                on_start=self._on_start,
                is_time_up=lambda: self.ends_at is not None and time.monotonic() >= self.ends_at,
            )
        return self._replication

    @property
    def home(self) -> World:
        """The first of the clusters, as the world of topics that are replicated to the second one."""
        if self._home is None:
            clusters = self.replication.clusters
            self._home = World(
                clusters.cluster(HOME).broker,
                place=ReplicatedPlace(clusters, self._place.tenant.name),
                on_start=self._on_start,
                beside=self.replication,
            )
        return self._home

    def await_replicators(self, topics: Iterable[str]) -> None:
        """At home, wait until new topics are replicated. Raises ``LateToReturn``."""
        for topic in topics if self.is_home else ():
            self.replication.await_connected(((HOME, AWAY), (AWAY, HOME)), topic)

    @property
    def reader(self) -> WireClient:
        """A connection for reading logs, shared by all examples and opened again after a restart."""
        if self._reader is None:
            self._reader = WireClient.connect(self.broker.addresses.service, timeout_s=CONNECT_TIMEOUT_S)
        return self._reader

    def restart(self, *, deduplication: bool) -> None:
        """Restart the broker with deduplication on or off by default; :meth:`restore_default` undoes it."""
        self.broker_default = deduplication  # also of the next start, if this one fails
        self.broker.restart({"brokerDeduplicationEnabled": str(deduplication).lower()})

    def kill(self, *, power_fails: bool) -> None:
        """Kill the broker, if the power fails with its bookies, and start it again."""
        self.broker.kill()
        deployment = deployment_of(self.broker)
        if power_fails and deployment is not None:  # where lanes share the broker, the engine does it for all of them
            deployment.fail_power()
        self.broker.start()

    def spread(self, topic: str, *, beside: Collection[str]) -> None:
        """Choose the owner of an example's first topic; those ``beside`` it may share its namespace, which stays."""
        if not beside:
            self.dispatchers.spread(topic, self.admin)

    def shows_topic_policy(self, name: str, *, on: bool) -> bool:
        """Whether the broker has loaded a topic's policy of deduplication, before the bound has passed.

        The topic's status does not show it if the namespace's policy is the same. A later switch must not overtake it.
        """
        return wait_until(lambda: self.admin.topic_deduplication(name) is on, POLICY_TIMEOUT_S)

    def status_when_switched(self, name: str, *, on: bool) -> str:
        """The topic's deduplicationStatus, once it is as it should be or the bound has passed."""

        if wait_until(lambda: self.admin.stats(name).deduplication_status == STATUS[on], POLICY_TIMEOUT_S):
            return STATUS[on]
        self.assert_alive()
        return str(self.admin.stats(name).deduplication_status)

    def restore_default(self) -> None:
        """Undo the settings of earlier examples, with a restart if necessary."""
        self.key_shared.restore()
        if self.broker_default != self._usual_default:
            self.restart(deduplication=self._usual_default)
            self.broker_came_back()

    @property
    def service(self) -> Service:
        """The address for the clients of examples, without frozen brokers."""
        return self._service or self.broker.addresses.service

    @service.setter
    def service(self, service: Service | None) -> None:
        self._service = service

    def look_elsewhere(self) -> None:
        """Use the brokers that are not frozen from now on."""
        self.forget_reader()
        self.admin.ask_at(self.broker.addresses.admin)

    def broker_came_back(self, which: Broker | None = None) -> None:
        """The broker, or one of its brokers, was restarted: prepare the new process as the old one was."""
        self.forget_connections()
        self._ends = Ends()
        self._on_start(which or self.broker)

    def bookie_came_back(self) -> None:
        """A bookie of the broker was started again: prepare the new process as the old one was."""
        self._on_start(self.broker)

    def forget_connections(self) -> None:
        """Drop the connections and failpoints of a former process."""
        if self.failpoints is not None:
            self.failpoints.forget()
        self.forget_reader()

    def forget_reader(self) -> None:
        """Close the connection for reading logs."""
        if self._reader is not None:
            self._reader.abort()
            self._reader = None

    def assert_alive(self) -> None:
        """Find out why an operation had no effect.

        Raises :class:`HarnessError` if the broker's process is gone or the disk is full: that is no evidence of a rule.
        Raises :class:`NoAnswer` if the broker runs and stores no message, which is evidence.
        """
        self.assert_carried()
        try:
            self._store_message()
        except HarnessError as harness_error:
            raise NoAnswer(f"the broker does not store messages any more: {harness_error}") from harness_error

    def carried(self, error: HarnessError) -> HarnessError:
        """This error of the broker, or that it ended by itself. Raises HarnessError as :meth:`assert_carried`."""
        ended = self._ends.told(self.broker)
        self.assert_carried(is_gone=ended is not None or isinstance(error, DidNotReturn))
        return ended or error

    def assert_carried(self, *, is_gone: bool = False) -> None:
        """Raise HarnessError if the broker's process is gone or the disk is full. ``is_gone``: it is known to be."""
        if not is_gone and not self.broker.is_alive():
            raise HarnessError("the broker is gone")
        if not is_gone and self._replication is not None and (gone := self._replication.gone()):
            raise HarnessError(f"the broker of cluster {gone[0]} is gone")
        if shutil.disk_usage(tempfile.gettempdir()).free < LEAST_FREE_BYTES:
            raise HarnessError("the disk is full")

    def is_serving(self) -> bool:
        """Whether the broker runs and stores a message."""
        try:
            self.assert_alive()
        except HarnessError:
            return False
        return True

    def start_again(self) -> None:
        """End a broker that does not serve, and start it on its data. Raises HarnessError if that fails.

        If a broker of further clusters is gone, all of them end. New ones start when they are needed.
        """
        if self._replication is not None and not self.is_home and self._replication.gone():
            self._end_clusters()
            if self.is_serving():
                return
        able = self.broker.capabilities
        if Capability.KILL in able:
            with contextlib.suppress(HarnessError):  # it has ended already
                self.broker.kill()
            self.broker.start()
        elif Capability.RESTART in able:
            self.broker.restart()
        else:
            raise HarnessError("it is not the suite's to start")
        self.broker_came_back()

    def _store_message(self) -> None:
        """Store a message in a topic of the run; the broker's own health check uses another tenant."""
        client = WireClient.connect(self.broker.addresses.service, timeout_s=ALIVE_TIMEOUT_S)
        try:
            topic = f"persistent://{self.namespaces.of_switch('namespace-off')}/alive"
            producer = client.open_producer(topic, name=None, timeout_s=ALIVE_TIMEOUT_S)
            outcome = producer.answer(producer.send(1, b"alive"), timeout_s=ALIVE_TIMEOUT_S)
            if not isinstance(outcome, Receipt):
                raise HarnessError(str(outcome))
        finally:
            client.abort()

    def _end_clusters(self) -> None:
        if self._home is not None:
            self._home.close()
            self._home = None
        if self._replication is not None and not self.is_home:
            self._replication.close()
            self._replication = None

    def close(self) -> None:
        """Close the world's own connections."""
        self.forget_connections()
        self._end_clusters()
        self.starter.close()
        self.ended_topics.close()
        self.admin.close()
