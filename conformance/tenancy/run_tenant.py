"""A run's own place on a cluster: a tenant named after it or, in a tenant that is there already, namespaces named so.

Everything that a run makes is in it, so that all of it can be found and removed, also when the run was killed. The
first namespace is the record of the run: it says which process the run is, and what settings of the cluster it changed
(:mod:`.cluster_settings`), as properties of the namespace, which releases from 2.10 on have.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Final

from conformance.clients.admin.client import Admin
from conformance.clients.admin.http import AdminError
from conformance.clients.admin.types import NamespacePolicies
from conformance.harness_error import HarnessError
from conformance.tenancy.process import this_process
from conformance.tenancy.removal import remove_namespaces, remove_tenant
from conformance.tenancy.run_name import RunName

RECORD: Final = "run"
"""The kind of the namespace that is the record."""

PROCESS: Final = "pulsar-conformance.process"
"""The property that names the process of the run."""


class RunTenant:
    """The place of the run ``name`` on the cluster of ``admin``; ``within``: the tenant that is there already.

    Nothing is made before :meth:`create`. It may be somebody else's place, that of a run that was killed.
    """

    def __init__(self, admin: Admin, name: RunName, *, within: str | None = None, lane: int | None = None) -> None:
        """``lane``: its own namespaces are named after it; the record is the run's."""
        self.name: Final = name
        self.tenant: Final = within or str(name)
        self.is_own: Final = within is None
        self._admin = admin
        self._prefix = "" if within is None else f"{name}-"
        self._of_lane = "" if lane is None else f"lane-{lane}-"

    @property
    def record(self) -> str:
        """The namespace that is the run's record."""
        return f"{self.tenant}/{self._prefix}{RECORD}"

    def namespace(self, kind: str) -> str:
        """The full name of the run's namespace of this kind, whether there is one or not."""
        return f"{self.tenant}/{self._prefix}{self._of_lane}{kind}"

    def create_tenant(self, cluster: str) -> None:
        """Make the tenant, for use in the cluster of this name; :class:`HarnessError` if the cluster does not let
        us."""
        try:
            self._admin.create_tenant(self.tenant, clusters=[cluster])
        except AdminError as error:
            raise HarnessError(
                f"The run has no tenant of its own, because {error}. "
                "With --tenant NAME it makes its namespaces in one that your role administers."
            ) from error

    def begin_record(self) -> None:
        """Make the record, which names this process; :class:`HarnessError` if the cluster does not let us."""
        self._create(self.record)
        self.write_down({PROCESS: this_process()})

    def create_namespace(self, kind: str, policies: NamespacePolicies | None = None) -> str:
        """Make a namespace; gives its full name."""
        return self._create(self.namespace(kind), policies)

    def _create(self, namespace: str, policies: NamespacePolicies | None = None) -> str:
        try:
            self._admin.create_namespace(namespace, policies)
        except AdminError as error:
            raise HarnessError(f"The run cannot make its namespaces, because {error}.") from error
        return namespace

    def write_down(self, properties: Mapping[str, str]) -> bool:
        """Add to the record, if the release has properties of namespaces; whether it has."""
        try:
            self._admin.set_namespace_properties(self.record, properties)
        except AdminError:
            return False
        return True

    def written_down(self) -> Mapping[str, str]:
        """What the record says; nothing where there is none."""
        with contextlib.suppress(AdminError):
            return self._admin.namespace_properties(self.record)
        return {}

    def namespaces(self) -> tuple[str, ...]:
        everything = self._namespaces_of_tenant() or ()
        return tuple(sorted(one for one in everything if one.startswith(f"{self.tenant}/{self._prefix}")))

    def _namespaces_of_tenant(self) -> Sequence[str] | None:
        """All namespaces of the tenant; None if there is no such tenant."""
        try:
            return self._admin.namespaces(self.tenant)
        except AdminError as error:
            if error.status == 404:
                return None
            raise

    def others(self) -> tuple[RunTenant, ...]:
        """The places of other runs: in tenants of their own, or in the same tenant."""
        found = [*places(self._admin), *([] if self.is_own else places(self._admin, within=self.tenant))]
        return tuple(one for one in found if one.name != self.name)

    def remove(self) -> None:
        """Remove everything that the run made, the record last; nothing to do where nothing is.

        Raises:
            HarnessError: the cluster does not let go of something; trying again does no harm.
        """
        namespaces = self.namespaces()
        remove_namespaces(self._admin, [one for one in namespaces if one != self.record])
        remove_namespaces(self._admin, [one for one in namespaces if one == self.record])
        # A role that may not make a tenant may not remove one either, and there is none then.
        if self.is_own and self._namespaces_of_tenant() is not None:
            remove_tenant(self._admin, self.tenant)


def places(admin: Admin, *, within: str | None = None) -> tuple[RunTenant, ...]:
    """The places of all runs on a cluster: tenants of their own or, ``within`` a tenant, namespaces."""
    if within is None:
        names = {RunName.parse(tenant) for tenant in admin.tenants()}
    else:
        names = {RunName.of_namespace(namespace.partition("/")[2]) for namespace in admin.namespaces(within)}
    found = sorted((name for name in names if name is not None), key=str)
    return tuple(RunTenant(admin, name, within=within) for name in found)
