"""The command line of ``verify``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from conformance.cli.parameters import options
from conformance.cli.parameters.defaults import command_line
from conformance.cli.parameters.output import consoles
from conformance.cli.parameters.types import PULSAR, Duration, Rules, SparkOption
from model.rules.catalogue import Selection

if TYPE_CHECKING:
    from conformance.commands.verify import EngineName


@click.command()
@click.argument("histories", nargs=-1, required=True)
@click.option("--rules", type=Rules(), help="Ids or families of rules.  [default: all that histories can decide]")
@click.option(
    "--engine",
    type=click.Choice(("spark", "local")),
    default="spark",
    show_default=True,
    help="Spark, or only processes of this machine, without Spark and Java.",
)
@click.option("--master", help="Spark's master.  [default: that of spark-submit, or local[*]]")
@click.option(
    "--conf", multiple=True, type=SparkOption(), metavar="NAME=VALUE", help="An option of Spark's; may be repeated."
)
@click.option(
    "--persisted-after",
    type=Duration(),
    help="How long a kill may undo an ack.  [default: by the runs' settings, or 61s]",
)
@options.known_option
@click.option(
    "--release",
    type=PULSAR,
    help="The release of histories that did not record it: 4.0.8.",
)
@click.option("--summary", metavar="FOLDER", help="Write rates, latencies and verdicts by run as Parquet.")
@options.folder_option("--report", "Folder for a report in HTML.")
@options.json_file_option
@click.option("--follow", is_flag=True, help="Judge histories while they grow, until Ctrl-C or --settled.")
@click.option(
    "--settled", type=Duration(), help="With --follow: end after this time without a new file.  [default: 120s]"
)
def verify(
    histories: tuple[str, ...],
    rules: Selection | None,
    engine: EngineName,
    master: str | None,
    conf: tuple[tuple[str, str], ...],
    persisted_after: float | None,
    known: str | None,
    release: str | None,
    summary: str | None,
    report: Path | None,
    json_: Path | None,
    follow: bool,
    settled: float | None,
) -> int:
    """Verify recorded HISTORIES: folders, with Spark on any file system that it reads."""
    from conformance.commands import verify as verifying

    if settled is not None and not follow:
        raise click.UsageError("--settled says when --follow ends: it needs --follow")
    if engine == "local":
        needs_spark = {"--master": master, "--conf": conf, "--summary": summary, "--report": report, "--follow": follow}
        if named := [name for name, value in needs_spark.items() if value]:
            raise click.UsageError(f"{named[0]} needs --engine spark")
    asked = verifying.VerifyOptions(
        histories=histories,
        rules=None if rules is None else rules.rules,
        master=master,
        options=dict(conf),
        persisted_after_s=persisted_after,
        known=options.known_deviations(known),
        release=release,
        summary=summary,
        report=report,
        json=json_,
        command=command_line(click.get_current_context()),
        engine=engine,
        follow_s=(settled or verifying.SETTLED_S) if follow else None,
    )
    return verifying.verify(asked, out=consoles()[0])
