"""The rules that a deployment cannot exercise, and the reasons: missing faults and missing capabilities."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Final

from conformance.brokers.interface import Capability
from conformance.engine.catalogue import Description

if TYPE_CHECKING:
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
    Capability.POWER_FAILURE: "have its bookies lose what they have not synced (journalSyncData=true)",
}


def undecidable(machines: Sequence[Description], world: World) -> dict[str, str]:
    """The rules that these machines cannot decide on this deployment, each with the reason."""
    return undecidable_here(machines, world.capabilities.undecidable(), world.broker.capabilities)


def undecidable_here(
    machines: Sequence[Description], lacking: Mapping[str, str], able: Set[Capability]
) -> dict[str, str]:
    """The same, where these rules are ``lacking`` a capability of the release, and the suite is ``able`` to do this."""
    found = dict(lacking)
    decided = {rule for machine in machines if machine.needs <= able for rule in machine.decides}
    for machine in machines:
        for rule in machine.decides:
            if rule not in decided:
                found.setdefault(rule, _missing(machine.needs - able))
    return found


def _missing(needs: Iterable[Capability]) -> str:
    doing = [_DOING[need] for need in Capability if need in needs]
    return f"it needs a broker that the suite starts, to {' and '.join(doing)}"
