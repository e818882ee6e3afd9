"""A machine as the engine runs it: its description, and the class that is made for each example."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields

from hypothesis.stateful import RuleBasedStateMachine

from conformance.engine.catalogue import BY_NAME, Description
from conformance.engine.example import RunningExample

MachineFactory = Callable[[RunningExample], RuleBasedStateMachine]


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine(Description):
    """A machine that can be run: what the catalogue says of it, and ``factory``, which makes one for an example."""

    factory: MachineFactory


def machines(factories: Mapping[str, MachineFactory]) -> tuple[Machine, ...]:
    """The machines of these names, with what the catalogue says of each; KeyError for one that is not in it."""
    return tuple(_described(BY_NAME[name], factory) for name, factory in factories.items())


def _described(description: Description, factory: MachineFactory) -> Machine:
    said = {field.name: getattr(description, field.name) for field in fields(description)}
    return Machine(factory=factory, **said)
