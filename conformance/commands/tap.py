"""``tap``: records an application from outside until Ctrl-C, and shows what passes."""

from __future__ import annotations

import time

from rich.console import Console

from conformance.commands.supervision.interrupts import at_first_interrupt
from conformance.commands.supervision.open_files import demand_open_files
from conformance.commands.supervision.packages import demand_installed
from conformance.harness_error import HarnessError
from conformance.report import tap as report
from conformance.tap.request import TapRequest
from conformance.wait import wait_until

TICK_S = 0.5


def tap(asked: TapRequest, *, out: Console, err: Console) -> int:
    """Record until the first Ctrl-C, then read back; returns the exit status.

    Raises:
        HarnessError: pyarrow is not installed, the tap cannot listen, or it failed.
    """
    demand_open_files()
    demand_installed(("pyarrow",), "tap")
    from conformance.tap.run import Tap  # here, because it needs pyarrow

    if any(asked.history.glob("bucket-*")):
        raise HarnessError(f"there is a history in {asked.history} already; name another folder")
    asked.history.mkdir(parents=True, exist_ok=True)
    shown = report.TapDisplay(err)
    ending: list[bool] = []
    with at_first_interrupt(lambda: ending.append(True)):
        recording = Tap(asked, say=shown.say)
        shown.listening(asked, recording.url)

        def is_ended() -> bool:
            recording.check()
            shown.show(recording.counts, time.monotonic())
            return bool(ending)

        try:
            wait_until(is_ended, float("inf"), pause_s=TICK_S)
        finally:
            if asked.admin is not None:
                shown.say("Reading logs and cursors back (Ctrl-C ends without them)")
            result = recording.stop()
    report.show(result, asked, out)
    return 0
