"""The command line of ``compare``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from conformance.cli.parameters import campaign, options
from conformance.cli.parameters.groups import GroupedCommand
from conformance.cli.parameters.output import consoles
from conformance.commands.supervision.engine import Engine


@click.command(cls=GroupedCommand)
@click.argument("brokers", nargs=-1, required=True, metavar="BROKER BROKER...")
@campaign.campaign_options
@options.report_option("the comparison, and each check")
@click.pass_obj
def compare(engine: Engine, /, brokers: tuple[str, ...], report: Path | None, seed: int | None, **asked: Any) -> int:
    """Check each BROKER in the same way, and say what is different from the first one.

    A BROKER is one of `check`, such as 4.0.8 or dist:PATH, and may be followed by @client=VERSION, @settings=shipped
    or @NAME=VALUE. The exit status is 1 if something is new or more often, 3 if it was seen too seldom to tell.
    """
    from conformance.commands.comparison import compare as comparing

    if len(brokers) < 2:
        raise click.UsageError("name two brokers at least; the others are compared with the first one")
    sides = campaign.sides_of(brokers)
    out, err = consoles()
    checks = campaign.checks_of(sides, seed=options.seed_or_new(seed), report=report, **asked)
    engines = {side.name: options.with_client(engine, side.client, err) for side in sides}
    return comparing.compare(sides, checks, engines, out=out, err=err)
