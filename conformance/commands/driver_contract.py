"""``driver-test``: prints a line for each check of the contract of drivers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rich.console import Console

from conformance.clients.driver.process import DriverProcess
from conformance.drivers.contract.run import Outcome, run

_MARKS: Final[dict[Outcome, str]] = {"kept": "ok", "broken": "FAILED", "not declared": "not declared"}


def driver_test(command: Sequence[str], out: Console) -> int:
    """Print the results; returns the exit status. Raises HarnessError if the driver does not start."""

    def greet(driver: DriverProcess) -> None:
        hello = driver.hello
        _say(out, f"{hello.client} {hello.version}, features: {', '.join(sorted(hello.features)) or 'none'}")

    broken = 0
    for result in run(command, name=Path(command[0]).name, on_start=greet):
        _say(out, f"{_MARKS[result.outcome]:<12}  {result.check}")
        if result.why:
            broken += 1
            _say(out, f"              {result.why}")
    _say(out, "It keeps its contract." if not broken else f"It breaks its contract in {broken} of the checks.")
    return int(bool(broken))


def _say(out: Console, line: str) -> None:
    out.print(line, markup=False, highlight=False, soft_wrap=True)
