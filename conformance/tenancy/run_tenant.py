"""A run's place on a cluster: a tenant with the run's name or, in an existing tenant, namespaces with that name.

Everything that a run creates is in it, so that it can be found and removed, even if the run was killed. The first
namespace is the record of the run. Its properties, which releases from 2.10 on have, identify the process of the run
and the settings that it changed (:mod:`.cluster_settings`).
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
"""The property with the identity of the run's process."""


class RunTenant:
    """The place of the run ``name`` on the cluster of ``admin``; ``within``: the existing tenant.

    Nothing is created before :meth:`create`. It may be the place of another run that was killed.
    """

    def __init__(self, admin: Admin, name: RunName, *, within: str | None = None, lane: int | None = None) -> None:
        """``lane``: its namespaces have its name; the record is the run's."""
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
        """The full name of the run's namespace of this kind, which may not exist yet."""
        return f"{self.tenant}/{self._prefix}{self._of_lane}{kind}"

    def create_tenant(self, cluster: str) -> None:
        """Create the tenant for this cluster. Raises :class:`HarnessError` if the cluster refuses."""
        try:
            self._admin.create_tenant(self.tenant, clusters=[cluster])
        except AdminError as error:
            raise HarnessError(
                f"The run has no tenant of its own, because {error}. "
                "With --tenant NAME it makes its namespaces in one that your role administers.",
                is_forbidden=error.is_forbidden,
            ) from error

    def begin_record(self) -> None:
        """Create the record with this process. Raises :class:`HarnessError` if the cluster refuses."""
        self._create(self.record)
        self.write_down({PROCESS: this_process()})

    def create_namespace(self, kind: str, policies: NamespacePolicies | None = None) -> str:
        """Create a namespace; returns its full name."""
        return self._create(self.namespace(kind), policies)

    def _create(self, namespace: str, policies: NamespacePolicies | None = None) -> str:
        try:
            self._admin.create_namespace(namespace, policies)
        except AdminError as error:
            sentence = f"The run cannot make its namespaces, because {error}."
            raise HarnessError(sentence, is_forbidden=error.is_forbidden) from error
        return namespace

    def write_down(self, properties: Mapping[str, str]) -> bool:
        """Add to the record; whether the release has properties of namespaces."""
        try:
            self._admin.set_namespace_properties(self.record, properties)
        except AdminError:
            return False
        return True

    def written_down(self) -> Mapping[str, str]:
        """The properties of the record; empty without one."""
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
        """Remove everything that the run created, the record last.

        Raises:
            HarnessError: the cluster refuses; it is safe to retry.
        """
        namespaces = self.namespaces()
        remove_namespaces(self._admin, [one for one in namespaces if one != self.record])
        remove_namespaces(self._admin, [one for one in namespaces if one == self.record])
        # A role that may not create a tenant may not remove one either, and has none.
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
