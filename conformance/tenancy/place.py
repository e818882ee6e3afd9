"""A run's place on a started broker, for as long as the run goes on.

On a broker of the suite's own nothing is removed: that is thrown away with everything on it.
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


class Place:
    """The tenant of a run, and the cluster's settings as the run may change them. ``with`` it, or ``leave`` it."""

    def __init__(self, broker: Broker, footprint: Footprint | None = None) -> None:
        """Make it, and remove what runs left that are over; without a footprint that of a run without a budget.

        Raises:
            HarnessError: the cluster does not let us. Nothing is left then.
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
            """The places of runs that are over, which had left something."""
        except BaseException:
            with suppress(HarnessError):  # the first error is reported already
                self.leave()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.leave()

    def leave(self) -> None:
        """Set settings back and remove everything, if it is not thrown away anyway.

        Raises:
            HarnessError: the cluster does not let us.
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
    """The part of a run's place that one of its lanes has: namespaces of its own, which go with the run's.

    A lane changes no settings, because they are those of all lanes.
    """

    def __init__(self, broker: Broker, footprint: Footprint, *, lane: int) -> None:
        admin = Admin(broker.addresses.admin)
        self.tenant: Final = RunTenant(admin, footprint.name, within=footprint.within, lane=lane)
        self.settings: Final = ClusterSettings(admin, self.tenant, may_change=False)


def cluster_of(admin: Admin) -> str:
    """The name of the cluster, as its broker says; where a role may not ask for that, the only one that there is."""
    try:
        return admin.runtime_configuration()["clusterName"]
    except AdminError as error:
        clusters = admin.clusters()
        if len(clusters) == 1:
            return clusters[0]
        known = ", ".join(clusters) or "none"
        raise HarnessError(f"Which of its clusters ({known}) this is, the broker does not say: {error}.") from error
