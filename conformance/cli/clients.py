"""The command line of ``clients``."""

from __future__ import annotations

import click

from conformance.cli.parameters.output import consoles


@click.command()
def clients() -> None:
    """List the clients that --client can name, and those that the cache has."""
    from conformance.commands import listings

    listings.list_clients(consoles()[0])
