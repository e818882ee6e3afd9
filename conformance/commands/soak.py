"""``soak``: runs many clients and faults on one broker, records a history, and shows anomalies."""

from __future__ import annotations

import time

from rich.console import Console

from conformance.commands.supervision.interrupts import INTERRUPTED, at_first_interrupt
from conformance.commands.supervision.on_cluster import on_cluster
from conformance.commands.supervision.packages import demand_installed
from conformance.harness_error import HarnessError
from conformance.report import soak as report
from conformance.soak.request import SoakProgress, SoakRequest


def soak(asked: SoakRequest, *, out: Console, err: Console) -> int:
    """Run a soak, show its progress on ``err`` and its result on ``out``; returns the exit status.

    Raises:
        HarnessError: pyarrow is not installed, or the soak failed.
    """
    demand_installed(("pyarrow",), "soak")
    from conformance.brokers.select import demand_settings
    from conformance.soak.run import soak as run  # here, because `check` does not need pyarrow

    if any(asked.history.glob("bucket-*")):
        raise HarnessError(f"there is a history in {asked.history} already; name another folder")
    demand_settings(asked.broker, dict(asked.settings))
    with on_cluster(asked.broker, asked.footprint, asked.security, err=err), report.display(err) as shown:
        watcher = _Watcher(shown)
        with at_first_interrupt(watcher.end):
            result = run(asked, watcher)
    report.show(result, asked, out)
    return INTERRUPTED if watcher.wants_end else 0


class _Watcher:
    """Shows the progress of a soak, and ends its load at an interrupt."""

    def __init__(self, shown: report.SoakDisplay) -> None:
        self._shown = shown
        self.wants_end = False

    def show(self, state: SoakProgress) -> None:
        self._shown.show(state)

    def end(self) -> None:
        self.wants_end = True
        self._shown.say("Interrupted: quiescing and reading back (once more to stop at once)", time.monotonic())
