"""The command line of ``replay``."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import click

from conformance.brokers.settings import Base
from conformance.cli.parameters import options
from conformance.cli.parameters.connection import connection_options
from conformance.cli.parameters.groups import GroupedCommand
from conformance.cli.parameters.output import consoles
from conformance.cli.parameters.types import DEFECT_OR_NONE, Duration
from conformance.clients.security.service import Security
from conformance.commands.supervision.engine import Engine


@click.command(cls=GroupedCommand)
@click.argument("history", type=click.Path(path_type=Path))
@options.broker_option(required=True)
@options.size_options(None)
@click.option("--times", type=click.IntRange(1, 1000), default=5, show_default=True, help="How often.")
@click.option("--budget", type=Duration(), default="5m", show_default=True, help="How long at most: 90s, 10m, 2h.")
@click.option(
    "--shorten", type=Duration(), metavar="DURATION", help="Then make the history of a violation short, for so long."
)
@options.lanes_option(
    "How many replays run at once; one, if the history kills the broker or the like.  [default: 1]", default=1
)
@options.known_option
@options.report_option("what the run writes")
@click.option(
    "--defect",
    type=DEFECT_OR_NONE,
    metavar="NAME|none",
    help="Switch a seeded defect on.  [default: the history's own]",
)
@options.client_option
@options.setting_option
@connection_options
@options.tenant_option
@options.cluster_settings_option
@options.settings_option(get_args(Base), "The suite's own, or the release's.  [default: the history's own]")
@click.pass_obj
def replay(
    engine: Engine,
    history: Path,
    broker: str,
    brokers: int | None,
    bookies: int | None,
    times: int,
    budget: float,
    shorten: float | None,
    lanes: int,
    known: str | None,
    report: Path | None,
    defect: str | None,
    client: str | None,
    settings: tuple[tuple[str, str], ...],
    security: Security,
    tenant: str | None,
    allow_cluster_settings: bool,
    choice: Base | None,
) -> int:
    """Run one saved HISTORY again, step by step."""
    from conformance.commands import replay as replaying

    asked = replaying.ReplayOptions(
        history=history,
        broker=broker,
        times=times,
        budget_s=budget,
        shortening_s=shorten,
        lanes=lanes,
        known=options.known_deviations(known),
        report=report,
        settings=settings,
        base=choice,
        brokers=brokers,
        bookies=bookies,
        defect=defect,
        footprint=options.footprint(broker, tenant, allow_cluster_settings, at_most_s=budget + (shorten or 0.0)),
    )
    out, err = consoles()
    client = client or replaying.clients_of(history)
    return replaying.replay(asked, options.with_client(engine.secured(security), client, err), out=out, err=err)
