"""The client processes of a soak, seen from the soak: started, given orders, listened to, ended.

Ctrl-C reaches the soak alone. When the soak is gone, however it ended, its clients write their histories and end.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from conformance.harness_error import HarnessError
from conformance.workers.client_plan import ClientPlan
from conformance.workers.protocol import (
    Close,
    Counts,
    GaveUp,
    LoadOrder,
    Order,
    Quiet,
    Ready,
    Reconnect,
    Report,
    read_report,
)
from conformance.workers.starter import Starter

MODULE: Final = "conformance.soak.worker"
END_TIMEOUT_S: Final = 60.0
"""How long a client may take to write its history."""


class ClientProcess:
    """One client process."""

    def __init__(self, starter: Starter[Report], plan: ClientPlan, log: Path) -> None:
        """Start it; its standard error goes into ``log``."""
        self.plan = plan
        self.counts = Counts()
        self.is_ready = self.is_quiet = False
        self._failure: str | None = None
        self._log = log
        self._is_ending = False
        self._worker = starter.run(LoadOrder(plan, str(log)))
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def send(self, order: Order) -> None:
        """Send it an order; :meth:`check` says whether it is still there."""
        self._is_ending = self._is_ending or isinstance(order, Close)
        self._worker.send(order)

    def check(self) -> None:
        """Raise HarnessError if it cannot go on, or is gone."""
        if self._failure is not None:
            raise HarnessError(f"{self.plan.lane}: {self._failure}")
        if not self._listener.is_alive() and not self._is_ending:
            last = self._log.read_text(errors="replace").strip().splitlines() if self._log.is_file() else []
            raise HarnessError(f"{self.plan.lane} ended without a report; it wrote last: {(last or ['nothing'])[-1]}")

    def await_end(self) -> None:
        """Wait until it has ended, if it does in time."""
        self._is_ending = True
        self._listener.join(END_TIMEOUT_S)

    def _listen(self) -> None:
        try:
            while (report := self._worker.receive(None)) is not None:
                match report:
                    case Counts() as counts:
                        self.counts = counts
                    case Ready():
                        self.is_ready = True
                    case Quiet():
                        self.is_quiet = True
                    case GaveUp(why):
                        self._failure = why
                    case _:
                        self._failure = f"it reported what is not for a soak: {report}"
        except HarnessError as crashed:
            self._failure = str(crashed)


class Clients:
    """All client processes of a soak."""

    def __init__(self, plans: Sequence[ClientPlan], folder: Path) -> None:
        """Start them; their logs go into ``folder``."""
        self._starter = Starter(MODULE, read_report, end_timeout_s=END_TIMEOUT_S)
        self._all = [ClientProcess(self._starter, plan, folder / f"{plan.lane}.log") for plan in plans]

    @property
    def counts(self) -> Counts:
        """What all of them did."""
        return sum((one.counts for one in self._all), Counts())

    @property
    def are_ready(self) -> bool:
        """Whether everything is open everywhere."""
        return all(one.is_ready for one in self._all)

    @property
    def are_quiet(self) -> bool:
        """Whether no send is in flight any more."""
        return all(one.is_quiet for one in self._all)

    def check(self) -> None:
        """Raise HarnessError if one of them cannot go on."""
        for one in self._all:
            one.check()

    def send(self, order: Order, *, number: int | None = None) -> None:
        """Send an order to all of them, or to the one with this number, modulo their count."""
        for one in self._all if number is None else [self._all[number % len(self._all)]]:
            one.send(order)

    def reconnect(self, topic: str, subscription: str, *, cluster: str | None = None) -> None:
        """Have the consumers of a subscription close and subscribe again, at this cluster if one is named."""
        self.send(Reconnect(topic=topic, subscription=subscription, cluster=cluster))

    def end(self) -> None:
        """End them all, and the process that they were forked from. Safe to call twice."""
        self.send(Close())
        for one in self._all:
            one.await_end()
        self._starter.close()
