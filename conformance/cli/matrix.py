"""The command line of ``matrix``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from conformance.cli.parameters import campaign, options
from conformance.cli.parameters.groups import GroupedCommand
from conformance.cli.parameters.output import consoles
from conformance.cli.parameters.places import OutputFolder
from conformance.commands.supervision.engine import Engine

SEED = 1


@click.command(cls=GroupedCommand)
@click.argument("brokers", nargs=-1, required=True, metavar="BROKER...")
@click.option(
    "--results", type=OutputFolder(), default="results", show_default=True, help="The folder with a file of each run."
)
@campaign.campaign_options
@click.pass_obj
def matrix(engine: Engine, /, brokers: tuple[str, ...], results: Path, seed: int | None, **asked: Any) -> int:
    """Check each BROKER, keep a file of each run, and make a table of all runs and rules.

    A BROKER is one of `check`, such as 4.0.8, and may be followed by @client=VERSION, @settings=shipped or @NAME=VALUE.
    A run whose file is there is not made again, so a campaign that was interrupted goes on. The seed is 1 unless named,
    so that it does. The exit status is 2 if a run could not be made.
    """
    from conformance.commands.comparison import matrix as making

    sides = campaign.sides_of(brokers)
    out, err = consoles()
    checks = campaign.checks_of(sides, seed=SEED if seed is None else seed, **asked)
    engines = {side.name: options.with_client(engine, side.client, err) for side in sides}
    return making.matrix(sides, checks, engines, results, out=out, err=err)
