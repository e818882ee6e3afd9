"""The command line of ``report``."""

from __future__ import annotations

from pathlib import Path

import click

from conformance.cli.parameters import options
from conformance.cli.parameters.output import consoles
from conformance.cli.parameters.places import OutputFolder


@click.command()
@click.argument("folder", required=False, type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--issue", metavar="NAME|HISTORY", help="Print the issue to file for a known deviation or a history.")
@click.option(
    "--reproducer",
    metavar="FOLDER",
    type=OutputFolder(),
    help="With --issue: write a script of pulsar-client, and a Java program, that reproduce it without this suite.",
)
@options.verbose_option
def report(folder: Path | None, issue: str | None, reproducer: Path | None, verbose: bool) -> int:
    """Rebuild the report of a `check` that was killed, from the events in its FOLDER, or print an issue to file."""
    from conformance.commands import report as reporting

    if (folder is None) == (issue is None):
        raise click.UsageError("Name either the FOLDER of a check or --issue.")
    if reproducer is not None and issue is None:
        raise click.UsageError("--reproducer goes with --issue.")
    if issue is not None:
        click.echo(reporting.issue(issue, reproducer), nl=False)
        return 0
    assert folder is not None
    return reporting.report(folder, out=consoles()[0], verbose=verbose)
