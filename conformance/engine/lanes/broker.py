"""The broker of a lane, which requests kills and restarts from the engine, the owner of the process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Literal

from conformance.brokers.interface import Addresses, AgentAddress, Capability
from conformance.engine.lanes.protocol import Begin, HostAnswer
from conformance.harness_error import HarnessError, NotReady


class SharedBroker:
    """A started broker that other lanes use, too. It is killed and restarted for all of them at once.

    :meth:`kill` returns after the restart, so :meth:`start` does nothing.
    """

    def __init__(self, begin: Begin, ask: Callable[[Literal["agents", "is_alive", "bounce"]], HostAnswer]) -> None:
        """``ask`` sends a request to the engine."""
        self._begin = begin
        self._ask = ask
        self.name: Final = begin.name
        self.version: Final = begin.version
        self.addresses: Final[Addresses] = begin.addresses
        self.configuration: Final[Mapping[str, str]] = begin.configuration
        self.capabilities: Final[frozenset[Capability]] = begin.capabilities

    def load_agents(self) -> tuple[AgentAddress, ...]:
        """Load the agent with all failpoints into its processes."""
        return self._answer("agents").agents

    def start(self) -> None:
        """Do nothing: it is running."""

    def restart(self, settings: Mapping[str, str] | None = None) -> None:
        """Request a restart for all lanes."""
        if settings is not None:
            raise HarnessError("a broker that lanes share keeps its settings")
        self._answer("bounce")

    def kill(self) -> None:
        """Request a kill and a start for all lanes."""
        self._answer("bounce")

    def pause(self) -> None:
        """Raise HarnessError: lanes do not freeze it."""
        raise HarnessError("a broker that lanes share is not frozen")

    def resume(self) -> None:
        """Raise HarnessError, as :meth:`pause`."""
        self.pause()

    def is_alive(self) -> bool:
        return self._answer("is_alive").is_alive

    def ended_with(self) -> int | None:
        return self._answer("is_alive").ended_with

    def stop(self) -> None:
        """Do nothing: the engine stops it."""

    def log_tail(self, *, lines: int = 50) -> str:  # noqa: ARG002 - as brokers have it
        """Return nothing: the engine has its log."""
        return ""

    def _answer(self, what: Literal["agents", "is_alive", "bounce"]) -> HostAnswer:
        answer = self._ask(what)
        if answer.failure is not None:
            raise NotReady(answer.failure) if answer.is_not_ready else HarnessError(answer.failure)
        return answer
