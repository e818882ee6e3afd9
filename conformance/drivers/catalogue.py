"""The clients that a run can have: pulsar-client in this process, or a driver, by name.

``java:4.0.8`` and ``go:0.19.0`` are releases of clients that the suite has drivers of. ``driver:COMMAND`` starts any
other. What a driver needs is fetched and built on first use, into the cache.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from typing import Final

from conformance.clients.driver.connect import DriverCommand
from conformance.drivers.environment import python_with_client
from conformance.drivers.go import build as go
from conformance.drivers.java import build as java
from conformance.drivers.tools import Say


def driver_of(name: str, say: Say) -> DriverCommand:
    """The command of the driver with this name; ``say`` receives one line before a long step.

    Raises :class:`HarnessError` if it is not available.
    """
    kind, _, what = name.partition(":")
    return DriverCommand(name=name, command=_COMMANDS[kind](what, say))


def _python(version: str, say: Say) -> tuple[str, ...]:
    return (str(python_with_client(version, say)), "-P", "-m", "conformance.drivers.python")


def _any(command: str, _say: Say) -> tuple[str, ...]:
    return tuple(shlex.split(command))


_COMMANDS: Final[Mapping[str, Callable[[str, Say], tuple[str, ...]]]] = {
    "driver": _any,
    "go": go.driver,
    "java": java.driver,
    "python": _python,
}
