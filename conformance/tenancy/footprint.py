"""What a run creates and changes on a cluster, within the user's limits, and its announcement."""

from __future__ import annotations

from dataclasses import dataclass

from conformance.tenancy.cluster_settings import MAY_CHANGE
from conformance.tenancy.run_name import RunName


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """``within``: the tenant to use instead of one of its own. ``may_change_settings``: those of the whole cluster."""

    name: RunName
    within: str | None = None
    may_change_settings: bool = False

    def options(self) -> list[str]:
        """The equivalent options of the engine's command line."""
        options = ["--pulsar-run-name", str(self.name)]
        if self.within is not None:
            options += ["--pulsar-tenant", self.within]
        if self.may_change_settings:
            options.append("--pulsar-allow-cluster-settings")
        return options

    def sentences(self) -> tuple[str, ...]:
        """Announce what the run creates, changes and removes."""
        if self.within is None:
            creates = f"Creates the tenant {self.name} with namespaces and topics, and removes it at the end."
        else:
            creates = (
                f"Creates namespaces {self.within}/{self.name}-… with topics in the tenant {self.within}, "
                "and removes them at the end."
            )
        settings = ", ".join(MAY_CHANGE)
        if self.may_change_settings:
            return (creates, f"May change the cluster's dynamic setting {settings}, and sets it back at the end.")
        return (
            creates,
            "Changes nothing else on the cluster. "
            f"(With --allow-cluster-settings also the dynamic setting {settings}, until the end.)",
        )
