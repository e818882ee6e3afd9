"""The command line of ``clean``."""

from __future__ import annotations

import click

from conformance.cli.parameters import options
from conformance.cli.parameters.connection import connection_options
from conformance.cli.parameters.output import consoles
from conformance.cli.parameters.types import Tenant
from conformance.clients.security.service import Security


@click.command()
@options.broker_option(required=True, help="The URLs of a running cluster.")
@click.option(
    "--tenant",
    type=Tenant(),
    metavar="NAME",
    help="A tenant that runs used (`--tenant`).  [default: the tenants that runs created]",
)
@click.option("--force", is_flag=True, help="Also remove what may belong to a run in progress on another machine.")
@connection_options
def clean(broker: str, tenant: str | None, force: bool, security: Security) -> int:
    """Remove what killed runs left on a running cluster, and restore the settings that they changed."""
    from conformance.commands import clean as cleaning

    asked = cleaning.CleanOptions(broker=broker, within=tenant, force=force, security=security)
    return cleaning.clean(asked, out=consoles()[0])
