"""The client of a run: pulsar-client in this process, unless a driver was chosen.

A driver's process is started with the first client. After a failure the next client starts another. Each lane has a
process of its own; so has each client of a driver that cannot abort one.
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
from conformance.clients.security.service import Service
from conformance.clients.versions import client_versions

PULSAR_CLIENT: Final = "pulsar-client"


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverCommand:
    """What starts a driver: ``name``, such as ``java:4.0.8``, is its name in sentences."""

    name: str
    command: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientInfo:
    """The client in use: its name, version and features."""

    name: str
    version: str
    features: frozenset[str]


class _Chosen:
    """The chosen driver, and its process."""

    def __init__(self) -> None:
        self.command: DriverCommand | None = None
        self._process: DriverProcess | None = None
        self._lock = threading.Lock()

    def process(self) -> DriverProcess | None:
        with self._lock:
            if self.command is None:
                return None
            if self._process is None or self._process.failure is not None:
                self._process = DriverProcess(self.command.command, name=self.command.name)
            return self._process

    def close(self) -> None:
        with self._lock:
            if self._process is not None:
                self._process.close()
                self._process = None


_chosen: Final = _Chosen()
atexit.register(_chosen.close)


def use(command: DriverCommand | None) -> None:
    """Use this driver's client in this process from now on; None: pulsar-client."""
    _chosen.close()
    _chosen.command = command


def used() -> DriverCommand | None:
    """The driver in use, for the lanes; None: pulsar-client."""
    return _chosen.command


def connect(service: Service | str, *, timeout_s: float) -> ReleasedClient:
    """Make a client of the chosen kind. Raises what is in ``CLIENT_ERRORS``, and ``HarnessError``."""
    driver = _chosen.process()
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


def versions() -> dict[str, str]:
    """The versions of the wire client and of the client in use, by their names in events."""
    info = client_info()
    return client_versions(None if info.name == PULSAR_CLIENT else f"{info.name}:{info.version}")


def client_info() -> ClientInfo:
    """The client in use. Raises ``HarnessError`` if its driver does not start."""
    driver = _chosen.process()
    if driver is None:
        return ClientInfo(name=PULSAR_CLIENT, version=client_version(), features=DECLARED)
    hello = driver.hello
    return ClientInfo(name=hello.client, version=hello.version, features=frozenset(hello.features))
