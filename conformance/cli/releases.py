"""The command line of ``releases``."""

from __future__ import annotations

import click

from conformance.cli.parameters.output import consoles
from conformance.cli.parameters.types import PULSAR


@click.command()
@click.argument("versions", metavar="[RELEASE]...", nargs=-1, type=PULSAR)
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def releases(versions: tuple[str, ...], as_json: bool) -> int:
    """List releases of Pulsar: how each is obtained, and whether the cache has it.

    Without a RELEASE: those that the suite has tried, and those in the cache. Maven Central is asked for the others.
    The exit status is 1 if one of those named cannot be had.
    """
    from conformance.commands import releases as listing

    found = listing.releases(versions)
    if as_json:
        click.echo(listing.as_json(found))
    else:
        listing.list_releases(found, consoles()[0])
    return int(bool(versions) and any(one.how == "not available" for one in found))
