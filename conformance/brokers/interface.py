"""The one interface of all brokers: deployment, standalone, container and external.

A kind of broker has ``capabilities``. A request for another one is a harness error, and the rules that need it are not
decidable.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from conformance.brokers.startup.ports import HOST
from conformance.clients.security.service import NO_SECURITY, Security, Service


class Capability(enum.Enum):
    """What the suite can do to a broker's process, settings or cluster."""

    RESTART = "restart"
    KILL = "kill"
    PAUSE = "pause"
    DEFECTS = "defects"
    CLUSTERS = "clusters"
    OWN = "own"
    """The suite owns it: it may change its settings, and deletes it with all data."""
    TAKEOVER = "takeover"
    """It is one of several brokers of a cluster, and another one can take over its topics."""
    BOOKIES = "bookies"
    """Its cluster can lose a bookie."""
    METADATA_STORE = "metadata store"
    """Its metadata store can be frozen and restarted."""
    POWER_FAILURE = "power failure"
    """Its bookies sync their journals, and can lose what they did not sync."""


OF_ONE_BROKER: Final = frozenset(Capability) - {
    Capability.TAKEOVER,
    Capability.BOOKIES,
    Capability.METADATA_STORE,
    Capability.POWER_FAILURE,
}
"""The capabilities of a broker that the suite starts as the only one of its cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """A broker's addresses: ``pulsar://host:port`` and ``http://host:port``, without a trailing slash, or with TLS.

    ``security``: how clients connect. ``tap_port``: the port that it advertises for a proxy
    (:mod:`conformance.brokers.startup.listener`); None if the suite does not configure it. ``this_machine``: the host
    of the suite, for the broker's process.
    """

    service_url: str
    admin_url: str
    proxy_port: int | None = None
    this_machine: str = HOST
    security: Security = NO_SECURITY

    @property
    def service(self) -> Service:
        return Service(self.service_url, self.security)

    @property
    def admin(self) -> Service:
        return Service(self.admin_url, self.security)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentAddress:
    """The address of the Byteman agent in a broker's process."""

    host: str
    port: int


class Broker(Protocol):
    """A Pulsar under test.

    ``start`` returns when the broker is ready: a topic look-up answers and ``public/default`` exists. All methods raise
    :class:`conformance.harness_error.HarnessError` if the broker misses its deadline.
    """

    @property
    def name(self) -> str:
        """The broker's name for ``--broker``."""

    @property
    def version(self) -> str:
        """The version that the running broker reports, e.g. ``4.0.8``."""

    @property
    def addresses(self) -> Addresses:
        """Its addresses, which a restart does not change. Known after the start."""

    @property
    def configuration(self) -> Mapping[str, str]:
        """The settings from the suite, by their names in ``broker.conf``; empty for running clusters."""

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What the suite can do to it."""

    def load_agents(self) -> tuple[AgentAddress, ...]:
        """Load the agent into its processes, unless they have it; returns the agents' addresses."""

    def start(self) -> None:
        """Start it, after a ``kill`` on the same data and addresses, and wait until it is ready."""

    def restart(self, settings: Mapping[str, str] | None = None) -> None:
        """Restart it gracefully on the same data and addresses, with ``settings`` on top of its own.

        These stay until a restart with others; ``{}`` restores its own.
        """

    def kill(self) -> None:
        """Kill its process with SIGKILL; its data stays for ``start``."""

    def pause(self) -> None:
        """Freeze its process (SIGSTOP); connections stay open."""

    def resume(self) -> None:
        """Continue a frozen process."""

    def is_alive(self) -> bool:
        """Whether the process (of a running cluster, the admin address) answers now."""

    def ended_with(self) -> int | None:
        """The exit status of a broker's process that ended by itself, if it can be known (negative: by that signal)."""

    def stop(self) -> None:
        """Stop it and remove its data. Safe to call twice."""

    def log_tail(self, *, lines: int = 50) -> str:
        """The last lines of its log, for a harness error; empty without a log."""
