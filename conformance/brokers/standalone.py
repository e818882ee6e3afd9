"""The broker as one local process: a release's own distribution, run standalone on ports and data of its own.

It starts, freezes, kills and stops the process, and knows when the broker is ready. ``conformance.faults`` switches
defects on through the agent.
"""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from conformance.brokers.interface import OF_ONE_BROKER, Addresses, AgentAddress, Capability
from conformance.brokers.release import Release
from conformance.brokers.settings import Base, suite_settings
from conformance.brokers.startup.launch import SHIPPED, Ports, command, write_configuration
from conformance.brokers.startup.listener import listener_settings
from conformance.brokers.startup.ports import HOST
from conformance.brokers.startup.probe import Probe
from conformance.brokers.startup.registration import is_caught
from conformance.brokers.startup.runs import GuardedProcess, RunFolder
from conformance.harness_error import HarnessError, NotReady
from conformance.wait import wait_until

_log = logging.getLogger(__name__)

_START_DEADLINE_S = 120.0
_END_DEADLINE_S = 60.0
_POLL_S = 0.05
_EXCERPT_LINES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class _Site:
    """The state of a broker from its first start until it is stopped, across restarts and kills."""

    run: RunFolder
    process: GuardedProcess
    ports: Ports

    @classmethod
    def new(cls) -> _Site:
        run = RunFolder()
        return cls(run=run, process=GuardedProcess(run, "broker"), ports=Ports.chosen())

    @property
    def addresses(self) -> Addresses:
        return Addresses(
            service_url=f"pulsar://{HOST}:{self.ports.service}",
            admin_url=f"http://{HOST}:{self.ports.admin}",
            proxy_port=self.ports.proxy,
        )

    def settings(self) -> dict[str, str]:
        """The settings of the broker's addresses and of a unique cluster name."""
        return {
            "clusterName": f"conformance-{self.run.path.name}",
            "bindAddress": HOST,
            "advertisedAddress": HOST,
            "brokerServicePort": str(self.ports.service),
            "webServicePort": str(self.ports.admin),
            "listeningInterface": "lo",  # or the bookie listens at all of the machine's addresses
            "allowLoopback": "true",  # as shipped; a release without its own configuration file has the code's default
            "allowEphemeralPorts": "true",  # or the bookie ignores its port and takes a random one
        }


class StandaloneBroker:
    """A standalone broker of an unpacked distribution.

    ``settings`` go on top of a base of :mod:`conformance.brokers.settings`, by their names in ``broker.conf``.
    ``with_agent`` loads Byteman into the broker, which defects and failpoints need.
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
        self._release = release
        self._name = name or release.version
        self._settings = suite_settings(settings or {}, base)
        self._changed: Mapping[str, str] = {}
        self._with_agent = with_agent
        self._site: _Site | None = None
        self._version: str | None = None

    @property
    def name(self) -> str:
        """The version, or ``dist:PATH``."""
        return self._name

    @property
    def version(self) -> str:
        """The version that the running broker reports, or else that of its jars."""
        if self._version is None:
            raise self._not_started()
        return self._version

    @property
    def addresses(self) -> Addresses:
        """Its addresses, from its first start until it is stopped."""
        return self._started().addresses

    @property
    def configuration(self) -> Mapping[str, str]:
        """The settings that the suite gave it, without the addresses and names that differ from run to run."""
        return dict(self._settings)

    @property
    def capabilities(self) -> frozenset[Capability]:
        """All, except for SIGKILL if the release does not recover from it, and defects without the agent."""
        lacking = set() if self._release.survives_kill else {Capability.KILL}
        if not self._with_agent:
            lacking.add(Capability.DEFECTS)
        return OF_ONE_BROKER - lacking

    def load_agents(self) -> tuple[AgentAddress, ...]:
        """Return Byteman's address; the process has it from its start."""
        if not self._with_agent:
            raise HarnessError(f"The broker {self.name} was to have no agent inside.")
        return (AgentAddress(host=HOST, port=self._started().ports.agent),)

    def start(self) -> None:
        """Start the broker, on the data it has if it was killed, and wait until it is ready.

        Raises:
            HarnessError: it runs already; or it ended, or was not ready in time: then the message has the end of its
                log. Of a first start nothing is left then; after others, its data stays for the next one.
        """
        if self._site is not None and self._site.process.exit_status() is None:
            raise HarnessError(f"The broker {self.name} runs already.")
        is_new = self._site is None
        if self._site is None:
            self._site = _Site.new()
        try:
            self._launch(self._site)
            while is_caught(self._site.process.output()):
                _log.info("The bookie of %s is caught in losing its registration: once more, gracefully.", self.name)
                self._end(signal.SIGTERM)
                self._launch(self._site)
        except BaseException:
            if is_new:
                self.stop()
            elif self._site.process.exit_status() is None:
                self._end(signal.SIGKILL)
            raise

    def restart(self, settings: Mapping[str, str] | None = None) -> None:
        """Stop the broker with SIGTERM, on which it unloads its topics, and start it again with these settings."""
        self._end(signal.SIGTERM)
        self._changed = settings if settings is not None else self._changed
        self.start()

    def kill(self) -> None:
        """Kill the broker with SIGKILL; its data stays for the next start."""
        if Capability.KILL not in self.capabilities:
            raise HarnessError(f"The standalone broker of {self.name} does not come back after a kill: use a restart.")
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """Freeze the broker; its connections stay open."""
        self._running().send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Continue a frozen broker."""
        self._running().send_signal(signal.SIGCONT)

    def is_alive(self) -> bool:
        """Whether the broker runs and answers; a frozen one does not."""
        return (
            self._site is not None
            and self._site.process.exit_status() is None
            and Probe(self._site.addresses.admin_url).clusters() is not None
        )

    def ended_with(self) -> int | None:
        """The exit status of its process, if that has ended."""
        return None if self._site is None else self._site.process.exit_status()

    def stop(self) -> None:
        """Kill the broker and remove its run folder with data and log."""
        if self._site is not None:
            self._site.run.close()
            self._site = None

    def log_tail(self, *, lines: int = 50) -> str:
        """Return the last lines of the broker's log, until it is stopped."""
        return "" if self._site is None else self._site.process.last_lines(lines)

    def _launch(self, site: _Site) -> None:
        process = site.process
        listeners = listener_settings(
            self._release.shipped(SHIPPED),
            host=HOST,
            service_port=site.ports.service,
            proxy_port=site.ports.proxy,
        )
        settings = {**site.settings(), **listeners, **self._settings, **self._changed}
        write_configuration(self._release, site.run.path, settings)
        process.start(
            command(self._release, self._release.java(), site.run.path, site.ports, with_agent=self._with_agent)
        )
        probe = Probe(site.addresses.admin_url)

        def is_ready() -> bool:
            self._running()
            # Only this broker has a cluster of this name, so no other process can be mistaken for it.
            return settings["clusterName"] in (probe.clusters() or ()) and probe.is_ready()

        try:
            self._await("ready", _START_DEADLINE_S, is_ready)
        except HarnessError as harness_error:
            raise NotReady(str(harness_error)) from harness_error
        missing = site.ports.of_standalone(with_agent=self._with_agent) - process.listening_ports()
        if missing:
            raise HarnessError(f"The broker {self.name} does not listen on its port {min(missing)}. {self._said()}")
        process.expect(must_run=True)
        reported, own = probe.version(), self._release.version
        self._version = own if reported is None or own.startswith(f"{reported}-") else reported

    def _end(self, number: signal.Signals) -> None:
        process = self._running()
        process.send_signal(number)
        self._await("ended", _END_DEADLINE_S, lambda: process.exit_status() is not None)

    def _await(self, what: str, deadline_s: float, condition: Callable[[], bool]) -> None:
        if not wait_until(condition, deadline_s, pause_s=_POLL_S):
            raise HarnessError(f"The broker {self.name} was not {what} within {deadline_s:g} s. {self._said()}")

    def _running(self) -> GuardedProcess:
        process = self._started().process
        status = process.exit_status()
        if status is not None:
            raise HarnessError(f"The broker {self.name} is not running, it ended with status {status}. {self._said()}")
        return process

    def _started(self) -> _Site:
        if self._site is None:
            raise self._not_started()
        return self._site

    def _not_started(self) -> HarnessError:
        return HarnessError(f"The broker {self.name} has not been started.")

    def _said(self) -> str:
        return f"The end of its log:\n{self.log_tail(lines=_EXCERPT_LINES)}"
