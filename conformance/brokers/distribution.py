"""The broker as a local process: a release's own distribution, run standalone on ports and data of its own.

It starts, freezes, kills and ends the process, and knows when the broker is ready. What a rule means is none of its
business, and neither is what runs inside the broker: switching defects on is up to ``conformance.faults``, which talks
to :attr:`DistributionBroker.agent`.
"""

from __future__ import annotations

import signal
import time
from collections import deque
from collections.abc import Callable, Mapping

from conformance.brokers.interface import Addresses, AgentAddress, Capability
from conformance.brokers.java import find_java
from conformance.brokers.launch import Ports, command, write_configuration
from conformance.brokers.ports import HOST
from conformance.brokers.probe import Probe
from conformance.brokers.release import Release
from conformance.brokers.runs import GuardedProcess
from conformance.brokers.settings import suite_settings
from conformance.trouble import Trouble

_START_DEADLINE_S = 120.0
_END_DEADLINE_S = 60.0
_POLL_S = 0.05
_EXCERPT_LINES = 20


class DistributionBroker:
    """A standalone broker of an unpacked distribution.

    ``settings`` go on top of :mod:`conformance.brokers.settings`, by their names in ``broker.conf``. ``with_agent``
    loads Byteman into the broker, which defects and failpoints need.
    """

    def __init__(
        self,
        release: Release,
        *,
        name: str | None = None,
        settings: Mapping[str, str] | None = None,
        with_agent: bool = True,
    ) -> None:
        self.name = name or release.version
        self._release = release
        self._with_agent = with_agent
        self._settings = suite_settings(settings or {})
        self._process: GuardedProcess | None = None
        self._ports: Ports | None = None
        self._version: str | None = None

    @property
    def version(self) -> str:
        """The release that the running broker itself reports."""
        if self._version is None:
            raise Trouble(f"The broker {self.name} has not been started.")
        return self._version

    @property
    def addresses(self) -> Addresses:
        """Where it listens, from its first start until it is stopped."""
        ports = self._known_ports()
        return Addresses(service_url=f"pulsar://{HOST}:{ports.service}", admin_url=f"http://{HOST}:{ports.admin}")

    @property
    def configuration(self) -> Mapping[str, str]:
        """The settings that the suite gave it, without the addresses and names that differ from run to run."""
        return dict(self._settings)

    @property
    def capabilities(self) -> frozenset[Capability]:
        """All of them, but for SIGKILL where the release does not recover, and defects without the agent."""
        found = {Capability.RESTART, Capability.PAUSE}
        if self._release.survives_kill:
            found.add(Capability.KILL)
        if self._with_agent:
            found.add(Capability.DEFECTS)
        return frozenset(found)

    @property
    def agent(self) -> AgentAddress | None:
        """Where Byteman listens, if it was asked for."""
        return AgentAddress(host=HOST, port=self._known_ports().agent) if self._with_agent else None

    def start(self) -> None:
        """Start the broker, on the data it has if it was killed, and wait until it is ready.

        Raises:
            Trouble: it ended, or was not ready in time; the message has the end of its log. Nothing of it is left.
        """
        if self._process is None:
            self._process = GuardedProcess()
            self._ports = Ports.chosen()
        try:
            self._launch(self._process, self._known_ports())
        except BaseException:
            self.stop()
            raise

    def restart(self) -> None:
        """End the broker with SIGTERM, which lets it close its ledgers, and start it again."""
        process = self._running()
        process.send_signal(signal.SIGTERM)
        self._await_end(process)
        self.start()

    def kill(self) -> None:
        """End the broker with SIGKILL; its data stays for the next start."""
        if Capability.KILL not in self.capabilities:
            raise Trouble(f"The standalone broker of {self.name} does not come back after a kill: use a restart.")
        process = self._running()
        process.send_signal(signal.SIGKILL)
        self._await_end(process)

    def pause(self) -> None:
        """Freeze the broker; its connections stay open."""
        self._running().send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a frozen broker go on."""
        self._running().send_signal(signal.SIGCONT)

    def is_alive(self) -> bool:
        """Whether the broker runs and answers; one that is paused does not."""
        return (
            self._process is not None
            and self._process.exit_status() is None
            and Probe(self.addresses.admin_url).version() is not None
        )

    def stop(self) -> None:
        """End the broker at once and remove its run folder, with the log."""
        if self._process is not None:
            self._process.close()
            self._process = None

    def log_tail(self, *, lines: int = 50) -> str:
        """Return the last lines of what the broker wrote, while it is not stopped."""
        if self._process is None or not self._process.log.exists():
            return ""
        with self._process.log.open(encoding="utf-8", errors="replace") as log:
            return "".join(deque(log, maxlen=lines))

    def _launch(self, process: GuardedProcess, ports: Ports) -> None:
        cluster = f"conformance-{process.folder.name}"
        write_configuration(self._release, process.folder, self._settings | _place(ports, cluster))
        process.start(command(self._release, find_java(), process.folder, ports, with_agent=self._with_agent))
        probe = Probe(self.addresses.admin_url)
        # Only the process that was started just now knows a cluster of this name: nobody else is taken for it.
        self._await("ready", _START_DEADLINE_S, lambda: cluster in (probe.clusters() or ()) and probe.is_ready())
        self._version = probe.version()

    def _await(self, what: str, deadline_s: float, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + deadline_s
        while not condition():
            status = self._running_or_ended().exit_status()
            if status is not None:
                raise Trouble(
                    f"The broker {self.name} ended with status {status} instead of being {what}. {self._said()}"
                )
            if time.monotonic() > end:
                raise Trouble(f"The broker {self.name} was not {what} within {deadline_s:g} s. {self._said()}")
            time.sleep(_POLL_S)

    def _await_end(self, process: GuardedProcess) -> None:
        end = time.monotonic() + _END_DEADLINE_S
        while process.exit_status() is None:
            if time.monotonic() > end:
                raise Trouble(f"The broker {self.name} did not end within {_END_DEADLINE_S:g} s. {self._said()}")
            time.sleep(_POLL_S)

    def _running(self) -> GuardedProcess:
        process = self._running_or_ended()
        status = process.exit_status()
        if status is not None:
            raise Trouble(f"The broker {self.name} has ended by itself with status {status}. {self._said()}")
        return process

    def _running_or_ended(self) -> GuardedProcess:
        if self._process is None:
            raise Trouble(f"The broker {self.name} has not been started.")
        return self._process

    def _known_ports(self) -> Ports:
        if self._ports is None:
            raise Trouble(f"The broker {self.name} has not been started.")
        return self._ports

    def _said(self) -> str:
        return f"The end of its log:\n{self.log_tail(lines=_EXCERPT_LINES)}"


def _place(ports: Ports, cluster: str) -> dict[str, str]:
    """Return the settings that say where this one broker listens and what its cluster is called."""
    return {
        "clusterName": cluster,
        "bindAddress": HOST,
        "advertisedAddress": HOST,
        "brokerServicePort": str(ports.service),
        "webServicePort": str(ports.admin),
        "allowEphemeralPorts": "true",  # or the bookie ignores its port and takes a random one
    }
