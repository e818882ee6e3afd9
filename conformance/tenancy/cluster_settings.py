"""Dynamic settings of a cluster that a run changes, and sets back.

What a setting was is written into the run's record before it is changed, so that it can be set back whatever becomes of
the run. A cluster whose releases cannot keep a record keeps its settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from conformance.clients.admin.client import Admin
from conformance.clients.admin.http import AdminError
from conformance.tenancy.run_tenant import RunTenant

CLASSIC: Final = "subscriptionKeySharedUseClassicPersistentImplementation"
"""The setting that lets Key_Shared subscriptions have the implementation of releases before 4.0."""

MAY_CHANGE: Final[Mapping[str, str]] = {
    CLASSIC: "some topics of the Key_Shared rules are loaded with the classic implementation, some with the other one",
}
"""All that a run may change outside its tenant, and what for."""

_PREFIX: Final = "pulsar-conformance.setting."


class Before(msgspec.Struct, frozen=True, kw_only=True):
    """What a setting was: the value it had been given while the cluster ran (None: none), and the one in force."""

    dynamic: str | None
    in_force: str


class ClusterSettings:
    """The dynamic settings of one cluster, as a run changes them."""

    def __init__(self, admin: Admin, tenant: RunTenant, *, may_change: bool) -> None:
        """``tenant`` has the record. ``may_change``: whether the cluster's owner agrees."""
        self._admin = admin
        self._tenant = tenant
        self.may_change: Final = may_change

    def change(self, name: str, value: str) -> bool:
        """Give a setting a value; whether that could be. The cluster's brokers follow soon.

        Raises:
            KeyError: no run changes a setting of this name.
        """
        if name not in MAY_CHANGE:
            raise KeyError(name)
        try:
            if not self.may_change or not self._is_recorded(name):
                return False
            self._admin.set_dynamic_configuration(name, value)
        except AdminError:
            return False
        return True

    def restore(self) -> tuple[str, ...]:
        """Set back all that the run changed, by its record; gives the names of the settings.

        A setting that had not been set is given the value that was in force before it is cleared, because there are
        releases that keep the last value of a setting that is cleared until they are restarted.
        """
        changed = changed_settings(self._tenant)
        for name, before in changed.items():
            self._admin.set_dynamic_configuration(name, before.in_force)
            if before.dynamic is None:
                self._admin.clear_dynamic_configuration(name)
        return tuple(changed)

    def _is_recorded(self, name: str) -> bool:
        """Write down what a setting is, unless it is written down already; whether it could be."""
        if name in changed_settings(self._tenant):
            return True
        if any(name in changed_settings(other) for other in self._tenant.others()):
            return False  # what it is now is not what it was
        dynamic = self._admin.dynamic_configuration().get(name)
        before = Before(dynamic=dynamic, in_force=dynamic or self._admin.runtime_configuration().get(name, ""))
        return self._tenant.write_down({f"{_PREFIX}{name}": msgspec.json.encode(before).decode()})


def changed_settings(tenant: RunTenant) -> Mapping[str, Before]:
    """What the settings were that a run has changed, by its record."""
    return {
        name.removeprefix(_PREFIX): msgspec.json.decode(value, type=Before)
        for name, value in tenant.written_down().items()
        if name.startswith(_PREFIX)
    }
