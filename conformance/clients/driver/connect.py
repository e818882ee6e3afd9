"""The clients of a run: pulsar-client in this process, unless drivers were chosen, one or several.

A driver's process is started with the first client. After a failure the next client starts another. Each lane has
processes of its own; so has each client of a driver that cannot abort one.
"""

from __future__ import annotations

import atexit
import threading
from dataclasses import dataclass
from typing import Final

from conformance.clients.driver.client import OfficialClient, client_version
from conformance.clients.driver.features import DECLARED
from conformance.clients.driver.interface import ReleasedClient
from conformance.clients.driver.process import DriverProcess
from conformance.clients.driver.remote import RemoteClient
from conformance.clients.names import PULSAR_CLIENT
from conformance.clients.security.service import Service
from conformance.clients.versions import client_versions, versions_of
from conformance.harness_error import HarnessError


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverCommand:
    """What starts a driver: ``name``, such as ``java:4.0.8``, is its name in sentences."""

    name: str
    command: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientInfo:
    """A client in use: its name, version and features."""

    name: str
    version: str
    features: frozenset[str]

    @property
    def library(self) -> str:
        """Its name in operations: ``java:4.0.8``."""
        return f"{self.name}:{self.version}"


class _Chosen:
    """A chosen client: the process of its driver; without a command, pulsar-client in this process."""

    def __init__(self, command: DriverCommand | None) -> None:
        self.command: Final = command
        self._process: DriverProcess | None = None
        self._lock = threading.Lock()

    def process(self) -> DriverProcess | None:
        with self._lock:
            if self.command is None:
                return None
            if self._process is None or self._process.failure is not None:
                self._process = DriverProcess(self.command.command, name=self.command.name)
            return self._process

    def info(self) -> ClientInfo:
        """Raises ``HarnessError`` if its driver does not start."""
        driver = self.process()
        if driver is None:
            return ClientInfo(name=PULSAR_CLIENT, version=client_version(), features=DECLARED)
        hello = driver.hello
        return ClientInfo(name=hello.client, version=hello.version, features=frozenset(hello.features))

    def connect(self, service: Service | str, *, timeout_s: float) -> ReleasedClient:
        driver = self.process()
        if driver is None:
            return OfficialClient(service, timeout_s=timeout_s)
        if "abort" in driver.hello.features:
            return RemoteClient(driver, service, timeout_s=timeout_s)
        own = driver.another()
        try:
            return RemoteClient(own, service, timeout_s=timeout_s, owns_driver=True)
        except BaseException:
            own.kill()
            raise

    def close(self) -> None:
        with self._lock:
            if self._process is not None:
                self._process.close()
                self._process = None


_chosen: list[_Chosen] = [_Chosen(None)]


@atexit.register
def _close() -> None:
    for one in _chosen:
        one.close()


def use(*commands: DriverCommand | None) -> None:
    """Use these drivers' clients in this process from now on; None: pulsar-client."""
    _close()
    _chosen[:] = [_Chosen(one) for one in commands or (None,)]


def used() -> tuple[DriverCommand | None, ...]:
    """The drivers in use, for the lanes; None: pulsar-client."""
    return tuple(one.command for one in _chosen)


def connect(service: Service | str, *, timeout_s: float, library: str | None = None) -> ReleasedClient:
    """Make a client: of this ``library``, or of the first one in use.

    Raises what is in ``CLIENT_ERRORS``, and ``HarnessError``.
    """
    return _of(library).connect(service, timeout_s=timeout_s)


def libraries() -> tuple[str, ...]:
    """The clients among which a machine chooses; none if there is only pulsar-client."""
    return () if used() == (None,) else tuple(info.library for info in client_infos())


def versions() -> dict[str, str]:
    """The versions of the wire client and of the clients in use, by their names in events."""
    if used() == (None,):
        return client_versions()
    return versions_of((info.name, info.version) for info in client_infos())


def client_infos() -> tuple[ClientInfo, ...]:
    """The clients in use. Raises ``HarnessError`` if a driver does not start."""
    return tuple(one.info() for one in _chosen)


def client_info(library: str | None = None) -> ClientInfo:
    """The client that :func:`connect` makes for this library. Raises ``HarnessError`` if its driver does not start."""
    return _of(library).info()


def _of(library: str | None) -> _Chosen:
    """The client of this library, or else of another version of it. A run with one client performs all with that."""
    if library is None or len(_chosen) == 1:
        return _chosen[0]
    infos = [(one.info(), one) for one in _chosen]
    same = [one for info, one in infos if info.library == library]
    alike = [one for info, one in infos if info.name == library.partition(":")[0]]
    for found in (*same, *alike):
        return found
    there = ", ".join(info.library for info, _ in infos)
    raise HarnessError(f"the client {library} is not among those of this run: {there}")
