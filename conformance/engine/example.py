"""One example while it runs: what a machine performs its operations on.

It never raises into Hypothesis. Once a rule is broken, the budget is used up, or a harness error happened, the example
is over: further operations do nothing, and the engine deals with what there is after the machine has ended. Hypothesis
would otherwise run a failing example again by itself, and a real broker is not deterministic.
"""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Callable, Iterator
from functools import partial

from conformance.harness_error import HarnessError
from conformance.history.document import Violation
from conformance.lockstep.lockstep import CutShort, Lockstep, RuleBroken
from conformance.lockstep.performer import Performed
from model.example import Example
from model.operations import AnyOperation


class OutOfTime(Exception):
    """There is no time left for an operation."""


WithOthers = Callable[[AnyOperation | None], Iterator[AnyOperation]]
"""What to perform for the next operation, or for the end of the choices, where examples share the broker.

That is also what was done to the broker for the others, and it may hold back an operation until the next one is known.
It raises :class:`OutOfTime`.
"""


def alone(operation: AnyOperation | None) -> Iterator[AnyOperation]:
    """What to perform where no other example shares the broker: the operation."""
    if operation is not None:
        yield operation


class RunningExample:
    """An example on the run's broker."""

    def __init__(
        self,
        lockstep: Lockstep,
        *,
        is_time_up: Callable[[], bool],
        on_end: Callable[[RunningExample], None],
        has_time_for: Callable[[AnyOperation], bool] = lambda _: True,
        has_time_to_finish: Callable[[], bool] = lambda: True,
        can_be_done: Callable[[AnyOperation], bool] = lambda _: True,
        with_others: WithOthers = alone,
    ) -> None:
        """``has_time_for`` says of an operation that takes long whether it can still be done in time.

        If it cannot, the example is cut short: nothing else is performed, and it is finished; unless there is no
        ``has_time_to_finish`` it either. ``can_be_done`` says of an operation whether release, client and deployment
        have what it needs; otherwise it is left out of the example.
        """
        self.lockstep = lockstep
        self.violation: Violation | None = None
        self.harness_error: HarnessError | None = None
        self._is_time_up = is_time_up
        self._on_end = on_end
        self._has_time_for = has_time_for
        self._has_time_to_finish = has_time_to_finish
        self._can_be_done = can_be_done
        self._with_others = with_others
        self._over = False
        self.is_short = False

    def do(self, operation: AnyOperation) -> None:
        """Perform and judge one operation, unless the example is over, or the operation cannot be performed here."""
        if self._over or self._is_time_up():
            self._over = True
            return
        if not self._can_be_done(operation):
            return
        self.is_short = self.is_short or not self._has_time_for(operation)
        if self.is_short:
            return
        self._perform(operation)

    def end(self) -> None:
        """Settle and read back what there is, if there is time, then close the sessions."""
        if not self._over and self.lockstep.steps and self._has_time_to_finish() and self._perform(None):
            self._guarded(self.lockstep.finish)
        self._over = True
        try:
            self.lockstep.performer.close()
        except HarnessError as harness_error:
            self.harness_error = self.harness_error or harness_error
        except Exception as crash:  # noqa: BLE001 - as in _guarded
            self.harness_error = self.harness_error or crashed("the end of an example", crash)
        self._on_end(self)

    def _perform(self, operation: AnyOperation | None) -> bool:
        """Perform an operation, or what was held back up to the end; whether the example goes on."""
        try:
            return all(self._guarded(partial(self.lockstep.do, one)) for one in self._with_others(operation))
        except OutOfTime:
            self.is_short = True
            return True

    def _guarded(self, act: Callable[[], object]) -> bool:
        """Do something, and say whether the example goes on."""
        try:
            act()
        except RuleBroken as broken:
            self.violation = broken.violation
            self._over = True
            with contextlib.suppress(Exception):  # the violation stands, whatever else the broker cannot do
                self.lockstep.read_back()
        except CutShort:
            self._over = True
        except HarnessError as harness_error:
            self.harness_error = harness_error
            self._over = True
        except Exception as crash:  # noqa: BLE001 - a bug of the suite costs the example, and nothing else
            self.harness_error = crashed("an example", crash)
            self._over = True
        return not self._over


def crashed(what: str, crash: Exception) -> HarnessError:
    """A bug of the suite as a harness error; its traceback goes where the engine prints."""
    if isinstance(crash, HarnessError):
        return crash
    traceback.print_exception(crash)
    said = (str(crash).strip().splitlines() or [""])[0]
    return HarnessError(f"a bug of the suite ended {what}: {type(crash).__name__}{': ' if said else ''}{said}")


def idle() -> RunningExample:
    """Give an example for which nothing is performed."""
    lockstep = Lockstep(_Nobody(), Example())
    return RunningExample(lockstep, is_time_up=lambda: True, on_end=lambda _: None)


class _Nobody:
    """Who is asked to do something has not looked at the time."""

    def perform(self, operation: AnyOperation) -> Performed:
        raise AssertionError(f"{operation} was to be performed for an example that is over")

    def close(self) -> None:
        pass
