"""The command line: reads the arguments, calls :mod:`conformance.commands`, and ends with a status.

0: held; 1: a rule was violated; 2: the run failed, did not exercise a rule, or has invalid arguments (one sentence on
standard error); 3: a violation is only suspected; 130: interrupted. Each command has a module here, which imports its
implementation only when it runs. So help, completion and errors in options are instant.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

import click

from conformance.cli.bisect import bisect
from conformance.cli.check import check
from conformance.cli.clean import clean
from conformance.cli.clients import clients
from conformance.cli.compact import compact
from conformance.cli.compare import compare
from conformance.cli.defects import defects
from conformance.cli.driver_test import driver_test
from conformance.cli.explore import explore
from conformance.cli.fetch import fetch
from conformance.cli.judge import judge
from conformance.cli.known import known
from conformance.cli.machines import machines
from conformance.cli.matrix import matrix
from conformance.cli.parameters.connection import hide_token
from conformance.cli.parameters.defaults import VARIABLES, config_option, give_variables
from conformance.cli.parameters.output import NAME
from conformance.cli.releases import releases
from conformance.cli.replay import replay
from conformance.cli.report import report
from conformance.cli.reproduce import reproduce
from conformance.cli.rules import rules
from conformance.cli.soak import soak
from conformance.cli.tap import tap
from conformance.cli.verify import verify
from conformance.commands.supervision.engine import Engine
from conformance.commands.supervision.folders import bugs_kept_in
from conformance.commands.supervision.interrupts import INTERRUPTED
from conformance.harness_error import HarnessError
from conformance.report.printable import in_log

FAILED = 2
"""The exit status of a failure without a verdict."""


@click.group(
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 100,
    },
    epilog=f"Environment variables give defaults, too: {VARIABLES}_CHECK_BUDGET for --budget of check, and "
    f"{VARIABLES}_BROKER for --broker of all commands.",
)
@click.version_option(package_name=NAME)
@config_option
def cli() -> None:
    """Checks an Apache Pulsar release, rule by rule, against a model of its documented semantics."""


for command in (
    bisect,
    check,
    clean,
    clients,
    compact,
    compare,
    defects,
    driver_test,
    explore,
    fetch,
    judge,
    known,
    machines,
    matrix,
    releases,
    replay,
    report,
    reproduce,
    rules,
    soak,
    tap,
    verify,
):
    give_variables(command)
    cli.add_command(command)


def main(arguments: Sequence[str] | None = None, engine: Engine | None = None) -> NoReturn:
    """Run the command line and end the process; tests pass another engine."""
    if arguments is None:
        hide_token()
    sys.exit(_status(arguments, engine or Engine()))


def _status(arguments: Sequence[str] | None, engine: Engine) -> int:
    try:
        with bugs_kept_in(None):
            status = cli.main(arguments, prog_name=NAME, standalone_mode=False, obj=engine)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return FAILED
    except click.ClickException as error:
        return _failed(error.format_message())
    except HarnessError as harness_error:
        return _failed(str(harness_error))
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output has ended, as in `... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    return status if isinstance(status, int) else 0


def _failed(sentence: str) -> int:
    click.echo(f"{NAME}: {in_log(' '.join(sentence.split()))}", err=True)
    return FAILED
