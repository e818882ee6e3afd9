"""Finds and removes what former runs left on a cluster.

A run is over if its record names a process of this machine that has ended, or if the end time in its name has passed.
It is running if its process exists. For any other run, on another machine and within its time, this is unknown.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import UTC, datetime

from conformance.clients.admin.client import Admin
from conformance.tenancy.cluster_settings import ClusterSettings
from conformance.tenancy.process import is_running
from conformance.tenancy.removal import count_topics
from conformance.tenancy.run_tenant import PROCESS, RunTenant, places


class RunState(enum.Enum):
    """The state of a run."""

    OVER = "is over"
    RUNNING = "is running on this machine"
    UNKNOWN = "may be running"


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """What was removed of a run: the numbers of namespaces and topics, and the restored settings."""

    namespaces: int
    topics: int
    settings: tuple[str, ...]


def state_of(tenant: RunTenant) -> RunState:
    """The state of the run of this place."""
    match is_running(tenant.written_down().get(PROCESS, "")):
        case True:
            return RunState.RUNNING
        case False:
            return RunState.OVER
        case None:
            return RunState.OVER if datetime.now(UTC) > tenant.name.over_at else RunState.UNKNOWN


def remove(admin: Admin, tenant: RunTenant) -> Removed:
    """Restore the settings that a run changed, then remove its place.

    Raises:
        HarnessError: the cluster refuses; it is safe to retry.
    """
    namespaces = tenant.namespaces()
    topics = count_topics(admin, namespaces)
    settings = ClusterSettings(admin, tenant, may_change=False).restore()
    tenant.remove()
    return Removed(namespaces=len(namespaces), topics=topics, settings=settings)


def remove_ended(admin: Admin, *, within: str | None = None) -> tuple[RunTenant, ...]:
    """Remove the places of runs that are over; returns them."""
    ended = tuple(one for one in places(admin, within=within) if state_of(one) is RunState.OVER)
    for one in ended:
        remove(admin, one)
    return ended
