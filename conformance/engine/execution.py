"""Performs a round of Hypothesis, or a sequence of operations as one example.

Hypothesis also draws constants that it finds in the source of the modules that are imported and not installed. The same
seed then gives other choices in a clone than in an installed package, so rounds draw none.
"""

from __future__ import annotations

import gc
import hashlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import cast

import hypothesis
from hypothesis import HealthCheck, Phase, settings
from hypothesis.internal.conjecture.providers import AVAILABLE_PROVIDERS, HypothesisProvider
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from conformance.engine.example import RunningExample, idle
from conformance.engine.machines import Machine
from conformance.engine.shortener.attempt import Attempt
from conformance.history.document import Violation
from conformance.lockstep.lockstep import CutShort, Lockstep, RuleBroken
from model.operations import AnyOperation, Send


def run_round(machine: Machine, begin: Callable[[], RunningExample], *, seed: int) -> None:
    """Have Hypothesis choose ``machine.examples`` examples, each performed on a new example from ``begin``.

    The first one of a round always makes the first choice everywhere. It would be the same in each round, so it is not
    performed.
    """
    is_simplest = itertools.chain([True], itertools.repeat(False))

    def factory() -> RuleBasedStateMachine:
        return machine.factory(idle() if next(is_simplest) else begin())

    run_examples(factory, examples=1 + machine.examples, steps=machine.steps, seed=seed)


def run_examples(factory: Callable[[], RuleBasedStateMachine], *, examples: int, steps: int, seed: int) -> None:
    """Have Hypothesis choose this many examples. The choices depend on the machine and the seed alone."""
    with _without_constants():
        run_state_machine_as_test(
            # Hypothesis accepts any function that returns a machine; its annotation requires a class.
            cast("type[RuleBasedStateMachine]", hypothesis.seed(seed)(factory)),
            settings=settings(
                max_examples=examples,
                stateful_step_count=steps,
                phases=(Phase.generate,),
                database=None,
                deadline=None,
                print_blob=False,
                suppress_health_check=list(HealthCheck),
            ),
        )


class _WithoutConstants(HypothesisProvider):
    def _maybe_draw_constant(self, *_: object, **__: object) -> None:
        return None


@contextmanager
def _without_constants() -> Iterator[None]:
    usual = AVAILABLE_PROVIDERS["hypothesis"]
    AVAILABLE_PROVIDERS["hypothesis"] = _WithoutConstants
    try:
        yield
    finally:
        AVAILABLE_PROVIDERS["hypothesis"] = usual


def perform(operations: Sequence[AnyOperation], lockstep: Lockstep) -> Attempt:
    """Perform a sequence of operations as one example, and finish it."""
    violation: Violation | None = None
    try:
        for operation in operations:
            lockstep.do(operation)
        lockstep.finish()
    except RuleBroken as broken:
        violation = broken.violation
    except CutShort:
        pass
    finally:
        lockstep.performer.close()
    return Attempt(tuple(lockstep.steps), lockstep.chosen, violation)


def spare_the_collector() -> None:
    """Make the cyclic garbage collector run rarely, in a process of the suite.

    Examples consist of values without cycles, and scanning them costs as much as judging them.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 50, 50)


def weight(operation: AnyOperation) -> int:
    """How many operations one counts as: a send counts each entry."""
    return len(operation.entries) if isinstance(operation, Send) else 1


def derived_seed(seed: int, machine: str, number: int) -> int:
    """The seed of one round of one machine, from the run's seed."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{machine}/{number}".encode()).digest()[:8])
