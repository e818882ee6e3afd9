"""The command line of ``reproduce``."""

from __future__ import annotations

from pathlib import Path

import click

from conformance.cli.parameters import options
from conformance.cli.parameters.groups import GroupedCommand
from conformance.cli.parameters.output import consoles
from conformance.cli.parameters.types import DEVIATION, BrokerParameter, Duration
from conformance.commands.supervision.engine import Engine

LANES = 8


@click.command(cls=GroupedCommand)
@click.argument("name", type=DEVIATION)
@click.option("--broker", type=BrokerParameter(), help="On this broker.  [default: the newest release that has it]")
@click.option("--times", type=click.IntRange(1, 1000), default=16, show_default=True, help="How often.")
@click.option("--budget", type=Duration(), default="5m", show_default=True, help="How long at most: 90s, 10m, 2h.")
@options.lanes_option(f"How many replays run at once.  [default: {LANES}]", default=LANES)
@options.report_option("the replays")
@options.client_option
@click.pass_obj
def reproduce(
    engine: Engine,
    name: str,
    broker: str | None,
    times: int,
    budget: float,
    lanes: int,
    report: Path | None,
    client: str | None,
) -> int:
    """Replay the minimal history of a known deviation on a release that has it.

    The exit status is 0 if it came back at least once, 1 if it did not, and 2 if it could not be replayed.
    """
    from conformance.commands.comparison import reproduce as reproducing

    asked = reproducing.ReproduceOptions(
        name=name, broker=broker, times=times, lanes=lanes, budget_s=budget, report=report
    )
    out, err = consoles()
    return reproducing.reproduce(asked, options.with_client(engine, client, err), out=out, err=err)
