"""The command line of ``compact``."""

from __future__ import annotations

from pathlib import Path

import click

from conformance.cli.parameters.output import consoles


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
def compact(folder: Path) -> int:
    """Make a few large files of the history in FOLDER, which nobody writes to; `verify` is much quicker over these."""
    from conformance.commands import compact as compacting

    out, err = consoles()
    return compacting.compact(folder, out=out, err=err)
