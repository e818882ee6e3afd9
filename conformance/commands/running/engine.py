"""How the engine is started: pytest, in a process of its own, with the suite's plugin and the machines by name.

Nothing of the machines is imported here; pytest finds them. The configuration of whatever project the user stands in
is kept out of it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from conformance.brokers.size import SMALLEST, Size
from conformance.clients.security.service import NO_SECURITY, Security
from model.rules.catalogue import Rule

if TYPE_CHECKING:
    from conformance.brokers.settings import Choice
    from conformance.known import KnownDeviation
    from conformance.tenancy.footprint import Footprint

PYTEST = (
    *(sys.executable, "-m", "pytest"),
    *("-p", "conformance.commands.running.lifeline"),
    *("-p", "conformance.pytest_plugin"),
    *("-p", "conformance.engine.plugin"),
    *("-p", "no:cacheprovider"),
    *("-c", os.devnull),
    *("--pyargs", "stateful"),
)
"""The engine's command, to which its options are appended."""


def _obtain(broker: str, security: Security) -> None:
    """Fetch what a broker needs. Imported here because the libraries behind it take half a second to load."""
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
    """What runs the machines: the command to start it, and what must be had before its time begins to count.

    ``obtain`` takes the text after ``--broker``; HarnessError when there is no such broker or it cannot be had.
    ``demand`` takes that text, the user's settings, what they go on top of, where the user said that, and the size of
    the deployment; HarnessError when the broker cannot be given them. ``security`` says how to connect to it; the
    engine is given that through a pipe, as its command line is for all to see.
    """

    command: tuple[str, ...] = PYTEST
    obtain: Callable[[str, Security], None] = _obtain
    demand: Callable[[str, Settings, Choice | None, Size], None] = _demand
    security: Security = NO_SECURITY

    def run_by(self, python: Path) -> Engine:
        """The same, run by another environment's Python."""
        return replace(self, command=(str(python), *self.command[1:]))

    def secured(self, security: Security) -> Engine:
        """The same, which connects like this."""
        return replace(self, security=security)


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What the engine is asked to do.

    ``replay``: a history, and how many times to run it, instead of the machines. ``stop_at_first``: no other machine
    runs once one has found something. ``shortening_s``: how long histories may be made short, on top of the budget,
    instead of within it. ``footprint``: what it may leave on a running cluster while it goes on. ``lanes``: how many
    examples run at once.
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

    def options(self) -> list[str]:
        """The options of the engine's command line that say so."""
        told = [
            *("--rootdir", str(self.report)),
            *("--pulsar-broker", self.broker),
            *("--pulsar-seed", str(self.seed)),
            *("--pulsar-budget-s", f"{self.budget_s:g}"),
            *("--pulsar-rules", ",".join(rule.id for rule in self.rules)),
            *("--pulsar-known", ",".join(deviation.name for deviation in self.known)),
            *("--pulsar-report", str(self.report)),
        ]
        if self.footprint is not None:
            told += self.footprint.options()
        if self.defect is not None:
            told += ["--pulsar-defect", self.defect]
        if self.machines:
            told += ["-k", " or ".join(f"[{name}]" for name in self.machines)]  # a machine is its test's parameter
        if self.choice != "quick":
            told += ["--pulsar-settings", self.choice]
        for option, number in (("--pulsar-brokers", self.size.brokers), ("--pulsar-bookies", self.size.bookies)):
            if number > 1:
                told += [option, str(number)]
        for name, value in self.settings:
            told += ["--pulsar-setting", f"{name}={value}"]
        if self.replay is not None:
            history, times = self.replay
            told += ["--pulsar-replay", str(history), "--pulsar-times", str(times)]
        if self.stop_at_first:
            told.append("--exitfirst")
        if self.lanes != 1:
            told += ["--pulsar-lanes", str(self.lanes)]
        if self.shortening_s is not None:
            told += ["--pulsar-shortening-s", f"{self.shortening_s:g}"]
        return told
