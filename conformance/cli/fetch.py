"""The command line of ``fetch``."""

from __future__ import annotations

import click

from conformance.cli.parameters.output import consoles
from conformance.cli.parameters.types import CLIENT, PULSAR


@click.command()
@click.argument("releases", metavar="RELEASE...", nargs=-1, required=True, type=PULSAR)
@click.option("--client", "clients", type=CLIENT, multiple=True, help="A pulsar-client, too; may be repeated.")
def fetch(releases: tuple[str, ...], clients: tuple[str, ...]) -> int:
    """Fetch each Pulsar RELEASE into the cache, with all that a check of it needs."""
    from conformance.commands import fetch as fetching

    return fetching.fetch(releases, clients, out=consoles()[0])
