"""One soak, from the broker's start to the last event of its history.

Load and faults; then nothing disturbs any more and everything must be delivered; then logs and cursors are read back.
It judges nothing: that is for ``verify``, over the history. What can be seen at once is counted and shown.
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
from conformance.history.compacting import compact
from conformance.history.recorded import Kind
from conformance.history.recording import Recording, now_ns
from conformance.reading_back import first_ledger_of, read_back, read_passed_on
from conformance.soak import plan as planning
from conformance.soak.asked import Asked, Result, Stage, State, Watcher
from conformance.soak.clients import Clients
from conformance.soak.disturbing import Disturbing, possible_on
from conformance.soak.healing import Healing
from conformance.soak.looking import EVERY_S, EVERY_S_OF_CLUSTERS, Looking
from conformance.soak.plan import TopicPlan
from conformance.soak.sites import Site, Systems
from conformance.soak.subscribing import Subscribing
from conformance.soak.words import FaultName
from conformance.wait import wait_until

READY_TIMEOUT_S: Final = 120.0
CONNECT_TIMEOUT_S: Final = 30.0
TICK_S: Final = 0.2


def soak(asked: Asked, watcher: Watcher) -> Result:
    """Run a soak; its history is in ``asked.history``.

    Raises:
        HarnessError: broker or clients did not do their part. What was recorded until then can be read.
    """
    with contextlib.ExitStack() as stack:
        return _Soak(asked, watcher, Systems(asked, stack), stack).run()


class _Soak:
    """A soak on started brokers."""

    def __init__(self, asked: Asked, watcher: Watcher, systems: Systems, stack: contextlib.ExitStack) -> None:
        self._asked = asked
        self._watcher = watcher
        self._systems = systems
        self._began_s = time.monotonic()
        self._stage = Stage.STARTING
        self._first_ledgers: dict[tuple[str, str], int | None] = {}
        run = f"soak-{asked.seed:x}-{int(time.time()):x}"
        broker = next(iter(systems.brokers.values()))
        about = About(release=broker.version, clients=client_versions(), settings=dict(broker.configuration))

        def recording(label: str) -> Recording:
            made = Recording(asked.history, run=run, lane="soak", cluster=label, about=about)
            stack.callback(made.close)
            return made

        self._release = broker.version
        self._sites = systems.sites(recording, stack)
        self._topics = self._set_up()
        later = planning.later(self._topics, seed=asked.seed, length_s=asked.length_s)
        plans = planning.clients(
            self._topics,
            later,
            asked.clients,
            run=run,
            history=str(asked.history),
            about=about,
            services={site.label: site.service for site in self._sites},
            rate=asked.rate,
            seed=asked.seed,
        )
        self._clients = Clients(plans, _made(asked.history / "logs"))
        stack.callback(self._clients.end)
        self._disturbing = Disturbing(
            self._sites,
            systems.clusters,
            self._clients,
            self._topics,
            planning.faults(asked.seed, every_s=asked.fault_every_s, possible=self._possible(broker)),
            on_start=systems.give_defects,
        )
        stack.callback(self._disturbing.abandon)
        self._subscribing = Subscribing(self._sites, self._clients, later, self._disturbing.whereabouts)
        every_s = EVERY_S if systems.clusters is None else EVERY_S_OF_CLUSTERS
        self._looking = [Looking(site, self._topics, every_s=every_s) for site in self._sites]
        for one in self._looking:
            stack.callback(one.stop)
        self._healing = Healing(self._sites, self._clients, self._topics, self._disturbing.whereabouts)

    def run(self) -> Result:
        """Go through all stages."""
        self._await_clients()
        seconds = self._load()
        self._stage = Stage.HEALING
        self._clients.heal()
        healed = self._healing.until_through(self._tick)
        self._stage = Stage.READING_BACK
        logged = self._read_back()
        self._clients.end()
        for site in self._sites:
            site.recording.close()
        self._stage = Stage.COMPACTING
        self._tick()
        compact(self._asked.history)
        self._stage = Stage.OVER
        self._tick()
        counts = self._clients.counts
        return Result(
            release=self._release,
            seconds=seconds,
            counts=counts,
            events=counts.events + sum(site.recording.events for site in self._sites),
            faults=dict(self._disturbing.counted),
            healed=healed,
            logged=logged,
        )

    def _set_up(self) -> tuple[TopicPlan, ...]:
        """Make namespaces, topics and subscriptions, and record how they begin."""
        namespace_of = {is_on: self._systems.create_namespace("on" if is_on else "off") for is_on in (True, False)}
        for site in self._sites:
            for is_on, namespace in namespace_of.items():
                site.admin.set_retention(namespace)  # or what all have acknowledged would be missing in the logs
                site.admin.set_namespace_deduplication(namespace, is_on)
        labels = tuple(site.label for site in self._sites)
        topics = planning.topics(namespace_of, self._asked.topics, labels)
        for topic in topics:
            for site in self._sites:
                self._make(topic, site)
        for site in self._sites:
            site.recording.flush()
        return topics

    def _make(self, topic: TopicPlan, site: Site) -> None:
        """Make a topic and the subscriptions that begin there."""
        begun_ns = now_ns()
        site.admin.ensure_topic(topic.name)
        setup = {"deduplication": topic.is_deduplicated, "replicated": topic.replicated is not None}
        site.recording.record(Kind.TOPIC, topic=topic.name, invoked_ns=begun_ns, **setup)
        for name, type_ in topic.subscriptions:
            if site.label in topic.clusters_of(name):
                is_replicated = name == topic.replicated
                site.admin.create_subscription(topic.name, name, earliest=True, replicated=is_replicated)
                site.begin(topic.name, name, type_, is_replicated=is_replicated)
        first = first_ledger_of(site.admin.internal_stats(topic.name))
        self._first_ledgers[site.label, topic.name] = first

    def _possible(self, broker: Broker) -> frozenset[FaultName]:
        possible = possible_on(broker, clusters=len(self._sites))
        return possible if self._asked.faults is None else possible & self._asked.faults

    def _await_clients(self) -> None:
        def are_ready() -> bool:
            self._tick()
            return self._clients.are_ready

        if not wait_until(are_ready, READY_TIMEOUT_S, pause_s=TICK_S):
            raise HarnessError(f"the clients could not open everything within {READY_TIMEOUT_S:g} s")

    def _load(self) -> float:
        """Let clients and faults do what they do; returns the seconds that it took."""
        self._stage = Stage.LOAD
        self._began_s = time.monotonic()
        self._disturbing.start()
        for one in self._looking:
            one.start()
        while self._elapsed_s < self._asked.length_s and not self._watcher.wants_end:
            self._tick()
            self._disturbing.check()
            self._subscribing.make_due(self._elapsed_s)
            time.sleep(TICK_S)
        self._disturbing.stop()
        for one in self._looking:
            one.stop()
        return self._elapsed_s

    def _read_back(self) -> int:
        for site, topic in product(self._sites, self._topics):  # before any log, so that each has what others passed on
            read_passed_on(site.recording, site.admin, topic.name)
        return sum(self._read_back_at(site) for site in self._sites)

    def _read_back_at(self, site: Site) -> int:
        logged = 0
        client = WireClient.connect(site.broker.addresses.service, timeout_s=CONNECT_TIMEOUT_S)
        labels = self._systems.labels_by_name
        try:
            for topic in self._topics:
                self._tick()
                first = self._first_ledgers[site.label, topic.name]
                logged += read_back(site.recording, client, site.admin, topic.name, first_ledger=first, labels=labels)
        finally:
            client.abort()
        return logged

    @property
    def _elapsed_s(self) -> float:
        return time.monotonic() - self._began_s

    def _tick(self) -> None:
        self._clients.check()
        self._watcher.show(
            State(
                stage=self._stage,
                elapsed_s=self._elapsed_s,
                length_s=self._asked.length_s,
                counts=self._clients.counts,
                faults=dict(self._disturbing.counted),
                fault=self._disturbing.current,
                left=self._healing.left,
            )
        )


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder
