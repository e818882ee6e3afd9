"""Dynamic settings of a cluster that a run changes and restores.

It stores the former value in the run's record before it changes a setting, so that another run can restore it. If the
release cannot store a record, settings stay unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from conformance.clients.admin.client import Admin
from conformance.clients.admin.http import AdminError
from conformance.tenancy.run_tenant import RunTenant

CLASSIC: Final = "subscriptionKeySharedUseClassicPersistentImplementation"
"""The setting for the implementation of Key_Shared of releases before 4.0."""

MAY_CHANGE: Final[Mapping[str, str]] = {
    CLASSIC: "some topics of the Key_Shared rules are loaded with the classic implementation, some with the other one",
}
"""The settings that a run may change, each with its purpose."""

_PREFIX: Final = "pulsar-conformance.setting."


class Before(msgspec.Struct, frozen=True, kw_only=True):
    """The former state of a setting: its dynamic value (None: none), and the one in force."""

    dynamic: str | None
    in_force: str


class ClusterSettings:
    """The dynamic settings of one cluster, for a run."""

    def __init__(self, admin: Admin, tenant: RunTenant, *, may_change: bool) -> None:
        """``tenant`` has the record. ``may_change``: whether the cluster's owner agrees."""
        self._admin = admin
        self._tenant = tenant
        self.may_change: Final = may_change

    def change(self, name: str, value: str) -> bool:
        """Change a setting; whether the run may. The brokers apply it soon.

        Raises:
            KeyError: runs may not change this setting.
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
        """Restore all settings that the run changed, by its record; returns their names.

        If a setting had no dynamic value, it first gets the former value in force and is then removed: after a removal,
        some releases keep the last value until a restart.
        """
        changed = changed_settings(self._tenant)
        for name, before in changed.items():
            self._admin.set_dynamic_configuration(name, before.in_force)
            if before.dynamic is None:
                self._admin.clear_dynamic_configuration(name)
        return tuple(changed)

    def _is_recorded(self, name: str) -> bool:
        """Store a setting's state in the record, unless it is there; whether the release has records."""
        if name in changed_settings(self._tenant):
            return True
        if any(name in changed_settings(other) for other in self._tenant.others()):
            return False  # the current value may not be the original one
        dynamic = self._admin.dynamic_configuration().get(name)
        before = Before(dynamic=dynamic, in_force=dynamic or self._admin.runtime_configuration().get(name, ""))
        return self._tenant.write_down({f"{_PREFIX}{name}": msgspec.json.encode(before).decode()})


def changed_settings(tenant: RunTenant) -> Mapping[str, Before]:
    """The former states of the settings in the record."""
    return {
        name.removeprefix(_PREFIX): msgspec.json.decode(value, type=Before)
        for name, value in tenant.written_down().items()
        if name.startswith(_PREFIX)
    }
