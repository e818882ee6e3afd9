"""A machine as the engine runs it: its description and its class."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from hypothesis.stateful import RuleBasedStateMachine

from conformance.brokers.interface import Capability
from conformance.engine.catalogue import BY_NAME, Description
from conformance.engine.example import RunningExample

SHIPPED_SHARE: Final = 0.75
"""The part of its share that a machine gets again on the shipped settings."""

MachineFactory = Callable[[RunningExample], RuleBasedStateMachine]


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine(Description):
    """A machine that can be run; ``factory`` makes one for each example.

    ``on_shipped``: it runs on a broker of its own with the shipped settings.
    """

    factory: MachineFactory
    on_shipped: bool = False

    @property
    def title(self) -> str:
        """Its name in a run's output."""
        return f"{self.name} on shipped settings" if self.on_shipped else self.name


def machines(factories: Mapping[str, MachineFactory]) -> tuple[Machine, ...]:
    """The machines of these names with their descriptions. Raises KeyError for an unknown name."""
    return tuple(with_factory(BY_NAME[name], factory) for name, factory in factories.items())


def with_factory(description: Description, factory: MachineFactory) -> Machine:
    return Machine(factory=factory, **_fields_of(description))


def described(machine: Machine) -> Description:
    """The description of a machine, without its class."""
    return Description(**_fields_of(machine))


def _fields_of(description: Description) -> dict[str, Any]:
    return {field.name: getattr(description, field.name) for field in fields(Description)}


def on_shipped_settings(machine: Machine) -> Machine:
    """The same machine on the shipped settings, for which the broker is started again."""
    needs = machine.needs | {Capability.RESTART}
    return replace(machine, on_shipped=True, needs=needs, share=machine.share * SHIPPED_SHARE)
