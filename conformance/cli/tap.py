"""The command line of ``tap``."""

from __future__ import annotations

from pathlib import Path

import click

from conformance.cli.parameters import options
from conformance.cli.parameters.connection import connection_options
from conformance.cli.parameters.groups import GroupedCommand
from conformance.cli.parameters.output import consoles
from conformance.cli.parameters.types import HostAndPort, ServiceUrl
from conformance.clients.security.service import Security, Service


@click.command(cls=GroupedCommand)
@click.option(
    "--listen",
    type=HostAndPort(),
    metavar="HOST:PORT",
    default="127.0.0.1:6651",
    show_default=True,
    help="Where clients connect, without TLS; a port that is 0 is any that is free.",
)
@click.option(
    "--broker",
    type=ServiceUrl("pulsar", "pulsar+ssl"),
    metavar="HOST:PORT",
    required=True,
    help="The broker, or pulsar+ssl://HOST:PORT.",
)
@click.option(
    "--admin",
    type=ServiceUrl("http", "https"),
    metavar="URL",
    help="Its admin API: logs and cursors are recorded, too.",
)
@options.folder_option("--history", "Folder for the history.")
@connection_options
def tap(listen: tuple[str, int], broker: str, admin: str | None, history: Path | None, security: Security) -> int:
    """Record what any application does, through a proxy in front of it, and write a history for `verify`.

    The application connects to --listen instead of the broker. Ctrl-C ends the tap, and reads the logs back.
    """
    from conformance.commands import tap as tapping
    from conformance.tap.request import TapRequest

    if history is None:
        raise click.UsageError("--history names the folder to record into")
    host, port = listen
    asked = TapRequest(
        host=host,
        port=port,
        service=Service(broker, security),
        admin=None if admin is None else Service(admin, security),
        history=history.absolute(),
    )
    out, err = consoles()
    return tapping.tap(asked, out=out, err=err)
