"""The one interface of all brokers: deployment, standalone, container and external.

It says what a broker can be asked; it starts nothing itself. What a kind of broker cannot do is missing from its
``capabilities``, and asking for it anyway is a harness error: rules that need it say that they were not exercised.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from conformance.brokers.launching.ports import HOST
from conformance.clients.security.service import NO_SECURITY, Security, Service


class Capability(enum.Enum):
    """What can be done to a broker besides talking to it."""

    RESTART = "restart"
    KILL = "kill"
    PAUSE = "pause"
    DEFECTS = "defects"
    CLUSTERS = "clusters"
    OWN = "own"
    """It is nobody else's: its settings may be changed, and it is thrown away with everything on it."""
    TAKEOVER = "takeover"
    """It is one of several brokers of a cluster, and another one takes over what it owns."""
    BOOKIES = "bookies"
    """Its cluster can do without one of its bookies."""


OF_ONE_BROKER: Final = frozenset(Capability) - {Capability.TAKEOVER, Capability.BOOKIES}
"""What can be done to a broker that the suite starts, and that is the only one of its cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Where a broker listens: ``pulsar://host:port`` and ``http://host:port``, both without a trailing slash, or the
    same with TLS; ``security`` says how clients connect.

    ``tap_port`` is kept free for a proxy, which it advertises there
    (:mod:`conformance.brokers.launching.listener`); None if it is not ours to configure.
    ``this_machine``: where its process finds what listens on the machine of the suite.
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
    """Where the Byteman agent inside a broker's process listens."""

    host: str
    port: int


class Broker(Protocol):
    """A Pulsar under test.

    ``start`` returns when the broker is ready: a topic look-up answers and ``public/default`` exists. All methods raise
    :class:`conformance.harness_error.HarnessError` when the broker does not do as asked within its deadline.
    """

    @property
    def name(self) -> str:
        """The broker as a user would name it for ``--broker``."""

    @property
    def version(self) -> str:
        """The release the running broker itself reports, e.g. ``4.0.8``. Known once started."""

    @property
    def addresses(self) -> Addresses:
        """Where it listens; the same before and after a restart. Known once started."""

    @property
    def configuration(self) -> Mapping[str, str]:
        """The settings that the suite gave it first, by their names in ``broker.conf``; empty for external brokers."""

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What may be asked of it besides talking to it."""

    def load_agents(self) -> tuple[AgentAddress, ...]:
        """See to it that its processes have an agent inside; returns where defects are switched on then."""

    def start(self) -> None:
        """Start it, or start it again on the same data and addresses after ``kill``, and wait until it is ready."""

    def restart(self, settings: Mapping[str, str] | None = None) -> None:
        """Stop it gracefully and start it again on the same data and addresses, with ``settings`` on top of its own.

        Those stay until a restart with others; with none at all (``{}``) it is back to its own.
        """

    def kill(self) -> None:
        """End its process with SIGKILL, keeping its data; ``start`` brings it back."""

    def pause(self) -> None:
        """Freeze its process (SIGSTOP), connections stay open."""

    def resume(self) -> None:
        """Let a paused process go on."""

    def is_alive(self) -> bool:
        """Whether the process (or, external, the admin address) answers for itself right now."""

    def stop(self) -> None:
        """End it and remove everything that was made for it. Safe to call twice."""

    def log_tail(self, *, lines: int = 50) -> str:
        """The last lines of its log, for the report of a harness error; empty where there is none."""
