"""A running Pulsar of somebody else: a service address and an admin address.

Nothing is started, ended or configured here, so that rules which need the process to be killed or frozen are not
decided on it. TLS and authentication are the user's to say (``Addresses.security``).
"""

from __future__ import annotations

from collections.abc import Mapping

from conformance.brokers.interface import Addresses, AgentAddress, Capability
from conformance.clients.admin.client import Admin
from conformance.clients.diagnosis import require_usable
from conformance.harness_error import HarnessError

ANSWER_TIMEOUT_S = 2.0


class ExternalBroker:
    """A cluster that runs already, at ``pulsar://host:port`` and ``http://host:port``, or the same with TLS."""

    def __init__(self, addresses: Addresses) -> None:
        self._addresses = addresses
        self._version: str | None = None

    @property
    def name(self) -> str:
        """Both addresses, as they are written for ``--broker``."""
        return f"{self._addresses.service_url},{self._addresses.admin_url}"

    @property
    def version(self) -> str:
        """The release that it reported when it was first asked."""
        if self._version is None:
            raise HarnessError(f"The broker at {self._addresses.admin_url} has not been asked for its version yet.")
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

    def load_agents(self) -> tuple[AgentAddress, ...]:
        """Raise HarnessError."""
        raise self._out_of_reach("given an agent")

    def start(self) -> None:
        """See whether it can be used, and learn its version.

        Raises:
            HarnessError: it cannot; the cause, within three seconds.
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

    def stop(self) -> None:
        """Do nothing: it is not ours to end."""

    def log_tail(self, *, lines: int = 50) -> str:  # noqa: ARG002 - the interface's parameter
        """Return nothing: its log is out of reach."""
        return ""

    def _out_of_reach(self, what: str) -> HarnessError:
        return HarnessError(f"The broker {self.name} runs elsewhere and cannot be {what} by the suite.")
