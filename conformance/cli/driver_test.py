"""The command line of ``driver-test``."""

from __future__ import annotations

import click

from conformance.cli.parameters.output import consoles


@click.command(name="driver-test", context_settings={"ignore_unknown_options": True})
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def driver_test(command: tuple[str, ...]) -> int:
    """Hold a driver of a client against its contract, with a fake broker and without Pulsar.

    COMMAND starts the driver; write `--` before it. docs/driver-protocol.md says what a driver is.
    The exit status is 1 if it breaks its contract, and 2 if it does not start.
    """
    from conformance.commands import driver_contract

    return driver_contract.driver_test(command, consoles()[0])
