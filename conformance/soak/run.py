"""One soak, from the broker's start to the last event of its history.

Load and faults; then the quiesce phase, in which everything must be delivered; then logs and cursors are read back.
It judges nothing: ``verify`` judges the history. What can be seen at once is counted and displayed.
"""

from __future__ import annotations

import contextlib
import time
from itertools import product
from pathlib import Path
from typing import Final

from conformance.brokers.interface import Broker
from conformance.clients.versions import client_versions
from conformance.clients.wire.client import WireClient
from conformance.harness_error import HarnessError
from conformance.history.about import About
from conformance.history.compaction import compact
from conformance.history.counts import counts_of
from conformance.history.lane_recorder import LaneRecorder, now_ns
from conformance.history.recorded import Kind
from conformance.soak import plan as planning
from conformance.soak.cluster import SoakCluster, SoakClusters
from conformance.soak.cursor_sampler import EVERY_S, EVERY_S_OF_CLUSTERS, CursorSampler
from conformance.soak.faults import FaultInjector, possible_on
from conformance.soak.late_subscriptions import LateSubscriptions
from conformance.soak.plan import FaultName, TopicPlan
from conformance.soak.quiesce import QuiescePhase
from conformance.soak.request import SoakProgress, SoakRequest, SoakResult, SoakStage, SoakWatcher
from conformance.soak.workers import Clients
from conformance.topic_reader import first_ledger_of, read_back, read_passed_on
from conformance.wait import wait_until
from conformance.workers.protocol import QuiesceOrder

READY_TIMEOUT_S: Final = 120.0
CONNECT_TIMEOUT_S: Final = 30.0
TICK_S: Final = 0.2


def soak(request: SoakRequest, watcher: SoakWatcher) -> SoakResult:
    """Run a soak; its history is in ``request.history``.

    Raises:
        HarnessError: a broker or a client failed. What was recorded until then can be read.
    """
    with contextlib.ExitStack() as stack:
        return _Soak(request, watcher, SoakClusters(request, stack), stack).run()


class _Soak:
    """A soak on started brokers."""

    def __init__(
        self, request: SoakRequest, watcher: SoakWatcher, started: SoakClusters, stack: contextlib.ExitStack
    ) -> None:
        self._request = request
        self._watcher = watcher
        self._started = started
        self._began_s = time.monotonic()
        self._stage = SoakStage.STARTING
        self._first_ledgers: dict[tuple[str, str], int | None] = {}
        run = f"soak-{request.seed:x}-{int(time.time()):x}"
        broker = next(iter(started.brokers.values()))
        about = About(release=broker.version, clients=client_versions(), settings=dict(broker.configuration))

        def recording(label: str) -> LaneRecorder:
            made = LaneRecorder(request.history, run=run, lane="soak", cluster=label, about=about)
            stack.callback(made.close)
            return made

        self._release = broker.version
        self._clusters = started.each(recording, stack)
        self._topics = self._set_up()
        later = planning.later(self._topics, seed=request.seed, length_s=request.length_s)
        plans = planning.clients(
            self._topics,
            later,
            request.clients,
            run=run,
            history=str(request.history),
            about=about,
            services={one.label: one.service for one in self._clusters},
            rate=request.rate,
            seed=request.seed,
        )
        self._clients = Clients(plans, _made(request.history / "logs"))
        stack.callback(self._clients.end)
        self._faults = FaultInjector(
            self._clusters,
            started.clusters,
            self._clients,
            self._topics,
            planning.faults(request.seed, every_s=request.fault_every_s, possible=self._possible(broker)),
            on_start=started.give_defects,
        )
        stack.callback(self._faults.abandon)
        self._late = LateSubscriptions(self._clusters, self._clients, later, self._faults.homes)
        every_s = EVERY_S if started.clusters is None else EVERY_S_OF_CLUSTERS
        self._samplers = [CursorSampler(one, self._topics, every_s=every_s) for one in self._clusters]
        for one in self._samplers:
            stack.callback(one.stop)
        self._quiesce = QuiescePhase(self._clusters, self._clients, self._topics, self._faults.homes)

    def run(self) -> SoakResult:
        """Go through all phases."""
        self._await_clients()
        seconds = self._load()
        self._stage = SoakStage.QUIESCE
        self._clients.send(QuiesceOrder())
        quiesced = self._quiesce.run(self._tick)
        self._stage = SoakStage.READING_BACK
        logged = self._read_back()
        self._clients.end()
        for cluster in self._clusters:
            cluster.recording.close()
        self._stage = SoakStage.COMPACTING
        self._tick()
        compact(self._request.history)
        self._stage = SoakStage.OVER
        self._tick()
        counts, recorded = self._clients.counts, counts_of(self._request.history)
        failovers = {name: number for name, number in self._faults.counted.items() if name == "failover"}
        return SoakResult(
            release=self._release,
            seconds=seconds,
            counts=counts,
            events=recorded.events,
            faults={**recorded.faults, **failovers},  # consumers that fail over are no fault of a broker
            quiesced=quiesced,
            logged=logged,
        )

    def _set_up(self) -> tuple[TopicPlan, ...]:
        """Create namespaces, topics and subscriptions, and record how they begin."""
        namespace_of = {is_on: self._started.create_namespace("on" if is_on else "off") for is_on in (True, False)}
        for cluster in self._clusters:
            for is_on, namespace in namespace_of.items():
                cluster.admin.set_retention(namespace)  # or what all have acknowledged would be missing in the logs
                cluster.admin.set_namespace_deduplication(namespace, is_on)
        labels = tuple(cluster.label for cluster in self._clusters)
        topics = planning.topics(namespace_of, self._request.topics, labels)
        for topic in topics:
            for cluster in self._clusters:
                self._make(topic, cluster)
        for cluster in self._clusters:
            cluster.recording.flush()
        return topics

    def _make(self, topic: TopicPlan, cluster: SoakCluster) -> None:
        """Create a topic and the subscriptions that begin there."""
        begun_ns = now_ns()
        cluster.admin.ensure_topic(topic.name)
        setup = {"deduplication": topic.is_deduplicated, "replicated": topic.replicated is not None}
        cluster.recording.record(Kind.TOPIC, topic=topic.name, invoked_ns=begun_ns, **setup)
        for name, type_ in topic.subscriptions:
            if cluster.label in topic.clusters_of(name):
                is_replicated = name == topic.replicated
                cluster.admin.create_subscription(topic.name, name, earliest=True, replicated=is_replicated)
                cluster.begin(topic.name, name, type_, is_replicated=is_replicated)
        first = first_ledger_of(cluster.admin.internal_stats(topic.name))
        self._first_ledgers[cluster.label, topic.name] = first

    def _possible(self, broker: Broker) -> frozenset[FaultName]:
        possible = possible_on(broker, clusters=len(self._clusters))
        return possible if self._request.faults is None else possible & self._request.faults

    def _await_clients(self) -> None:
        def are_ready() -> bool:
            self._tick()
            return self._clients.are_ready

        if not wait_until(are_ready, READY_TIMEOUT_S, pause_s=TICK_S):
            raise HarnessError(f"the clients could not open everything within {READY_TIMEOUT_S:g} s")

    def _load(self) -> float:
        """The phase of load and faults; returns its seconds."""
        self._stage = SoakStage.LOAD
        self._began_s = time.monotonic()
        self._faults.start()
        for one in self._samplers:
            one.start()

        def is_ended() -> bool:
            self._tick()
            self._faults.check()
            self._late.create_due(self._elapsed_s)
            return self._watcher.wants_end

        wait_until(is_ended, self._request.length_s, pause_s=TICK_S)
        self._faults.stop()
        for one in self._samplers:
            one.stop()
        return self._elapsed_s

    def _read_back(self) -> int:
        # Before any log, so that each has what the others replicated.
        for cluster, topic in product(self._clusters, self._topics):
            read_passed_on(cluster.recording, cluster.admin, topic.name)
        return sum(self._read_back_at(cluster) for cluster in self._clusters)

    def _read_back_at(self, cluster: SoakCluster) -> int:
        logged = 0
        client = WireClient.connect(cluster.broker.addresses.service, timeout_s=CONNECT_TIMEOUT_S)
        labels = self._started.labels_by_name
        try:
            for topic in self._topics:
                self._tick()
                first = self._first_ledgers[cluster.label, topic.name]
                logged += read_back(
                    cluster.recording, client, cluster.admin, topic.name, first_ledger=first, labels=labels
                )
        finally:
            client.abort()
        return logged

    @property
    def _elapsed_s(self) -> float:
        return time.monotonic() - self._began_s

    def _tick(self) -> None:
        self._clients.check()
        self._watcher.show(
            SoakProgress(
                stage=self._stage,
                elapsed_s=self._elapsed_s,
                length_s=self._request.length_s,
                counts=self._clients.counts,
                faults=dict(self._faults.counted),
                fault=self._faults.current,
                left=self._quiesce.left,
            )
        )


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder
