"""The client processes of a soak, from outside: started, told what to do, listened to, ended.

They are no children of the terminal's process group, so that Ctrl-C reaches the soak alone. When the soak is gone,
however it ended, their input ends, and they put down their histories and end as well.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from conformance.harness_error import HarnessError
from conformance.soak.plan import ClientPlan
from conformance.soak.words import Counts, End, Failed, Heal, Order, Quiet, Ready, encode, word

COMMAND: Final = (sys.executable, "-m", "conformance.soak.client")
END_TIMEOUT_S: Final = 60.0
"""How long a client may take to put down its history."""


class ClientProcess:
    """One of them."""

    def __init__(self, plan: ClientPlan, log: Path) -> None:
        """Start it; what it says on standard error goes into ``log``."""
        self.plan = plan
        self.counts = Counts()
        self.is_ready = self.is_quiet = False
        self._failure: str | None = None
        self._log = log
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
            )
        self._is_ending = False
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        self._write(msgspec.json.encode(plan) + b"\n")

    def tell(self, order: Order) -> None:
        """Tell it what to do; :meth:`check` says whether it is still there."""
        self._is_ending = self._is_ending or isinstance(order, End)
        self._write(encode(order))

    def check(self) -> None:
        """Raise HarnessError if it cannot go on, or is gone."""
        if self._failure is not None:
            raise HarnessError(f"{self.plan.lane}: {self._failure}")
        if self._process.poll() is not None and not self._is_ending:
            said = self._log.read_text(errors="replace").strip().splitlines() or ["nothing"]
            raise HarnessError(f"{self.plan.lane} ended with status {self._process.returncode}; it said: {said[-1]}")

    def end(self) -> None:
        """See it end; kill it if it does not. Safe to call twice."""
        self._is_ending = True
        stdin = self._process.stdin
        assert stdin is not None
        with contextlib.suppress(OSError):
            stdin.close()  # what it could not be told does not matter any more
        try:
            self._process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._listener.join()

    def _write(self, line: bytes) -> None:
        stdin = self._process.stdin
        assert stdin is not None
        with contextlib.suppress(OSError, ValueError):  # it is gone, or was ended: ``check`` tells
            stdin.write(line)
            stdin.flush()

    def _listen(self) -> None:
        stdout = self._process.stdout
        assert stdout is not None
        for line in stdout:
            match word(line):
                case Counts() as counts:
                    self.counts = counts
                case Ready():
                    self.is_ready = True
                case Quiet():
                    self.is_quiet = True
                case Failed(sentence=sentence):
                    self._failure = sentence


class Clients:
    """All of them."""

    def __init__(self, plans: Sequence[ClientPlan], folder: Path) -> None:
        """Start them; their logs go into ``folder``."""
        self._all = [ClientProcess(plan, folder / f"{plan.lane}.log") for plan in plans]

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
        """Whether nothing is being sent any more."""
        return all(one.is_quiet for one in self._all)

    def check(self) -> None:
        """Raise HarnessError if one of them cannot go on."""
        for one in self._all:
            one.check()

    def tell(self, order: Order, *, number: int | None = None) -> None:
        """Tell all of them, or the one with this number (counted around)."""
        for one in self._all if number is None else [self._all[number % len(self._all)]]:
            one.tell(order)

    def heal(self) -> None:
        """Have them heal."""
        self.tell(Heal())

    def end(self) -> None:
        """End them, all at once."""
        self.tell(End())
        for one in self._all:
            one.end()
