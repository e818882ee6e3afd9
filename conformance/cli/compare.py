"""The command line of ``compare``."""

from __future__ import annotations

from pathlib import Path

import click

from conformance.brokers.settings import CHOICES, Choice
from conformance.cli.parameters import options
from conformance.cli.parameters.defaults import command_line
from conformance.cli.parameters.groups import GroupedCommand
from conformance.cli.parameters.output import consoles
from conformance.cli.parameters.types import MACHINES, BrokerParameter, Duration, Rules
from conformance.commands.supervision.engine import Engine
from model.rules.catalogue import FAMILIES, Selection

LANES = 8


@click.command(cls=GroupedCommand)
@click.argument("brokers", nargs=-1, required=True, metavar="BROKER BROKER...")
@click.option("--rules", type=Rules(), default=",".join(FAMILIES), show_default=True, help="Ids or families of rules.")
@click.option("--budget", type=Duration(), default="10m", show_default=True, help="How long to check each broker.")
@options.seed_option("a run")
@options.known_option
@options.report_option("the comparison, and each check")
@click.option("--machines", type=MACHINES, default=(), help="Run only these machines.")
@options.lanes_option(f"How many examples run at once.  [default: {LANES}]", default=LANES)
@options.setting_option
@options.settings_option(CHOICES, "The suite's own, the release's, or a random subset.  [default: quick]")
@click.pass_obj
def compare(
    engine: Engine,
    brokers: tuple[str, ...],
    rules: Selection,
    budget: float,
    seed: int | None,
    known: str | None,
    report: Path | None,
    machines: tuple[str, ...],
    lanes: int,
    settings: tuple[tuple[str, str], ...],
    choice: Choice | None,
) -> int:
    """Check each BROKER in the same way, and say what is different from the first one.

    A BROKER is one of `check`, such as 4.0.8 or dist:PATH, and may be followed by @client=VERSION, @settings=shipped
    or @NAME=VALUE. The exit status is 1 if something is new or more often, 3 if it was seen too seldom to tell.
    """
    from conformance.commands.check import CheckOptions
    from conformance.commands.comparison import compare as comparing

    if len(brokers) < 2:
        raise click.UsageError("name two brokers at least; the others are compared with the first one")
    sides = [comparing.Side.parse(text) for text in brokers]
    if len({side.name for side in sides}) < len(sides):
        sides = [comparing.numbered(side, number) for number, side in enumerate(sides, start=1)]
    sides = [comparing.exact(side, BrokerParameter().convert(side.broker, None, None)) for side in sides]
    out, err = consoles()
    asked = CheckOptions(
        broker=sides[0].broker,
        rules=rules.rules,
        named=rules.named,
        budget_s=budget,
        seed=options.seed_or_new(seed),
        known=options.known_deviations(known),
        report=report,
        json=None,
        defect=None,
        machines=machines,
        lanes=lanes,
        settings=settings,
        choice=choice,
        command=command_line(click.get_current_context()),
    )
    engines = {side.name: options.with_client(engine, side.client, err) for side in sides}
    return comparing.compare(sides, asked, engines, out=out, err=err)
