"""``driver-test``: prints a line for each check of the contract of drivers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rich.console import Console

from conformance.clients.driver.process import DriverProcess
from conformance.drivers.contract.checks import CHECKS, OF_END
from conformance.drivers.contract.run import Outcome, Result, run
from conformance.known.failures import KnownFailures, read_failures

_MARKS: Final[dict[Outcome, str]] = {"kept": "ok", "broken": "FAILED", "not declared": "not declared"}


def driver_test(
    command: Sequence[str], out: Console, *, known_failing: Path | None = None, known_flaky: Path | None = None
) -> int:
    """Print the results; returns the exit status. Raises HarnessError if the driver does not start.

    ``known_failing``: a file of checks that the client fails. One of them that passes is stale, and fails the run.
    ``known_flaky``: those that it fails now and then.
    """
    checks = [*(check.name for check in CHECKS), OF_END]
    known = read_failures(known_failing, known_flaky, kind="check of drivers", possible=checks)

    def greet(driver: DriverProcess) -> None:
        hello = driver.hello
        _say(out, f"{hello.client} {hello.version}, features: {', '.join(sorted(hello.features)) or 'none'}")

    broken = 0
    for result in run(command, name=Path(command[0]).name, on_start=greet):
        mark, is_bad = _judged(result, known)
        broken += is_bad
        _say(out, f"{mark:<12}  {result.check}")
        if result.why:
            _say(out, f"              {result.why}")
    _say(out, "It keeps its contract." if not broken else f"It breaks its contract in {broken} of the checks.")
    return int(bool(broken))


def _judged(result: Result, known: KnownFailures) -> tuple[str, bool]:
    """The mark of a result, and whether it fails the run."""
    if result.outcome == "broken" and (excuse := known.excuse(result.check)) is not None:
        return excuse, False
    if result.outcome == "kept" and result.check in known.failing:
        return "STALE", True
    return _MARKS[result.outcome], result.outcome == "broken"


def _say(out: Console, line: str) -> None:
    out.print(line, markup=False, highlight=False, soft_wrap=True)
