"""The command line of ``judge``."""

from __future__ import annotations

from pathlib import Path

import click

from conformance.cli.parameters import options
from conformance.cli.parameters.output import consoles


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@options.known_option
@options.json_file_option
def judge(folder: Path, known: str | None, json_: Path | None) -> int:
    """Judge the journals of a `check` in its FOLDER again, without a broker, and compare with what it said.

    The exit status is 1 if a rule is broken, 2 if the journals do not show what the check said, else 0.
    """
    from conformance.commands import judge as judging

    deviations = None if known is None else options.known_deviations(known)
    return judging.judge(folder, deviations, out=consoles()[0], json=json_)
