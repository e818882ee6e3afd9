"""The command line of ``known``."""

from __future__ import annotations

import click

from conformance.cli.parameters.output import consoles
from conformance.cli.parameters.types import PULSAR


@click.command()
@click.option("--release", type=PULSAR, metavar="VERSION", help="Only those of this release.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def known(release: str | None, as_json: bool) -> None:
    """List the known deviations by what a user sees of them, the gravest first."""
    from conformance.commands import known as listing

    found = listing.known_on(release)
    if as_json:
        click.echo(listing.as_json(found))
    else:
        listing.list_known(found, release, consoles()[0])
