"""A running cluster, with a service address and an admin address.

The suite does not start, stop or configure it, so it cannot decide rules that need a kill or a freeze. The user gives
TLS and authentication (``Addresses.security``).
"""

from __future__ import annotations

from collections.abc import Mapping

from conformance.brokers.interface import Addresses, AgentAddress, Capability
from conformance.clients.admin.client import Admin
from conformance.clients.diagnosis import require_usable
from conformance.harness_error import HarnessError

ANSWER_TIMEOUT_S = 2.0


class ExternalBroker:
    """A running cluster at ``pulsar://host:port`` and ``http://host:port``, or the same with TLS."""

    def __init__(self, addresses: Addresses) -> None:
        self._addresses = addresses
        self._version: str | None = None

    @property
    def name(self) -> str:
        """Both addresses, as for ``--broker``."""
        return f"{self._addresses.service_url},{self._addresses.admin_url}"

    @property
    def version(self) -> str:
        """The version that it reported at the start."""
        if self._version is None:
            raise HarnessError(f"The broker at {self._addresses.admin_url} has not been asked for its version yet.")
        return self._version

    @property
    def addresses(self) -> Addresses:
        """Its addresses."""
        return self._addresses

    @property
    def configuration(self) -> Mapping[str, str]:
        """Nothing: the suite does not configure it."""
        return {}

    @property
    def capabilities(self) -> frozenset[Capability]:
        """None of them."""
        return frozenset()

    def load_agents(self) -> tuple[AgentAddress, ...]:
        """Raise HarnessError."""
        raise self._out_of_reach("given an agent")

    def start(self) -> None:
        """Check that it can be used, and read its version.

        Raises:
            HarnessError: it cannot be used; with the cause, within three seconds.
        """
        require_usable(self._addresses.service, self._addresses.admin)
        with Admin(self._addresses.admin) as admin:
            self._version = admin.broker_version()

    def restart(self, settings: Mapping[str, str] | None = None) -> None:  # noqa: ARG002  (as all brokers have it)
        """Raise HarnessError."""
        raise self._out_of_reach("restarted")

    def kill(self) -> None:
        """Raise HarnessError."""
        raise self._out_of_reach("killed")

    def pause(self) -> None:
        """Raise HarnessError."""
        raise self._out_of_reach("paused")

    def resume(self) -> None:
        """Raise HarnessError."""
        raise self._out_of_reach("resumed")

    def is_alive(self) -> bool:
        """Whether the admin address answers right now."""
        try:
            with Admin(self._addresses.admin, timeout_s=ANSWER_TIMEOUT_S) as admin:
                return bool(admin.broker_version())
        except HarnessError:
            return False

    def ended_with(self) -> int | None:
        """Return None: the suite does not see its process."""
        return None

    def stop(self) -> None:
        """Do nothing: the suite did not start it."""

    def log_tail(self, *, lines: int = 50) -> str:  # noqa: ARG002 - the interface's parameter
        """Return nothing: the suite has no access to its log."""
        return ""

    def _out_of_reach(self, what: str) -> HarnessError:
        return HarnessError(f"The broker {self.name} runs elsewhere and cannot be {what} by the suite.")
