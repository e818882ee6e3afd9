"""A deployment of a release on this machine: a ZooKeeper, bookies and brokers, a process each.

A broker is killed, frozen and restarted by itself; the others stay up until all is stopped. What a rule means is none
of its business, and neither is what runs inside a broker: switching defects on is up to ``conformance.faults``, which
talks to the agent.
"""

from __future__ import annotations

import itertools
import signal
import threading
from collections.abc import Mapping
from typing import Final

from conformance.brokers.interface import Addresses, AgentAddress, Capability
from conformance.brokers.launching.agent import ATTACHABLE
from conformance.brokers.launching.ports import HOST
from conformance.brokers.obtaining.java import find_java
from conformance.brokers.processes.broker import BrokerProcess
from conformance.brokers.processes.members import Members
from conformance.brokers.processes.preparation import Preparation
from conformance.brokers.release import Release
from conformance.brokers.settings import Base, suite_settings
from conformance.brokers.settings.known import known_settings
from conformance.harness_error import HarnessError


class _ClusterNames:
    """Names for the clusters that run in this process: as few as there are at once, as each has metadata of its own."""

    def __init__(self) -> None:
        self._in_use: set[str] = set()
        self._lock = threading.Lock()

    def take(self) -> str:
        with self._lock:
            numbered = (f"conformance-{number}" for number in itertools.count(1))
            name = next(name for name in numbered if name not in self._in_use)
            self._in_use.add(name)
            return name

    def give_back(self, name: str) -> None:
        with self._lock:
            self._in_use.discard(name)


_NAMES: Final = _ClusterNames()


class Deployment:
    """A ZooKeeper, bookies and brokers of an unpacked distribution.

    ``settings`` go on top of a base of :mod:`conformance.brokers.settings`, by their names in ``broker.conf`` and
    ``bookkeeper.conf``. ``with_agent`` says whether brokers can be given Byteman, which defects and failpoints need.
    """

    def __init__(
        self,
        release: Release,
        *,
        name: str | None = None,
        settings: Mapping[str, str] | None = None,
        base: Base = "quick",
        with_agent: bool = True,
        brokers: int = 1,
        bookies: int = 1,
    ) -> None:
        """Nothing is started yet."""
        self.name: Final = name or release.version
        self.release: Final = release
        self.settings: Final = suite_settings(settings or {}, base)
        self.with_agent: Final = with_agent
        self.brokers: Final = tuple(DeploymentBroker(self, number) for number in range(brokers))
        self.changed: Mapping[str, str] = {}
        """Settings of brokers and bookies that were restarted, on top."""
        self.cluster: str | None = None
        self._bookies: Final = bookies
        self._members: Members | None = None
        self._settings_of_bookies: Mapping[str, str] | None = None

    @property
    def members(self) -> Members:
        """Its processes, from its start until it is stopped. HarnessError before that."""
        if self._members is None:
            raise HarnessError(f"The broker {self.name} has not been started.")
        return self._members

    @property
    def is_started(self) -> bool:
        """Whether it has processes."""
        return self._members is not None

    def prepare(self) -> Preparation:
        """Make what is made once for a release, so that no run waits for it.

        Raises:
            HarnessError: there is no Java, or the metadata of a cluster cannot be made.
        """
        preparation = Preparation(self.release, find_java())
        preparation.make()
        return preparation

    def start(self) -> None:
        """Start all processes, and wait until all brokers are ready.

        Raises:
            HarnessError: a process ended, or was not ready in time: then the message has the end of its log, and
                nothing of the deployment is left.
        """
        try:
            self._start_zookeeper()
            self._start_bookies()
            for broker in self.brokers:
                broker.start_process()
            for bookie in self.members.bookies:
                bookie.await_ready()
            for broker in self.brokers:
                broker.await_ready()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End all processes at once and remove their run folder, with data and logs. Safe to call twice."""
        if self._members is not None:
            self._members.close()
            self._members = self._settings_of_bookies = None
        if self.cluster is not None:
            _NAMES.give_back(self.cluster)
            self.cluster = None

    def owner_of(self, topic: str) -> DeploymentBroker | None:
        """Return the broker that owns a topic, which gets an owner where it has none; None while none can be named.

        It is asked of the first broker that answers. Until the session of an owner that is gone has ended, that is
        still named.
        """
        for asked in self.brokers:
            url = asked.process.probe.owner(topic)
            if url is not None:
                return next((one for one in self.brokers if one.addresses.service_url == url), None)
        return None

    def follow(self, settings: Mapping[str, str]) -> None:
        """Have other settings on top; bookies that have other ones now are restarted, one after the other."""
        self.changed = settings
        if self._of_bookies() != self._settings_of_bookies:
            for bookie in self.members.bookies:
                bookie.end(signal.SIGTERM)
                bookie.start(self._of_bookies())
                bookie.await_ready()
            self._settings_of_bookies = self._of_bookies()

    def start_bookie(self, number: int) -> None:
        """Start a bookie that was killed, on the data that it has, and wait until it is registered."""
        bookie = self.members.bookies[number]
        bookie.start(self._of_bookies())
        bookie.await_ready()

    def restart_zookeeper(self) -> None:
        """End the ZooKeeper with SIGKILL and start it again on its data: sessions outlive it."""
        zookeeper = self.members.zookeeper
        zookeeper.end(signal.SIGKILL)
        zookeeper.start()

    def of_brokers(self) -> Mapping[str, str]:
        """The settings for the brokers: all that are not the bookies' alone."""
        return {name: value for name, value in self._all().items() if name not in self._of_bookies()}

    def _of_bookies(self) -> Mapping[str, str]:
        known = known_settings(self.release.folder)
        return {name: value for name, value in self._all().items() if name in known.bookie}

    def _all(self) -> Mapping[str, str]:
        return {**self.settings, **self.changed}

    def _start_zookeeper(self) -> None:
        preparation = self.prepare()
        self.cluster = self.settings.get("clusterName") or _NAMES.take()
        metadata = preparation.metadata(self.cluster)
        self._members = Members(
            self.release,
            preparation.java,
            name=self.name,
            options=lambda kind: (*ATTACHABLE, *preparation.archive(kind)),
            brokers=len(self.brokers),
            bookies=self._bookies,
        )
        self._members.zookeeper.start(metadata)

    def _start_bookies(self) -> None:
        self._settings_of_bookies = self._of_bookies()
        for bookie in self.members.bookies:
            bookie.start(self._settings_of_bookies)


class DeploymentBroker:
    """One of the brokers of a deployment; starting the first one starts all."""

    def __init__(self, deployment: Deployment, number: int) -> None:
        """Nothing is started yet."""
        self.deployment: Final = deployment
        self._number: Final = number
        self._version: str | None = None

    @property
    def name(self) -> str:
        """The version, or ``dist:PATH``."""
        return self.deployment.name

    @property
    def process(self) -> BrokerProcess:
        """Its process, whether that runs or not. HarnessError before the deployment is started."""
        return self.deployment.members.brokers[self._number]

    @property
    def version(self) -> str:
        """The release that the running broker itself reports, or that of its jars where it reports none."""
        if self._version is None:
            raise HarnessError(f"The broker {self.name} has not been started.")
        return self._version

    @property
    def addresses(self) -> Addresses:
        """Where it listens, from its first start until it is stopped."""
        ports = self.process.ports
        return Addresses(
            service_url=f"pulsar://{HOST}:{ports.service}",
            admin_url=f"http://{HOST}:{ports.admin}",
            proxy_port=ports.proxy,
        )

    @property
    def configuration(self) -> Mapping[str, str]:
        """The settings that the suite gave it, without what a deployment needs and what differs from run to run."""
        return dict(self.deployment.settings)

    @property
    def capabilities(self) -> frozenset[Capability]:
        """All of them, but for defects without the agent."""
        return frozenset(Capability) - (set() if self.deployment.with_agent else {Capability.DEFECTS})

    def load_agent(self) -> AgentAddress:
        """Have Byteman in the broker's process, which may run without it until then."""
        if not self.deployment.with_agent:
            raise HarnessError(f"The broker {self.name} was to have no agent inside.")
        self.process.load_agent()
        return AgentAddress(host=HOST, port=self.process.ports.agent)

    def start(self) -> None:
        """Start the deployment, or after a kill this broker, on the data it has, and wait until it is ready.

        Raises:
            HarnessError: it runs already; or a process ended, or was not ready in time: then the message has the end of
                its log, and nothing of the deployment is left.
        """
        if not self.deployment.is_started:
            self.deployment.start()
            return
        if self.process.is_running:
            raise HarnessError(f"The broker {self.name} runs already.")
        try:
            self._require_others()
            self.start_process()
            self.await_ready()
        except BaseException:
            self.stop()
            raise

    def start_process(self) -> None:
        """Start its process; :meth:`await_ready` waits for it."""
        deployment = self.deployment
        assert deployment.cluster is not None
        self.process.start(
            deployment.of_brokers(),
            cluster=deployment.cluster,
            brokers=len(deployment.brokers),
            bookies=len(deployment.members.bookies),
        )

    def await_ready(self) -> None:
        """Wait until it is ready, and learn its version."""
        self.process.await_ready()
        self._version = self.process.probe.version() or self.deployment.release.version

    def restart(self, settings: Mapping[str, str] | None = None) -> None:
        """End the broker with SIGTERM, upon which it unloads its topics, and start it again, with these settings."""
        self._require_others()  # without the others a broker does not end gracefully
        self.shut_down()
        if settings is not None:
            self.deployment.follow(settings)
        self.start()

    def shut_down(self) -> None:
        """End the broker with SIGTERM, upon which it unloads its topics; ``start`` brings it back."""
        self.process.end(signal.SIGTERM)

    def kill(self) -> None:
        """End the broker with SIGKILL; its data stays for the next start."""
        self.process.end(signal.SIGKILL)

    def end_session(self) -> bool:
        """Have its session in ZooKeeper expire now, whether it runs, is frozen or was killed; whether it had one.

        Another broker may then own its topics.
        """
        return self.process.end_session()

    def pause(self) -> None:
        """Freeze the broker; its connections stay open."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a frozen broker go on."""
        self.process.send_signal(signal.SIGCONT)

    def is_alive(self) -> bool:
        """Whether ZooKeeper, a bookie and the broker run and the broker answers; one that is paused does not."""
        if not self.deployment.is_started:
            return False
        members = self.deployment.members
        are_running = members.zookeeper.is_running and any(one.is_running for one in members.bookies)
        return are_running and self.process.is_running and self.process.probe.clusters() is not None

    def stop(self) -> None:
        """End the whole deployment, and remove its run folder, with data and logs."""
        self.deployment.stop()

    def log_tail(self, *, lines: int = 50) -> str:
        """Return the last lines of what the broker wrote, until it is stopped."""
        return self.process.process.last_lines(lines) if self.deployment.is_started else ""

    def _require_others(self) -> None:
        """HarnessError unless ZooKeeper runs, and a bookie."""
        members = self.deployment.members
        members.zookeeper.require_running()
        if not any(bookie.is_running for bookie in members.bookies):
            members.bookies[0].require_running()
