"""``clean``: removes what killed runs left on a running cluster, and restores the settings that they changed."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console

from conformance.brokers.name import is_running_cluster
from conformance.brokers.select import parse_broker
from conformance.clients.admin.client import Admin
from conformance.clients.security.service import Security
from conformance.commands.supervision.on_cluster import described
from conformance.harness_error import HarnessError
from conformance.tenancy.leftovers import RunState, remove, state_of
from conformance.tenancy.run_tenant import RunTenant, places


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanOptions:
    """The options of ``clean``. ``force``: also remove what may belong to a run in progress elsewhere."""

    broker: str
    within: str | None
    force: bool
    security: Security


def clean(asked: CleanOptions, *, out: Console) -> int:
    """Remove it, and print what was removed and what was not; returns the exit status.

    Raises:
        HarnessError: it is not a running cluster, or the cluster refuses.
    """
    if not is_running_cluster(asked.broker):
        raise HarnessError(
            f"{asked.broker} is no cluster that runs already: the suite removes its own brokers by itself"
        )
    broker = parse_broker(asked.broker, security=asked.security)
    broker.start()
    with Admin(broker.addresses.admin) as admin:
        found = places(admin, within=asked.within)
        for tenant in found:
            out.print(_cleaned(admin, tenant, force=asked.force), markup=False, soft_wrap=True)
    if not found:
        where = "the cluster" if asked.within is None else f"the tenant {asked.within}"
        out.print(f"No run left anything in {where}.", markup=False, soft_wrap=True)
    return 0


def _cleaned(admin: Admin, tenant: RunTenant, *, force: bool) -> str:
    """Remove what one run left, unless it may be in progress; returns a sentence on it."""
    state = state_of(tenant)
    until = tenant.name.over_at.strftime("%Y-%m-%d %H:%M UTC")
    if state is RunState.RUNNING:
        return f"{tenant.name}: {state.value}. Left alone."
    if state is RunState.UNKNOWN and not force:
        return f"{tenant.name}: {state.value}, on another machine, until {until}. Left alone; --force removes it."
    return f"{tenant.name}: {state.value}. Removed: {described(remove(admin, tenant))}."
