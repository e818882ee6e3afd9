"""The command line of ``machines``."""

from __future__ import annotations

import click

from conformance.cli.parameters.output import consoles


@click.command()
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def machines(as_json: bool) -> None:
    """List the machines: what each does, the rules that it decides, what it needs, and its share of the time."""
    from conformance.commands import listings

    if as_json:
        click.echo(listings.machines_as_json())
    else:
        listings.list_machines(consoles()[0])
