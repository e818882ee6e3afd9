"""The command line of ``report``."""

from __future__ import annotations

from pathlib import Path

import click

from conformance.cli.parameters import options
from conformance.cli.parameters.output import consoles


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@options.verbose_option
def report(folder: Path, verbose: bool) -> int:
    """Rebuild the report of a `check` that was killed, from the events in its FOLDER."""
    from conformance.commands import report as reporting

    return reporting.report(folder, out=consoles()[0], verbose=verbose)
