"""What the engine needs to know of a machine: a plain description, so that it need not import the machines' room."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hypothesis.stateful import RuleBasedStateMachine

from conformance.brokers.interface import Capability
from conformance.engine.example import RunningExample

MachineFactory = Callable[[RunningExample], RuleBasedStateMachine]


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A machine as the engine sees it.

    ``decides`` are the rules that it puts to the test, ``needs`` what it must be able to do to a broker, ``share`` its
    part of the budget relative to the others', ``steps`` the length of an example and ``examples`` their number in one
    round of Hypothesis (the clock is looked at between examples).
    """

    name: str
    decides: tuple[str, ...]
    factory: MachineFactory
    needs: frozenset[Capability] = frozenset()
    share: float = 1.0
    steps: int = 20
    examples: int = 20
