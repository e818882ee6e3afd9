"""The command line of ``defects``."""

from __future__ import annotations

from pathlib import Path

import click
from click.core import ParameterSource

from conformance.cli.parameters import options
from conformance.cli.parameters.output import STDOUT, consoles, write
from conformance.cli.parameters.places import OutputFile
from conformance.cli.parameters.types import DEFECT, Duration
from conformance.commands.supervision.engine import Engine


@click.command()
@click.argument("names", nargs=-1, type=DEFECT)
@click.option("--hunt", is_flag=True, help="See whether the machines find each defect.")
@options.broker_option(help="Hunt in: VERSION, dist:PATH or container:TAG.")
@click.option("--budget", type=Duration(), default="60s", show_default=True, help="How long to hunt for each: 90s, 2m.")
@options.seed_option("a hunt")
@options.report_option("what a hunt writes")
@click.option(
    "--json",
    "json_",
    type=OutputFile(allow_dash=True),
    is_flag=False,
    flag_value=STDOUT,
    metavar="[FILE]",
    help="For programs.",
)
@click.pass_obj
def defects(
    engine: Engine,
    names: tuple[str, ...],
    hunt: bool,
    broker: str,
    budget: float,
    seed: int | None,
    report: Path | None,
    json_: Path | None,
) -> int:
    """List the seeded defects (all, or those of these NAMES), or hunt them: each must be found by the machines."""
    if not hunt:
        _demand_hunt()
    from conformance.commands import hunt as hunting
    from conformance.commands import listings
    from conformance.faults import catalogue
    from conformance.known import shipped
    from conformance.report.docs import hunts

    chosen = tuple(catalogue.find(name) for name in names) or catalogue.defects()
    out, err = consoles()
    if not hunt:
        if json_ is None:
            listings.list_defects(chosen, out)
        else:
            write(listings.defects_as_json(chosen), json_)
        return 0
    asked = hunting.HuntOptions(
        defects=chosen,
        broker=broker,
        budget_s=budget,
        seed=options.seed_or_new(seed),
        known=shipped(),
        report=report,
    )
    status, hunted = hunting.hunt(asked, engine, err=err)
    hunts.show(hunted, err if json_ == Path(STDOUT) else out)
    if json_ is not None:
        write(hunts.as_json(hunted, broker=broker, seed=asked.seed, budget_s=budget), json_)
    return status


def _demand_hunt() -> None:
    """Refuse options of a hunt without --hunt."""
    context = click.get_current_context()
    for name in ("broker", "budget", "seed", "report"):
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{name} says how to hunt: it needs --hunt")
