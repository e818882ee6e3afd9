"""``soak``: runs many clients and faults on one broker, records a history, and shows anomalies."""

from __future__ import annotations

import time

from rich.console import Console

from conformance.commands.supervision.interrupts import INTERRUPTED, at_first_interrupt
from conformance.commands.supervision.on_cluster import on_cluster
from conformance.commands.supervision.open_files import demand_open_files
from conformance.commands.supervision.packages import demand_installed
from conformance.ended import EndedProcesses, ProcessEnd
from conformance.harness_error import HarnessError
from conformance.report import soak as report
from conformance.soak.request import SoakProgress, SoakRequest
from conformance.verdicts import OF_CRASHES


def soak(asked: SoakRequest, *, out: Console, err: Console) -> int:
    """Run a soak, show its progress on ``err`` and its result on ``out``; returns the exit status.

    That is 1 if a process of the release ended although the soak did not end it, and 2 if one of the suite did.

    Raises:
        HarnessError: pyarrow is not installed, or the soak failed.
    """
    demand_open_files()
    demand_installed(("pyarrow",), "soak")
    from conformance.brokers.select import demand_settings
    from conformance.soak.run import soak as run  # here, because `check` does not need pyarrow

    if any(asked.history.glob("bucket-*")):
        raise HarnessError(f"there is a history in {asked.history} already; name another folder")
    demand_settings(asked.broker, dict(asked.settings))
    with EndedProcesses() as ended:
        with on_cluster(asked.broker, asked.footprint, asked.security, err=err), report.display(err) as shown:
            watcher = _Watcher(shown, ended)
            try:
                with at_first_interrupt(watcher.end):
                    result = run(asked, watcher)
            except HarnessError as harness_error:
                watcher.say_ended()
                if not watcher.has_crashed:
                    raise
                shown.say(f"The soak could not go on: {harness_error}", time.monotonic())
                return 1
        watcher.say_ended()
    report.show(result, asked, out)
    for sentence in watcher.ended_in_words:
        out.print(sentence, markup=False, highlight=False, soft_wrap=True)
    if watcher.ended:
        return 1 if watcher.has_crashed else 2
    return INTERRUPTED if watcher.wants_end else 0


class _Watcher:
    """Shows the progress of a soak, and ends its load at an interrupt."""

    def __init__(self, shown: report.SoakDisplay, listener: EndedProcesses) -> None:
        self._shown = shown
        self._listener = listener
        self.wants_end = False
        self.ended: list[ProcessEnd] = []
        """The processes that ended although the soak did not end them."""
        self.ended_in_words: list[str] = []

    @property
    def has_crashed(self) -> bool:
        """Whether one of them is of the release."""
        return any(one.is_of_release for one in self.ended)

    def show(self, state: SoakProgress) -> None:
        self.say_ended()
        self._shown.show(state)

    def say_ended(self) -> None:
        """Show the processes that have ended since the last call."""
        for one in self._listener.new():
            self.ended.append(one)
            what = f"{OF_CRASHES} is violated" if one.is_of_release else "Harness error"
            self.ended_in_words.append(f"{what}: {one.sentence(self._listener.memory_kills)}")
            log = "".join(f"\n  | {line}" for line in one.log_tail.splitlines())
            self._shown.say(f"{self.ended_in_words[-1]}{log}", time.monotonic())

    def end(self) -> None:
        self.wants_end = True
        self._shown.say("Interrupted: quiescing and reading back (once more to stop at once)", time.monotonic())
