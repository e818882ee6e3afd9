"""What runs left on a cluster: found by their names, judged by what can be known, removed.

A run is over if its record names a process of this machine that has ended, or if the time is past at which its name
says that it is over. It goes on if its process is there. Of any other, on another machine and within its time, nobody
can say.
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


class State(enum.Enum):
    """Whether the run that left something is over."""

    OVER = "is over"
    RUNNING = "is running on this machine"
    UNKNOWN = "may be running"


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """What was removed of a run: how many namespaces and topics, and the settings that were set back."""

    namespaces: int
    topics: int
    settings: tuple[str, ...]


def state_of(tenant: RunTenant) -> State:
    """Whether the run whose place this is, is over."""
    match is_running(tenant.written_down().get(PROCESS, "")):
        case True:
            return State.RUNNING
        case False:
            return State.OVER
        case None:
            return State.OVER if datetime.now(UTC) > tenant.name.over_at else State.UNKNOWN


def remove(admin: Admin, tenant: RunTenant) -> Removed:
    """Set the settings back that a run changed, then remove its place.

    Raises:
        HarnessError: the cluster does not let us; trying again does no harm.
    """
    namespaces = tenant.namespaces()
    topics = count_topics(admin, namespaces)
    settings = ClusterSettings(admin, tenant, may_change=False).restore()
    tenant.remove()
    return Removed(namespaces=len(namespaces), topics=topics, settings=settings)


def remove_ended(admin: Admin, *, within: str | None = None) -> tuple[RunTenant, ...]:
    """Remove what runs left that are over; gives their places."""
    ended = tuple(one for one in places(admin, within=within) if state_of(one) is State.OVER)
    for one in ended:
        remove(admin, one)
    return ended
