"""The command line of ``bisect``."""

from __future__ import annotations

from pathlib import Path

import click

from conformance.cli.parameters import options
from conformance.cli.parameters.groups import GroupedCommand
from conformance.cli.parameters.output import consoles
from conformance.cli.parameters.types import Duration
from conformance.commands.supervision.engine import Engine

LANES = 8


@click.command(cls=GroupedCommand)
@click.argument("history", type=click.Path(path_type=Path))
@click.option("--good", metavar="VERSION|REV", help="One end of the search.")
@click.option("--bad", metavar="VERSION|REV", help="The other end.")
@click.option(
    "--releases", metavar="VERSIONS", help="These releases.  [default: all that the suite has tried or cached]"
)
@click.option("--command", help="Search builds: makes that of $REV, and prints the path of its distribution last.")
@click.option("--budget", type=Duration(), default="5m", show_default=True, help="How long for one run of a broker.")
@options.lanes_option(f"How many replays run at once.  [default: {LANES}]", default=LANES)
@options.report_option("the replays")
@options.client_option
@click.pass_obj
def bisect(
    engine: Engine,
    history: Path,
    good: str | None,
    bad: str | None,
    releases: str | None,
    command: str | None,
    budget: float,
    lanes: int,
    report: Path | None,
    client: str | None,
) -> int:
    """Find out since when, and until when, releases or builds have the violation of a HISTORY.

    Each branch of releases is searched by itself. The exit status is 0, or 2 if all stay undecided.
    """
    from conformance.commands.comparison import bisect as bisecting

    asked = bisecting.BisectOptions(
        history=history,
        good=good,
        bad=bad,
        releases=tuple(one for one in (releases or "").split(",") if one),
        command=command,
        lanes=lanes,
        budget_s=budget,
        report=report,
    )
    out, err = consoles()
    return bisecting.bisect(asked, options.with_client(engine, client, err), out=out, err=err)
