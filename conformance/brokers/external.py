"""A running Pulsar of somebody else: a service address and an admin address.

Nothing is started, ended or configured here, so that rules which need the process to be killed or frozen are not
decided on it. A cluster with authentication or TLS is not covered yet.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from conformance.brokers.interface import Addresses, AgentAddress, Capability
from conformance.brokers.probe import Probe
from conformance.trouble import Trouble

_POLL_S = 0.1


class ExternalBroker:
    """A cluster that runs already, at ``pulsar://host:port`` and ``http://host:port``.

    ``deadline_s`` is how long ``start`` waits for it to answer.
    """

    def __init__(self, addresses: Addresses, *, deadline_s: float = 20.0) -> None:
        self._addresses = addresses
        self._deadline_s = deadline_s
        self._probe = Probe(addresses.admin_url)
        self._version: str | None = None

    @property
    def name(self) -> str:
        """Both addresses, as they are written for ``--broker``."""
        return f"{self._addresses.service_url},{self._addresses.admin_url}"

    @property
    def version(self) -> str:
        """The release that it reported when it was first asked."""
        if self._version is None:
            raise Trouble(f"The broker at {self._addresses.admin_url} has not been asked for its version yet.")
        return self._version

    @property
    def addresses(self) -> Addresses:
        """Where it listens."""
        return self._addresses

    @property
    def configuration(self) -> Mapping[str, str]:
        """Nothing: the suite does not configure it."""
        return {}

    @property
    def capabilities(self) -> frozenset[Capability]:
        """None of them."""
        return frozenset()

    @property
    def agent(self) -> AgentAddress | None:
        """None."""
        return None

    def start(self) -> None:
        """Wait until it answers, and learn its version.

        Raises:
            Trouble: nothing like a broker answered at the admin address in time.
        """
        end = time.monotonic() + self._deadline_s
        while (version := self._probe.version()) is None:
            if time.monotonic() > end:
                raise Trouble(
                    f"No broker answered at {self._addresses.admin_url} within {self._deadline_s:g} s "
                    "when asked for its version."
                )
            time.sleep(_POLL_S)
        self._version = version

    def restart(self, settings: Mapping[str, str] | None = None) -> None:  # noqa: ARG002  (as all brokers have it)
        """Raise Trouble."""
        raise self._out_of_reach("restarted")

    def kill(self) -> None:
        """Raise Trouble."""
        raise self._out_of_reach("killed")

    def pause(self) -> None:
        """Raise Trouble."""
        raise self._out_of_reach("paused")

    def resume(self) -> None:
        """Raise Trouble."""
        raise self._out_of_reach("resumed")

    def is_alive(self) -> bool:
        """Whether the admin address answers right now."""
        return self._probe.version() is not None

    def stop(self) -> None:
        """Do nothing: it is not ours to end."""

    def log_tail(self, *, lines: int = 50) -> str:  # noqa: ARG002 - the interface's parameter
        """Return nothing: its log is out of reach."""
        return ""

    def _out_of_reach(self, what: str) -> Trouble:
        return Trouble(f"The broker {self.name} runs elsewhere and cannot be {what} by the suite.")
