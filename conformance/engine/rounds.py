"""Rounds of machines on one world: Hypothesis chooses operations, which are performed, recorded and judged.

The engine runs rounds on its own world, and each lane on its own. The engine handles the violations.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from conformance.clients.driver.connect import client_info
from conformance.coverage.coverage import Coverage, Drawn
from conformance.coverage.guide import Guide
from conformance.engine.durations import BOUNCE_S, Durations
from conformance.engine.example import Nobody, RunningExample, WithOthers, alone
from conformance.engine.execution import derived_seed, perform, run_round, weight
from conformance.engine.machines import Machine
from conformance.engine.shortener.attempt import Attempt
from conformance.harness_error import HarnessError
from conformance.history.document import Step, Violation
from conformance.history.journal import ExampleBegins, Journal, read_journal
from conformance.lockstep.lockstep import CutShort, Lockstep, RuleBroken
from conformance.lockstep.performer import Performer
from conformance.lockstep.real import RealPerformer
from conformance.lockstep.world import World
from model.example import Example
from model.operations import AnyOperation, OpenProducer
from model.subscription_operations import NackRepeatedly, Subscribe

REPEATED = "repeated"
"""The machine in the journal's entry of a replay."""


class ExampleEnded(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The report of an example. If it broke a rule, it has the steps; those after the first ``chosen`` finished it.

    ``drawn``: its choices, if they are counted. ``number``: its number in the journal.
    """

    operations: int
    exercised: dict[str, int]
    deviations: dict[str, int]
    excused: dict[str, int]
    seconds: float
    chosen: int
    steps: tuple[Step, ...] = ()
    violation: Violation | None = None
    drawn: Drawn = Drawn()
    number: int = 0

    @property
    def attempt(self) -> Attempt:
        """The attempt of an example that broke a rule."""
        return Attempt(self.steps, self.chosen, self.violation)


def ended(lockstep: Lockstep, violation: Violation | None, *, number: int, guide: Guide | None = None) -> ExampleEnded:
    steps = lockstep.steps
    return ExampleEnded(
        operations=sum(weight(step.operation) for step in steps),
        exercised=dict(lockstep.exercised),
        deviations=dict(lockstep.deviations),
        excused=dict(lockstep.excused),
        seconds=round(steps[-1].completed_ms / 1000, 3) if steps else 0.0,
        chosen=lockstep.chosen,
        steps=tuple(steps) if violation is not None else (),
        violation=violation,
        drawn=Drawn() if guide is None else guide.drawn,
        number=number,
    )


def unreported(journal: Path, *, after: int, known: frozenset[str]) -> ExampleEnded | None:
    """The report of a journal's last example, judged again, if its process ended before it reported the example.

    ``after``: the number of the last example that it reported.
    """
    number, steps = 0, list[Step]()
    for line in read_journal(journal):
        if isinstance(line, ExampleBegins):
            number, steps = line.number, []
        else:
            steps.append(line.step)
    if number <= after:
        return None
    lockstep = Lockstep(Nobody(), Example(known=known))
    violation = None
    try:
        for step in steps:
            lockstep.chosen += 1
            lockstep.take(step)
    except RuleBroken as broken:
        violation = broken.violation
    except (CutShort, HarnessError):
        pass  # what was judged before counts
    return ended(lockstep, violation, number=number)


class Rounds:
    """Runs rounds of machines."""

    def __init__(
        self,
        world: World,
        journal: Path,
        *,
        seed: int,
        known: frozenset[str],
        deadline: float | None,
        performer: Callable[[World], Performer] = lambda world: RealPerformer(world),
        replaced: Callable[[], World | None] = lambda: None,
        bounce_s: float = BOUNCE_S,
        coverage: Coverage | None = None,
    ) -> None:
        """``seed``: the run's. ``deadline``: its end on the monotonic clock. ``performer`` makes one per example.

        ``replaced``: a world on a new broker, which replays use if the broker is gone. ``bounce_s``: what a kill or
        restart is expected to take. ``coverage``: the choices of earlier runs; None: choices are not counted.
        """
        self.world = world
        self.failure: HarnessError | None = None
        """The harness error of the last round, if any."""
        self.is_short = False
        """Whether an example was cut short for lack of time."""
        self._seed = seed
        self._known = known
        self._deadline = deadline
        self._replaced = replaced
        self._performer = performer
        self._coverage = coverage
        self._journal = Journal(journal)
        self._examples = 0
        self._durations = Durations(bounce_s=bounce_s)

    def begin(self) -> None:
        """Reset the results of earlier rounds."""
        self.failure = None
        self.is_short = False

    def run(
        self,
        machine: Machine,
        number: int,
        *,
        until: float | None,
        is_over: Callable[[], bool],
        on_end: Callable[[ExampleEnded], None],
        may_begin: Callable[[], bool] = lambda: True,
        with_others: WithOthers = alone,
    ) -> None:
        """One round of Hypothesis: ``machine.examples`` examples from a seed derived from the run's.

        ``until``: when the last operation must be done; ``is_over``: whether the round is to end before that;
        ``may_begin`` is asked before each example, and ``on_end`` called after it.
        """

        def is_time_up() -> bool:
            is_late = until is not None and time.monotonic() >= until
            return self.failure is not None or self.is_short or is_late or is_over()

        def has_ended(example: RunningExample) -> None:
            done = example.lockstep
            self._durations.learn(machine.name, done.steps, done.chosen, ending_s=example.ending_s)
            self.failure = self.failure or example.harness_error
            self.is_short = self.is_short or example.is_short
            on_end(ended(example.lockstep, example.violation, number=self._examples, guide=example.guide))

        def begin() -> RunningExample:
            if not is_time_up() and may_begin():
                self._begin_in_journal(machine.name)
            return RunningExample(
                self.lockstep(),
                is_time_up=is_time_up,
                has_time_for=lambda example, one: until is None or self._has_time_for(example, one, until),
                has_time_to_finish=lambda example: self._has_time_to_finish(example, machine),
                can_be_done=lambda operation: self.world.capabilities.why_not(operation) is None,
                libraries_for=lambda operation: self.world.capabilities.libraries_for(operation),
                on_end=has_ended,
                with_others=with_others,
                guide=None if self._coverage is None else Guide(self._coverage),
            )

        self.world.ends_at = self._deadline
        run_round(machine, begin, seed=derived_seed(self._seed, machine.title, number))

    def attempt(self, operations: Sequence[AnyOperation]) -> Attempt:
        """Perform operations as one example, without a report."""
        return self.replay(operations, REPEATED)[0]

    def replay(self, operations: Sequence[AnyOperation], machine: str) -> tuple[Attempt, ExampleEnded]:
        """Perform operations of a machine as one example, and return the attempt and its report."""
        if not self.world.broker.is_alive():  # the replay before has ended it
            self.world = self._replaced() or self.world
        self.world.ends_at = None
        self._begin_in_journal(machine)
        lockstep = self.lockstep()
        attempt = perform([_by_clients_here(one) for one in operations], lockstep)
        return attempt, ended(lockstep, attempt.violation, number=self._examples)

    def lockstep(self) -> Lockstep:
        """A new example on the world."""
        return Lockstep(self._performer(self.world), Example(known=self._known), record=self._journal.record)

    def _begin_in_journal(self, machine: str) -> None:
        self._examples += 1
        self._journal.begin(self._examples, machine)

    def _has_time_for(self, example: RunningExample, operation: AnyOperation, until: float) -> bool:
        """Whether an operation can be done, and everything undone, before ``until``."""
        expected_s = self._durations.of(operation) + self._durations.of_undoing(example.lockstep.steps, operation)
        return time.monotonic() + expected_s <= until

    def _has_time_to_finish(self, example: RunningExample, machine: Machine) -> bool:
        """Whether an example of a machine can be finished within the budget."""
        expected_s = self._durations.of_finishing(machine.name) + self._durations.of_undoing(example.lockstep.steps)
        return self._deadline is None or time.monotonic() + expected_s <= self._deadline


def _by_clients_here(operation: AnyOperation) -> AnyOperation:
    """The operation by the client of this run that takes the place of its own. Raises HarnessError if there is none."""
    match operation:
        case OpenProducer(library=str() as library) | Subscribe(library=str() as library):
            return replace(operation, library=client_info(library).library)
        case NackRepeatedly(library=str() as library):
            return replace(operation, library=client_info(library).library)
        case _:
            return operation
