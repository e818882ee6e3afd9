"""The command line of ``soak``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from conformance.cli.parameters import options
from conformance.cli.parameters.connection import connection_options
from conformance.cli.parameters.groups import GroupedCommand
from conformance.cli.parameters.output import NAME, consoles
from conformance.cli.parameters.types import DEFECT, FAULTS, LONGEST_S, Duration, Number
from conformance.clients.security.service import Security

if TYPE_CHECKING:
    from conformance.soak.plan import FaultName


@click.command(cls=GroupedCommand)
@options.broker_option()
@click.option("--minutes", type=Number(0, LONGEST_S / 60, min_open=True), help="Length of the load.  [default: 30]")
@click.option("--hours", type=Number(0, LONGEST_S / 3600, min_open=True), help="Length in hours; both add up.")
@click.option("--clients", type=click.IntRange(1, 64), default=8, show_default=True, help="Client processes.")
@click.option("--topics", type=click.IntRange(1, 1000), default=8, show_default=True, help="Topics.")
@click.option("--clusters", type=click.IntRange(1, 3), default=1, show_default=True, help="Clusters that replicate.")
@click.option(
    "--rate", type=Number(1, 1_000_000), default=400, show_default=True, help="Messages sent a second, in all."
)
@click.option("--fault-every", type=Duration(), default="20s", show_default=True, help="Between two faults.")
@click.option("--faults", type=FAULTS, help="Which faults, or none.  [default: all that this broker supports]")
@options.seed_option("a soak")
@options.folder_option("--history", "Folder for the history.")
@click.option("--defect", "defects", type=DEFECT, multiple=True, help="Switch a seeded defect on; may be repeated.")
@options.setting_option
@connection_options
@options.tenant_option
@options.cluster_settings_option
def soak(
    broker: str,
    minutes: float | None,
    hours: float | None,
    clients: int,
    topics: int,
    clusters: int,
    rate: float,
    fault_every: float,
    faults: tuple[FaultName, ...] | None,
    seed: int | None,
    history: Path | None,
    defects: tuple[str, ...],
    settings: tuple[tuple[str, str], ...],
    security: Security,
    tenant: str | None,
    allow_cluster_settings: bool,
) -> int:
    """Run many clients and faults against a broker for a long time, and write a history for `verify`."""
    from conformance.commands import soak as soaking
    from conformance.soak.request import SoakRequest

    seed = options.seed_or_new(seed)
    length_s = 60 * (minutes or 0) + 3600 * (hours or 0) or 1800
    asked = SoakRequest(
        broker=broker,
        seed=seed,
        length_s=length_s,
        clients=clients,
        topics=topics,
        clusters=clusters,
        rate=rate,
        fault_every_s=fault_every,
        faults=None if faults is None else frozenset(faults),
        history=(history or Path("histories") / f"{NAME}-{seed}").absolute(),
        defects=defects,
        settings=settings,
        security=security,
        # The quiesce phase and the reading of the logs take longer with more messages.
        footprint=options.footprint(broker, tenant, allow_cluster_settings, at_most_s=2 * length_s + 3600),
    )
    out, err = consoles()
    out.print(
        f"Seed {seed}, broker {broker}, {asked.length_s:g} s, history {asked.history}",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
    return soaking.soak(asked, out=out, err=err)
