"""A machine as the engine runs it: its description, and the class that is made for each example."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from hypothesis.stateful import RuleBasedStateMachine

from conformance.brokers.interface import Capability
from conformance.engine.catalogue import BY_NAME, Description
from conformance.engine.example import RunningExample

SHIPPED_SHARE: Final = 0.75
"""What a machine gets once more, of its share, on the settings that the release ships."""

MachineFactory = Callable[[RunningExample], RuleBasedStateMachine]


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine(Description):
    """A machine that can be run: what the catalogue says of it, and ``factory``, which makes one for an example.

    ``on_shipped``: it runs on a broker of its own that has the settings that the release ships.
    """

    factory: MachineFactory
    on_shipped: bool = False

    @property
    def title(self) -> str:
        """What it is called in the course of a run."""
        return f"{self.name} on shipped settings" if self.on_shipped else self.name


def machines(factories: Mapping[str, MachineFactory]) -> tuple[Machine, ...]:
    """The machines of these names, with what the catalogue says of each; KeyError for one that is not in it."""
    return tuple(with_factory(BY_NAME[name], factory) for name, factory in factories.items())


def with_factory(description: Description, factory: MachineFactory) -> Machine:
    """The machine with this description."""
    return Machine(factory=factory, **_fields_of(description))


def described(machine: Machine) -> Description:
    """What the catalogue says of a machine, without its class."""
    return Description(**_fields_of(machine))


def _fields_of(description: Description) -> dict[str, Any]:
    return {field.name: getattr(description, field.name) for field in fields(Description)}


def on_shipped_settings(machine: Machine) -> Machine:
    """The same machine, run on the settings that the release ships; that takes another start of the broker."""
    needs = machine.needs | {Capability.RESTART}
    return replace(machine, on_shipped=True, needs=needs, share=machine.share * SHIPPED_SHARE)
