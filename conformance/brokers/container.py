"""The broker in a container: the official image of a release, or any other with Pulsar at ``/pulsar``.

It starts, freezes, kills and stops the container, and knows when the broker in it is ready. The container has the data,
across restarts. :mod:`.containers.standalone` describes the container, :mod:`.containers.image` provides images.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from testcontainers.core.container import DockerContainer

from conformance.brokers.containers.engine import DockerException, connect
from conformance.brokers.containers.image import require_image
from conformance.brokers.containers.leftovers import Claim, remove_leftovers
from conformance.brokers.containers.standalone import (
    CONFIGURATION,
    HOME,
    ContainerPorts,
    archived,
    cluster_name,
    gateway_of,
    standalone_configuration,
    standalone_container,
)
from conformance.brokers.interface import Addresses, AgentAddress, Capability
from conformance.brokers.release import Release
from conformance.brokers.settings import Base, suite_settings
from conformance.brokers.startup.ports import HOST
from conformance.brokers.startup.probe import Probe
from conformance.harness_error import HarnessError, NotReady
from conformance.wait import wait_until

_START_DEADLINE_S = 120.0
_END_DEADLINE_S = 60.0
_POLL_S = 0.05
_EXCERPT_LINES = 20
_ALIVE = ("running", "paused")
"""The engine's states of a container with a running process."""


class ContainerBroker:
    """A standalone broker in a container of ``image``.

    ``settings`` go on top of a base of :mod:`conformance.brokers.settings`, by their names in ``broker.conf``.
    ``with_agent`` loads Byteman into the broker, which defects and failpoints need.
    """

    def __init__(
        self,
        image: str,
        *,
        settings: Mapping[str, str] | None = None,
        base: Base = "quick",
        with_agent: bool = True,
    ) -> None:
        self.name = f"container:{image}"
        self._image = image
        self._with_agent = with_agent
        self._settings = suite_settings(settings or {}, base)
        self._claim: Claim | None = None
        self._ports: ContainerPorts | None = None
        self._container: DockerContainer | None = None
        self._version: str | None = None
        self._gateway = HOST

    @property
    def version(self) -> str:
        """The version that the running broker reports."""
        if self._version is None:
            raise self._not_started()
        return self._version

    @property
    def addresses(self) -> Addresses:
        """Its addresses, from its first start until it is stopped."""
        ports = self._known_ports()
        return Addresses(
            service_url=f"pulsar://{HOST}:{ports.service}",
            admin_url=f"http://{HOST}:{ports.admin}",
            proxy_port=ports.proxy,
            this_machine=self._gateway,
        )

    @property
    def configuration(self) -> Mapping[str, str]:
        """The settings that the suite gave it, without the addresses and names that differ from run to run."""
        return dict(self._settings)

    @property
    def capabilities(self) -> frozenset[Capability]:
        """All; SIGKILL if the release recovers from it, and defects with the agent."""
        found = {Capability.RESTART, Capability.PAUSE, Capability.CLUSTERS, Capability.OWN}
        if self._version is None or Release(folder=Path(HOME), version=self._version).survives_kill:
            found.add(Capability.KILL)
        if self._with_agent:
            found.add(Capability.DEFECTS)
        return frozenset(found)

    def load_agents(self) -> tuple[AgentAddress, ...]:
        """Return Byteman's address; the process has it from its start."""
        if not self._with_agent:
            raise HarnessError(f"The broker {self.name} was to have no agent inside.")
        return (AgentAddress(host=HOST, port=self._known_ports().agent),)

    def start(self) -> None:
        """Start the broker, on the data it has if it was killed, and wait until it is ready.

        Raises:
            HarnessError: no engine answers, the image cannot be had, the broker ended or was not ready in time; then
            the
                message has the end of its log. Nothing of it is left.
        """
        try:
            with self._engine_asked_to("start"):
                if self._container is None:
                    self._make()
                else:
                    self._await_end()  # of one that crashed, the engine may take a moment to notice
                    self._made().start()
                self._await_ready()
                self._gateway = gateway_of(self._made())
        except BaseException:
            with contextlib.suppress(HarnessError):  # what went wrong first is what counts
                self.stop()
            raise

    def restart(self, settings: Mapping[str, str] | None = None) -> None:
        """Stop the broker with SIGTERM, so that it closes its ledgers, and start it again with these settings."""
        with self._engine_asked_to("stop"):
            self._running().kill("SIGTERM")
            self._await_end()
            if settings is not None:
                self._configure({**self._settings, **settings})
        self.start()

    def kill(self) -> None:
        """Kill the broker with SIGKILL; its data stays for the next start."""
        if Capability.KILL not in self.capabilities:
            raise HarnessError(f"The standalone broker of {self.name} does not come back after a kill: use a restart.")
        with self._engine_asked_to("kill"):
            self._running().kill("SIGKILL")
            self._await_end()

    def pause(self) -> None:
        """Freeze the broker; its connections stay open."""
        with self._engine_asked_to("pause"):
            self._running().pause()

    def resume(self) -> None:
        """Continue a frozen broker."""
        with self._engine_asked_to("resume"):
            self._running().unpause()

    def is_alive(self) -> bool:
        """Whether the broker runs and answers; a frozen one does not."""
        if self._container is None:
            return False
        with self._engine_asked_to("look at"):
            return self._state() == "running" and Probe(self.addresses.admin_url).version() is not None

    def ended_with(self) -> int | None:
        """Return None: the container engine may have ended it."""
        return None

    def stop(self) -> None:
        """Kill the broker and remove its container with data and log."""
        container, claim = self._container, self._claim
        self._container = self._claim = None
        try:
            if container is not None:
                with self._engine_asked_to("remove"):
                    container.stop()
        finally:
            if claim is not None:
                claim.release()

    def log_tail(self, *, lines: int = 50) -> str:
        """Return the last lines of the broker's log, until it is stopped."""
        if self._container is None:
            return ""
        with self._engine_asked_to("read the log of"):
            log: bytes = self._made().logs(tail=lines)
        return log.decode(errors="replace")

    def _make(self) -> None:
        client = connect()
        remove_leftovers(client)
        require_image(client, self._image)
        self._claim = Claim()
        self._ports = ContainerPorts.chosen()
        self._container = standalone_container(
            client,
            self._image,
            claim=self._claim,
            ports=self._ports,
            settings=self._settings,
            with_agent=self._with_agent,
        )
        self._container.start()

    def _configure(self, settings: Mapping[str, str]) -> None:
        """Replace the configuration file of a stopped container."""
        assert self._claim is not None
        configuration = standalone_configuration(
            connect(), self._image, claim=self._claim, ports=self._known_ports(), settings=settings
        )
        self._made().put_archive(str(CONFIGURATION.parent), archived(CONFIGURATION.name, configuration))

    def _await_ready(self) -> None:
        assert self._claim is not None
        cluster = cluster_name(self._claim)
        probe = Probe(self.addresses.admin_url)

        def is_ready() -> bool:
            if self._state() != "running":
                raise NotReady(f"The broker {self.name} ended instead of being ready. {self._said()}")
            # Only this broker has a cluster of this name, so no other process can be mistaken for it.
            return cluster in (probe.clusters() or ()) and probe.is_ready()

        if not wait_until(is_ready, _START_DEADLINE_S, pause_s=_POLL_S):
            raise NotReady(f"The broker {self.name} was not ready within {_START_DEADLINE_S:g} s. {self._said()}")
        self._version = probe.version()

    def _await_end(self) -> None:
        if not wait_until(lambda: self._state() not in _ALIVE, _END_DEADLINE_S, pause_s=_POLL_S):
            raise HarnessError(f"The broker {self.name} did not end within {_END_DEADLINE_S:g} s. {self._said()}")

    @contextlib.contextmanager
    def _engine_asked_to(self, do: str) -> Iterator[None]:
        """Turn errors of the engine and of its connection into harness errors."""
        try:
            yield
        except (DockerException, OSError) as error:  # what `requests` raises on a lost connection is an OSError
            raise HarnessError(f"The container engine could not {do} {self.name}: {error}") from error

    def _running(self) -> Any:
        container = self._made()
        if self._state() not in _ALIVE:
            raise HarnessError(f"The broker {self.name} has ended by itself. {self._said()}")
        return container

    def _state(self) -> str:
        """The engine's state of the container: running, paused, exited, ..."""
        container = self._made()
        container.reload()
        return str(container.status)

    def _made(self) -> Any:
        """The engine's container object, which has more methods than testcontainers'."""
        if self._container is None:
            raise self._not_started()
        return self._container.get_wrapped_container()

    def _known_ports(self) -> ContainerPorts:
        if self._ports is None:
            raise self._not_started()
        return self._ports

    def _not_started(self) -> HarnessError:
        return HarnessError(f"The broker {self.name} has not been started.")

    def _said(self) -> str:
        return f"The end of its log:\n{self.log_tail(lines=_EXCERPT_LINES)}"
