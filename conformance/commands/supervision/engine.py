"""Starts the engine: pytest in a process of its own, with the suite's plugin and the machines by name.

Pytest finds the machines; this module imports none. The engine imports nothing from the working directory, and ignores
pytest's configuration there.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from conformance.brokers.size import SMALLEST, Size
from conformance.clients.security.service import NO_SECURITY, Security
from model.rules.catalogue import Rule

if TYPE_CHECKING:
    from conformance.brokers.settings import Choice
    from conformance.clients.driver.connect import DriverCommand
    from conformance.known import KnownDeviation
    from conformance.tenancy.footprint import Footprint

PYTEST = (
    *(sys.executable, "-P", "-m", "pytest"),
    *("-p", "conformance.commands.supervision.lifeline"),
    *("-p", "conformance.pytest_plugin"),
    *("-p", "conformance.engine.plugin"),
    *("-p", "no:cacheprovider"),
    *("-c", os.devnull),
    "--noconftest",
    *("--import-mode", "importlib"),
    *("--pyargs", "stateful"),
)
"""The engine's command, to which its options are appended."""


def _obtain(broker: str, security: Security) -> None:
    """Fetch what a broker needs. Imported here because its libraries take half a second to load."""
    from conformance.brokers.select import obtain_broker

    obtain_broker(broker, security)


Settings = Sequence[tuple[str, str]]
"""Names and values."""


def _demand(broker: str, settings: Settings, choice: Choice | None, size: Size) -> None:
    from conformance.brokers.select import demand_settings, demand_size

    demand_size(broker, size)
    demand_settings(broker, dict(settings), choice)


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """The command that runs the machines, and the checks before its budget begins.

    ``obtain`` fetches the broker of ``--broker``, and ``demand`` checks settings and the size of the deployment; both
    raise HarnessError. ``security`` has the options for the connection. The engine receives them through a pipe,
    because every user of the machine can read its command line.
    """

    command: tuple[str, ...] = PYTEST
    obtain: Callable[[str, Security], None] = _obtain
    demand: Callable[[str, Settings, Choice | None, Size], None] = _demand
    security: Security = NO_SECURITY
    client: str | None = None
    """The value of ``--client``; None: the pulsar-client that is installed here."""

    def run_by(self, python: Path) -> Engine:
        """The same with the Python of another environment, which has another pulsar-client."""
        return replace(self, command=(str(python), *self.command[1:]))

    def with_drivers(self, drivers: Iterable[DriverCommand | None]) -> Engine:
        """The same with these drivers' clients; None: pulsar-client among them."""
        text = msgspec.json.encode(list(drivers)).decode()
        return replace(self, command=(*self.command, "--pulsar-drivers", text))

    def secured(self, security: Security) -> Engine:
        """The same with these options for the connection."""
        return replace(self, security=security)


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A run of the engine.

    ``replay``: a history and how many times to run it, instead of the machines. ``stop_at_first``: no further machine
    runs after a violation. ``shortening_s``: the time for shortening histories, on top of the budget instead of within
    it. ``footprint``: what the run may leave on a running cluster. ``lanes``: how many examples run at once.
    ``coverage``: the file with the choices of earlier runs.
    """

    broker: str
    seed: int
    budget_s: float
    rules: Sequence[Rule]
    report: Path
    known: Iterable[KnownDeviation] = ()
    defect: str | None = None
    machines: Sequence[str] = ()
    settings: Settings = ()
    choice: Choice = "quick"
    size: Size = SMALLEST
    replay: tuple[Path, int] | None = None
    stop_at_first: bool = False
    shortening_s: float | None = None
    footprint: Footprint | None = None
    lanes: int = 1
    coverage: Path | None = None

    def options(self) -> list[str]:
        options = [
            *("--rootdir", str(self.report)),
            *("--pulsar-broker", self.broker),
            *("--pulsar-seed", str(self.seed)),
            *("--pulsar-budget-s", f"{self.budget_s:g}"),
            *("--pulsar-rules", ",".join(rule.id for rule in self.rules)),
            *("--pulsar-known", ",".join(deviation.name for deviation in self.known)),
            *("--pulsar-report", str(self.report)),
        ]
        if self.footprint is not None:
            options += self.footprint.options()
        if self.defect is not None:
            options += ["--pulsar-defect", self.defect]
        if self.machines:
            options += ["-k", " or ".join(f"[{name}]" for name in self.machines)]  # a machine is its test's parameter
        if self.choice != "quick":
            options += ["--pulsar-settings", self.choice]
        for option, number in (("--pulsar-brokers", self.size.brokers), ("--pulsar-bookies", self.size.bookies)):
            if number > 1:
                options += [option, str(number)]
        for name, value in self.settings:
            options += ["--pulsar-setting", f"{name}={value}"]
        if self.replay is not None:
            history, times = self.replay
            options += ["--pulsar-replay", str(history), "--pulsar-times", str(times)]
        if self.stop_at_first:
            options.append("--exitfirst")
        if self.lanes != 1:
            options += ["--pulsar-lanes", str(self.lanes)]
        if self.coverage is not None:
            options += ["--pulsar-coverage", str(self.coverage)]
        if self.shortening_s is not None:
            options += ["--pulsar-shortening-s", f"{self.shortening_s:g}"]
        return options
