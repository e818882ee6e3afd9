"""The seeded defect of a run: in the broker's process each time that it starts, and taken out of it for comparison."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from conformance.brokers.interface import Broker
from conformance.faults import catalogue, defects
from conformance.faults.catalogue import Defect
from conformance.trouble import Trouble


class SeededDefect:
    """A defect and the broker that has it."""

    def __init__(self, broker: Broker, defect: Defect) -> None:
        """Nothing happens yet. Trouble when the broker cannot have any defect."""
        if broker.agent is None:
            raise Trouble(f"the broker {broker.name} has no agent inside, which the defect {defect.name} needs")
        self._agent = broker.agent
        self._defect = defect
        self._is_out = False

    def give(self) -> None:
        """Switch it on in the broker's process, with which it is gone when that ends; not while it is taken out."""
        if not self._is_out:
            defects.switch_on(self._agent, self._defect)

    @contextmanager
    def taken_out(self) -> Iterator[None]:
        """Have the sound broker for the length of a block.

        Trouble if it turns out that the defect does not fit this broker's code, so that it was never there.
        """
        defects.switch_off(self._agent, self._defect)
        self._is_out = True
        try:
            yield
        finally:
            self._is_out = False
            self.give()


def seed_defect(broker: Broker, name: str | None) -> SeededDefect | None:
    """Give the broker the defect of that name, if one is asked for; Trouble if there is none or it cannot have it."""
    if name is None:
        return None
    seeded = SeededDefect(broker, catalogue.find(name))
    seeded.give()
    return seeded
