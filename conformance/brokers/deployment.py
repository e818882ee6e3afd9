"""The broker as a deployment of a release on this machine: a ZooKeeper, a bookie and a broker, a process each.

The broker is what is killed, frozen and restarted; the other two stay up until all is stopped. What a rule means is
none of its business, and neither is what runs inside the broker: switching defects on is up to ``conformance.faults``,
which talks to the agent.
"""

from __future__ import annotations

import itertools
import signal
import threading
from collections.abc import Mapping
from typing import Final

from conformance.brokers.interface import Addresses, AgentAddress, Capability
from conformance.brokers.launching.agent import ATTACHABLE, load_agent
from conformance.brokers.launching.ports import HOST
from conformance.brokers.obtaining.java import find_java
from conformance.brokers.processes.broker import broker_settings
from conformance.brokers.processes.preparation import Preparation
from conformance.brokers.processes.running import BOOKIE, BROKER, ROLES, Processes
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


class DeploymentBroker:
    """The broker of a deployment of an unpacked distribution.

    ``settings`` go on top of a base of :mod:`conformance.brokers.settings`, by their names in ``broker.conf`` and
    ``bookkeeper.conf``. ``with_agent`` says whether the broker can be given Byteman, which defects and failpoints need.
    """

    def __init__(
        self,
        release: Release,
        *,
        name: str | None = None,
        settings: Mapping[str, str] | None = None,
        base: Base = "quick",
        with_agent: bool = True,
    ) -> None:
        self.name: Final = name or release.version
        self._release: Final = release
        self._settings: Final = suite_settings(settings or {}, base)
        self._with_agent: Final = with_agent
        self._changed: Mapping[str, str] = {}
        self._cluster: str | None = None
        self._processes: Processes | None = None
        self._of_bookie: Mapping[str, str] | None = None
        self._version: str | None = None
        self._has_agent: int | None = None

    @property
    def version(self) -> str:
        """The release that the running broker itself reports, or that of its jars where it reports none."""
        if self._version is None:
            raise self._not_started()
        return self._version

    @property
    def addresses(self) -> Addresses:
        """Where it listens, from its first start until it is stopped."""
        ports = self._started().ports.broker
        return Addresses(
            service_url=f"pulsar://{HOST}:{ports.service}",
            admin_url=f"http://{HOST}:{ports.admin}",
            proxy_port=ports.proxy,
        )

    @property
    def configuration(self) -> Mapping[str, str]:
        """The settings that the suite gave it, without what a deployment needs and what differs from run to run."""
        return dict(self._settings)

    @property
    def capabilities(self) -> frozenset[Capability]:
        """All of them, but for defects without the agent."""
        return frozenset(Capability) - (set() if self._with_agent else {Capability.DEFECTS})

    def prepare(self) -> None:
        """Make what is made once for a release, so that no run waits for it.

        Raises:
            HarnessError: there is no Java, or the metadata of a cluster cannot be made.
        """
        Preparation(self._release, find_java()).make()

    def load_agent(self) -> AgentAddress:
        """Have Byteman in the broker's process, which may run without it until then."""
        if not self._with_agent:
            raise HarnessError(f"The broker {self.name} was to have no agent inside.")
        processes = self._started()
        broker = processes.running(BROKER)
        port = processes.ports.broker.agent
        pid = broker.pid()
        if pid is not None and pid != self._has_agent:
            load_agent(pid, processes.run.path, broker.send_signal, address=HOST, port=port)
            self._has_agent = pid
        return AgentAddress(host=HOST, port=port)

    def start(self) -> None:
        """Start the deployment, or after a kill its broker, on the data it has, and wait until it is ready.

        Raises:
            HarnessError: it runs already; or a process ended, or was not ready in time: then the message has the end of
                its log, and nothing of it is left.
        """
        if self._processes is not None and self._processes.process(BROKER).exit_status() is None:
            raise HarnessError(f"The broker {self.name} runs already.")
        try:
            if self._processes is None:
                self._start_zookeeper()
            self._start_broker(self._started())
        except BaseException:
            self.stop()
            raise

    def restart(self, settings: Mapping[str, str] | None = None) -> None:
        """End the broker with SIGTERM, upon which it unloads its topics, and start it again, with these settings."""
        processes = self._started()
        for role in ROLES:
            processes.running(role)  # without the others a broker does not end gracefully
        processes.end(BROKER, signal.SIGTERM)
        self._changed = settings if settings is not None else self._changed
        self.start()

    def kill(self) -> None:
        """End the broker with SIGKILL; its data stays for the next start."""
        self._started().end(BROKER, signal.SIGKILL)

    def pause(self) -> None:
        """Freeze the broker; its connections stay open."""
        self._started().running(BROKER).send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a frozen broker go on."""
        self._started().running(BROKER).send_signal(signal.SIGCONT)

    def is_alive(self) -> bool:
        """Whether all processes run and the broker answers; one that is paused does not."""
        processes = self._processes
        return processes is not None and processes.are_running() and processes.probe.clusters() is not None

    def stop(self) -> None:
        """End all processes at once and remove their run folder, with data and logs."""
        if self._processes is not None:
            self._processes.close()
            self._processes = self._of_bookie = None
        if self._cluster is not None:
            _NAMES.give_back(self._cluster)
            self._cluster = None

    def log_tail(self, *, lines: int = 50) -> str:
        """Return the last lines of what the broker wrote, until it is stopped."""
        return "" if self._processes is None else self._processes.process(BROKER).last_lines(lines)

    def _start_zookeeper(self) -> None:
        java = find_java()
        preparation = Preparation(self._release, java)
        self._cluster = self._settings.get("clusterName") or _NAMES.take()
        metadata = preparation.metadata(self._cluster)
        options = {role: (*ATTACHABLE, *preparation.archive(role)) for role in ROLES}
        self._processes = Processes(self._release, java, name=self.name, options=lambda role: options[role])
        self._processes.start_zookeeper(metadata)

    def _start_broker(self, processes: Processes) -> None:
        """Start the broker, and the bookie too where it does not run yet or has other settings now."""
        settings = {**self._settings, **self._changed}
        known = known_settings(self._release.folder)
        of_bookie = {name: value for name, value in settings.items() if name in known.bookie}
        if self._of_bookie is None:
            processes.start_bookie(of_bookie)  # while the broker starts
        elif self._of_bookie != of_bookie:
            processes.end(BOOKIE, signal.SIGTERM)
            processes.start_bookie(of_bookie)
            processes.await_bookie()
        self._of_bookie = of_bookie
        assert self._cluster is not None
        of_broker = broker_settings(
            self._release,
            processes.ports.broker,
            cluster=self._cluster,
            zookeeper=processes.ports.zookeeper,
            bookies=1,
            settings={name: value for name, value in settings.items() if name not in of_bookie},
        )
        processes.start_broker(of_broker)
        processes.await_bookie()
        processes.await_broker()
        self._version = processes.probe.version() or self._release.version

    def _started(self) -> Processes:
        if self._processes is None:
            raise self._not_started()
        return self._processes

    def _not_started(self) -> HarnessError:
        return HarnessError(f"The broker {self.name} has not been started.")
