"""A run's place on a started broker, for the duration of the run.

On a broker of the suite nothing is removed, because the broker's data is deleted.
"""

from __future__ import annotations

from contextlib import suppress
from types import TracebackType
from typing import Final, Self

from conformance.brokers.interface import Broker, Capability
from conformance.clients.admin.client import Admin
from conformance.clients.admin.http import AdminError
from conformance.clients.outcomes import ConnectionLost, NoAnswer
from conformance.harness_error import HarnessError
from conformance.tenancy.cluster_settings import ClusterSettings
from conformance.tenancy.footprint import Footprint
from conformance.tenancy.leftovers import remove, remove_ended
from conformance.tenancy.run_name import UNLIMITED_S, RunName
from conformance.tenancy.run_tenant import RunTenant


class RunPlace:
    """The tenant of a run, and the cluster's settings for it; a context manager."""

    def __init__(self, broker: Broker, footprint: Footprint | None = None) -> None:
        """Create it, and remove the places of runs that are over; the default footprint is for a run without a budget.

        Raises:
            HarnessError: the cluster refuses. Nothing is left.
        """
        footprint = footprint or Footprint(name=RunName.new(at_most_s=UNLIMITED_S))
        self._is_thrown_away: Final = Capability.OWN in broker.capabilities
        self._admin: Final = Admin(broker.addresses.admin)
        self.tenant: Final = RunTenant(self._admin, footprint.name, within=footprint.within)
        may_change = self._is_thrown_away or footprint.may_change_settings
        self.settings: Final = ClusterSettings(self._admin, self.tenant, may_change=may_change)
        try:
            if self.tenant.is_own:
                self.tenant.create_tenant(cluster_of(self._admin))
            self.tenant.begin_record()
            self.removed: Final = () if self._is_thrown_away else remove_ended(self._admin, within=footprint.within)
            """The places of runs that are over, which were removed."""
        except BaseException:
            with suppress(HarnessError):  # the first error is reported
                self.leave()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.leave()

    def leave(self) -> None:
        """Restore settings and remove everything, unless the broker's data is deleted.

        Raises:
            HarnessError: the cluster refuses.
        """
        try:
            if not self._is_thrown_away:
                remove(self._admin, self.tenant)
        except (ConnectionLost, NoAnswer) as error:
            raise HarnessError(
                f"What the run made in the tenant {self.tenant.tenant} could not be removed: {error}. "
                "Once the cluster is back, pulsar-conformance clean removes it."
            ) from error
        finally:
            self._admin.close()


class LanePlace:
    """A lane's part of the run's place: namespaces of its own, which the run removes.

    A lane changes no settings, because all lanes share them.
    """

    def __init__(self, broker: Broker, footprint: Footprint, *, lane: int) -> None:
        admin = Admin(broker.addresses.admin)
        self.tenant: Final = RunTenant(admin, footprint.name, within=footprint.within, lane=lane)
        self.settings: Final = ClusterSettings(admin, self.tenant, may_change=False)


def cluster_of(admin: Admin) -> str:
    """The name of the cluster from its broker; if the role may not read it, the only registered one."""
    try:
        return admin.runtime_configuration()["clusterName"]
    except AdminError as error:
        clusters = admin.clusters()
        if len(clusters) == 1:
            return clusters[0]
        known = ", ".join(clusters) or "none"
        raise HarnessError(f"Which of its clusters ({known}) this is, the broker does not say: {error}.") from error
