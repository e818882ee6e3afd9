"""The seeded defect of a run: found by its name, and given to the broker each time that its process starts."""

from __future__ import annotations

from conformance.brokers.interface import Broker
from conformance.faults import catalogue, defects
from conformance.faults.catalogue import Defect
from conformance.trouble import Trouble


def defect_for(broker: Broker, name: str | None) -> Defect | None:
    """The defect of that name, if one is asked for; Trouble if there is none, or the broker cannot have any."""
    if name is None:
        return None
    if broker.agent is None:
        raise Trouble(f"the broker {broker.name} has no agent inside, which the defect {name} needs")
    return catalogue.find(name)


def give(broker: Broker, defect: Defect | None) -> None:
    """Switch the defect on in the broker's process; it is gone whenever that ends."""
    if defect is not None and broker.agent is not None:
        defects.switch_on(broker.agent, defect)
