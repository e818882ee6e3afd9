"""The rules that a deployment cannot exercise, and the reasons: missing faults and missing capabilities."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from conformance.brokers.interface import Capability
from conformance.engine.machines import Machine
from conformance.lockstep.world import World

_DOING: Final[Mapping[Capability, str]] = {
    Capability.RESTART: "restart it",
    Capability.KILL: "kill it",
    Capability.PAUSE: "freeze it",
    Capability.DEFECTS: "arm failpoints in it",
    Capability.CLUSTERS: "start several clusters of it",
    Capability.OWN: "have it for itself",
    Capability.TAKEOVER: "have another one take over its topics (--brokers 2)",
    Capability.BOOKIES: "lose one of three bookies (--bookies 3)",
    Capability.METADATA_STORE: "freeze its metadata store, as a process of its own",
}


def undecidable(machines: Sequence[Machine], world: World) -> dict[str, str]:
    """The rules that these machines cannot decide on this deployment, each with the reason."""
    found = world.capabilities.undecidable()
    able = world.broker.capabilities
    decided = {rule for machine in machines if machine.needs <= able for rule in machine.decides}
    for machine in machines:
        for rule in machine.decides:
            if rule not in decided:
                found[rule] = _missing(machine.needs - able)
    return found


def _missing(needs: Iterable[Capability]) -> str:
    doing = [_DOING[need] for need in Capability if need in needs]
    return f"it needs a broker that the suite starts, to {' and '.join(doing)}"
