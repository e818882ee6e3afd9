"""The clients that a run can have: pulsar-client in this process, or a driver, by name.

``java:4.0.8`` and ``go:0.19.0`` are releases of clients that the suite has drivers of. ``driver:COMMAND`` starts any
other. What a driver needs is fetched and built on first use, into the cache.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from conformance.clients.driver.connect import DriverCommand
from conformance.drivers.environment import python_with_client
from conformance.drivers.go import build as go
from conformance.drivers.java import build as java
from conformance.drivers.rust import build as rust
from conformance.drivers.tools import Say


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverOf:
    """The driver of a client, whose releases ``cached`` finds in the names of the cache's folder."""

    command: Callable[[str, Say], tuple[str, ...]]
    example: str
    what: str
    cached: re.Pattern[str]


def driver_of(name: str, say: Say) -> DriverCommand:
    """The command of the driver with this name; ``say`` receives one line before a long step.

    Raises :class:`HarnessError` if it is not available.
    """
    kind, _, what = name.partition(":")
    command = tuple(shlex.split(what)) if kind == "driver" else DRIVERS[kind].command(what, say)
    return DriverCommand(name=name, command=command)


def _python(version: str, say: Say) -> tuple[str, ...]:
    return (str(python_with_client(version, say)), "-P", "-m", "conformance.drivers.python")


DRIVERS: Final[Mapping[str, DriverOf]] = {
    "python": DriverOf(
        command=_python,
        example="python:3.12.0",
        what="pulsar-client behind a driver",
        cached=re.compile(r"pulsar-client-(\d[^-]*)-cpython.*"),
    ),
    "java": DriverOf(
        command=java.driver,
        example="java:4.0.8",
        what="Pulsar's Java client behind a driver; needs a JDK",
        cached=re.compile(r"pulsar-client-java-(.+)"),
    ),
    "go": DriverOf(
        command=go.driver,
        example="go:0.19.0",
        what="Pulsar's Go client behind a driver; needs Go",
        cached=re.compile(r"go-driver-(.+)-[0-9a-f]{12}"),
    ),
    "rust": DriverOf(
        command=rust.driver,
        example="rust:6.9.1",
        what="the crate pulsar behind a driver; needs Rust",
        cached=re.compile(r"rust-driver-(.+)-[0-9a-f]{12}"),
    ),
}
"""By the names in :data:`conformance.clients.names.DRIVEN`."""
