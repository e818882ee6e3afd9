"""Which rules a deployment cannot show, and why: what cannot be done to it, and what its settings put out of reach.

An example has a few dozen operations and takes seconds. Where a setting lets something happen only after thousands of
entries or minutes, a rule about it may still be exercised by chance; that it was not says nothing about the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from conformance.brokers.interface import Capability
from conformance.engine.machines import Machine
from conformance.lockstep.world import World
from conformance.tenancy.cluster_settings import CLASSIC
from model.subscriptions.due import OF_DRAINING

LARGEST_ENTRIES: Final = 100
"""More entries than this are not written to a topic in an example."""

LONGEST_S: Final = 20.0
"""An example does not wait longer than this for something that the broker does by itself."""

_DOING: Final[Mapping[Capability, str]] = {
    Capability.RESTART: "restart it",
    Capability.KILL: "kill it",
    Capability.PAUSE: "freeze it",
    Capability.DEFECTS: "arm failpoints in it",
    Capability.CLUSTERS: "start several clusters of it",
    Capability.OWN: "have it for itself",
}


def undecidable(machines: Sequence[Machine], world: World) -> dict[str, str]:
    """The rules that these machines cannot decide on this deployment, each with the reason; others they may decide."""
    found = dict(_out_of_reach(world))
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


def _out_of_reach(world: World) -> Iterable[tuple[str, str]]:
    """What settings put out of reach."""
    if not world.can_drain:
        why = "this release has no draining hashes"
        if world.is_switchable:
            why = f"the cluster has {CLASSIC}=true, and the run may not change that without --allow-cluster-settings"
        yield from dict.fromkeys(OF_DRAINING, why).items()
    if not world.can_be_classic:
        why = f"the cluster has {CLASSIC}=false, and the run may not change that without --allow-cluster-settings"
        yield "KEY-14", why
    if world.stats_period_s > LONGEST_S:
        why = f"with statsUpdateFrequencyInSecs={world.stats_period_s:g} rates in stats are updated too seldom"
        yield "CHUNK-10", why
    if world.snapshot_interval_entries > LARGEST_ENTRIES and world.snapshot_interval_s > LONGEST_S:
        why = (
            "a deduplication snapshot is taken too seldom, with "
            f"brokerDeduplicationEntriesInterval={world.snapshot_interval_entries} and "
            f"brokerDeduplicationSnapshotIntervalSeconds={world.snapshot_interval_s:g}"
        )
        yield from {"DEDUP-10": why, "DEDUP-11": why}.items()
    if world.flush_interval_s > LONGEST_S:
        why = (
            f"with managedLedgerCursorPositionFlushSeconds={world.flush_interval_s:g} a dirty cursor may stay so longer"
        )
        yield "ACK-08", f"{why} than an example takes"
    if world.ledger_room > LARGEST_ENTRIES:
        why = f"with managedLedgerMaxEntriesPerLedger={world.ledger_room} no ledger is full within an example"
        yield "ACK-14", why
