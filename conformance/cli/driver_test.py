"""The command line of ``driver-test``."""

from __future__ import annotations

from pathlib import Path

import click

from conformance.cli.parameters import options
from conformance.cli.parameters.output import consoles


@click.command(name="driver-test", context_settings={"ignore_unknown_options": True})
@options.known_failures_options("Checks")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def driver_test(command: tuple[str, ...], known_failing: Path | None, known_flaky: Path | None) -> int:
    """Hold a driver of a client against its contract, with a fake broker and without Pulsar.

    COMMAND starts the driver; write `--` before it. docs/driver-protocol.md says what a driver is.
    The exit status is 1 if it breaks its contract, or passes a check that it is known to fail; 2 if it does not start.
    """
    from conformance.commands import driver_contract

    return driver_contract.driver_test(command, consoles()[0], known_failing=known_failing, known_flaky=known_flaky)
