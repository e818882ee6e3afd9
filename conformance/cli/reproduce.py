"""The command line of ``reproduce``."""

from __future__ import annotations

from pathlib import Path

import click

from conformance.cli.parameters import options
from conformance.cli.parameters.groups import GroupedCommand
from conformance.cli.parameters.output import consoles
from conformance.cli.parameters.places import OutputFolder
from conformance.cli.parameters.types import DEVIATION, BrokerParameter, Duration
from conformance.commands.supervision.engine import Engine

LANES = 8


@click.command(cls=GroupedCommand)
@click.argument("name", type=DEVIATION, required=False)
@click.option("--all", "is_all", is_flag=True, help="All deviations that the release of --broker has.")
@click.option(
    "--output", type=OutputFolder(), help="With --all: the folder with a line of each.  [default: reproduced]"
)
@click.option("--broker", type=BrokerParameter(), help="On this broker.  [default: the newest release that has it]")
@click.option("--times", type=click.IntRange(1, 1000), default=16, show_default=True, help="How often.")
@click.option("--budget", type=Duration(), default="5m", show_default=True, help="How long at most: 90s, 10m, 2h.")
@options.lanes_option(f"How many replays run at once.  [default: {LANES}]", default=LANES)
@options.report_option("the replays")
@options.client_option
@click.pass_obj
def reproduce(
    engine: Engine,
    name: str | None,
    is_all: bool,
    output: Path | None,
    broker: str | None,
    times: int,
    budget: float,
    lanes: int,
    report: Path | None,
    client: str | None,
) -> int:
    """Replay the minimal history of a known deviation on a release that has it.

    With --all, those of all deviations that the release has; one whose line is in the folder is not replayed again. The
    exit status is 0 if each came back at least once, 1 if one did not, and 2 if one could not be replayed.
    """
    from conformance.commands.comparison import reproduce as reproducing
    from conformance.commands.comparison import reproduce_all as reproducing_all

    if is_all == (name is not None):
        raise click.UsageError("Name either a deviation or --all.")
    out, err = consoles()
    engine = options.with_client(engine, client, err)
    if name is not None:
        if output is not None:
            raise click.UsageError("--output goes with --all.")
        one = reproducing.ReproduceOptions(
            name=name, broker=broker, times=times, lanes=lanes, budget_s=budget, report=report
        )
        return reproducing.reproduce(one, engine, out=out, err=err)
    if broker is None or report is not None:
        raise click.UsageError("--all goes with --broker, and with --output instead of --report.")
    every = reproducing_all.ReproduceAllOptions(
        broker=broker, times=times, lanes=lanes, budget_s=budget, folder=output or Path("reproduced")
    )
    return reproducing_all.reproduce_all(every, engine, out=out, err=err)
