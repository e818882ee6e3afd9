"""The command line of ``rules``."""

from __future__ import annotations

import click

from conformance.cli.parameters.output import consoles


@click.command()
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def rules(as_json: bool) -> None:
    """List the rules."""
    from conformance.commands import listings

    if as_json:
        click.echo(listings.rules_as_json())
    else:
        listings.list_rules(consoles()[0])
