"""One running example, on which a machine performs its operations.

It never raises into Hypothesis, which would run a failing example again, while a real broker is not deterministic.
After a broken rule, a harness error, or the end of the budget, further operations do nothing, and the engine handles
the result when the machine has ended.
"""

from __future__ import annotations

import contextlib
import time
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from conformance.coverage.guide import Guide
from conformance.harness_error import HarnessError
from conformance.history.document import Violation
from conformance.lockstep.answers import OutOfTime
from conformance.lockstep.lockstep import CutShort, Lockstep, RuleBroken
from conformance.lockstep.performer import Performed
from model.example import Example
from model.operations import AnyOperation

WithOthers = Callable[[AnyOperation | None], Iterator[AnyOperation]]
"""The operations to perform for the next operation, or for the end of the choices, where examples share the broker.

They include what other examples do to the broker. An operation may be deferred until the next one is known. Raises
:class:`~conformance.lockstep.answers.OutOfTime`.
"""


def alone(operation: AnyOperation | None) -> Iterator[AnyOperation]:
    """The operation alone, where no other example shares the broker."""
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
        has_time_for: Callable[[RunningExample, AnyOperation], bool] = lambda _, __: True,
        has_time_to_finish: Callable[[RunningExample], bool] = lambda _: True,
        can_be_done: Callable[[AnyOperation], bool] = lambda _: True,
        libraries_for: Callable[[AnyOperation], tuple[str, ...]] = lambda _: (),
        with_others: WithOthers = alone,
        guide: Guide | None = None,
    ) -> None:
        """``has_time_for``: whether an operation can still end in time, and undoing it and those before it. If not,
        the example is cut short: no further operation is performed, and it is finished if it ``has_time_to_finish``.
        ``can_be_done``: whether release, client and deployment have what an operation needs; otherwise the example
        skips it. ``libraries_for``: the clients among which its machine chooses one for an operation. ``guide``: what
        counts its choices, if anything does.
        """
        self.lockstep = lockstep
        self.violation: Violation | None = None
        self.harness_error: HarnessError | None = None
        self._is_time_up = is_time_up
        self._on_end = on_end
        self._has_time_for = has_time_for
        self._has_time_to_finish = has_time_to_finish
        self._can_be_done = can_be_done
        self.libraries_for: Final = libraries_for
        self._with_others = with_others
        self.guide: Final = guide
        self._noted = 0
        """How many of the steps are counted."""
        self._over = False
        self.is_short = False
        self.ending_s = 0.0
        """How long the end of the example took after its last step."""

    def do(self, operation: AnyOperation) -> None:
        """Perform and judge one operation, unless the example is over or this deployment lacks something for it."""
        if self._over or self._is_time_up():
            self._over = True
            return
        if not self._can_be_done(operation):
            return
        self.is_short = self.is_short or not self._has_time_for(self, operation)
        if self.is_short:
            return
        self._perform(operation)

    def end(self) -> None:
        """Settle unknown outcomes and read back, if there is time, then close the sessions."""
        if not self._over and self.lockstep.steps and self._has_time_to_finish(self) and self._perform(None):
            self._guarded(self.lockstep.finish)
        self._over = True
        began = time.monotonic()
        try:
            self.lockstep.performer.close()
        except HarnessError as harness_error:
            self.harness_error = self.harness_error or harness_error
        except Exception as crash:  # noqa: BLE001 - as in _guarded
            self.harness_error = self.harness_error or crashed("the end of an example", crash)
        self.ending_s = time.monotonic() - began
        self._on_end(self)

    def _perform(self, operation: AnyOperation | None) -> bool:
        """Perform an operation, or, for None, the deferred ones; whether the example goes on."""
        try:
            return all(self._guarded(partial(self.lockstep.do, one)) for one in self._with_others(operation))
        except OutOfTime:
            self.is_short = True
            return True
        finally:
            self._count()

    def _count(self) -> None:
        """Count the choices that were performed since the last time."""
        if self.guide is not None:
            for step in self.lockstep.steps[self._noted :]:
                self.guide.note(step.operation, step.outcome)
            self._noted = len(self.lockstep.steps)

    def _guarded(self, act: Callable[[], object]) -> bool:
        """Call ``act``; whether the example goes on."""
        try:
            act()
        except RuleBroken as broken:
            self.violation = broken.violation
            self._over = True
            with contextlib.suppress(Exception):  # the violation counts, even if reading back fails
                self.lockstep.read_back()
        except CutShort:
            self._over = True
        except HarnessError as harness_error:
            self.harness_error = harness_error
            self._over = True
        except Exception as crash:  # noqa: BLE001 - a bug of the suite ends only this example
            self.harness_error = crashed("an example", crash)
            self._over = True
        return not self._over


def crashed(what: str, crash: Exception) -> HarnessError:
    """A bug of the suite as a harness error; its traceback goes to the engine's output."""
    if isinstance(crash, HarnessError):
        return crash
    traceback.print_exception(crash)
    message = (str(crash).strip().splitlines() or [""])[0]
    return HarnessError(f"a bug of the suite ended {what}: {type(crash).__name__}{': ' if message else ''}{message}")


def idle() -> RunningExample:
    lockstep = Lockstep(Nobody(), Example())
    return RunningExample(lockstep, is_time_up=lambda: True, on_end=lambda _: None)


class Nobody:
    """The performer of an example that is over."""

    def perform(self, operation: AnyOperation) -> Performed:
        raise AssertionError(f"{operation} was to be performed for an example that is over")

    def close(self) -> None:
        pass
