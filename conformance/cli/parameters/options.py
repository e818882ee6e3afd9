"""The options that several commands share, and their values."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from conformance.brokers.size import MOST
from conformance.cli.parameters.places import OutputFile, OutputFolder, ReportFolder
from conformance.cli.parameters.types import CLIENT, BrokerParameter, SettingParameter, Tenant, brokers
from conformance.clients.names import NAME, PULSAR_CLIENT, clients_in
from conformance.clients.security.options import variable
from conformance.harness_error import HarnessError

if TYPE_CHECKING:
    from rich.console import Console

    from conformance.commands.supervision.engine import Engine
    from conformance.known import KnownDeviation
    from conformance.tenancy.footprint import Footprint

F = TypeVar("F", bound=Callable[..., Any])

LARGEST_SEED = 2**32 - 1
DEFAULT_BROKER = "4.0.8"
MOST_LANES = 64
"""More lanes are no faster on one machine: each has a process and connections of its own."""
EVERY_KIND = "VERSION, 4.0, latest, dist:PATH, rc:URL, container:TAG or URLs."


def broker_option(*, required: bool = False, help: str = EVERY_KIND) -> Callable[[F], F]:
    """``--broker``, with one variable for all commands."""
    default = {"required": True} if required else {"default": DEFAULT_BROKER, "show_default": True}
    return click.option(
        "--broker",
        type=BrokerParameter(),
        envvar=variable("broker"),
        help=help,
        shell_complete=brokers,
        **default,
    )


def size_options(default: int | None) -> Callable[[F], F]:
    """``--brokers`` and ``--bookies``; without a default, those of the history."""
    usual = "the history's own" if default is None else default

    def with_both(command: F) -> F:
        for kind in ("bookies", "brokers"):
            help = f"How many {kind} to start, as separate processes.  [default: {usual}]"
            command = click.option(f"--{kind}", type=click.IntRange(1, MOST), default=default, help=help)(command)
        return command

    return with_both


def seed_option(what: str) -> Callable[[F], F]:
    """``--seed``; ``what``: the run whose choices it repeats."""
    return click.option(
        "--seed", type=click.IntRange(0, LARGEST_SEED), help=f"Repeats {what}'s choices.  [default: a new one]"
    )


def lanes_option(help: str, *, default: int | None = None) -> Callable[[F], F]:
    """``--lanes``."""
    return click.option("--lanes", type=click.IntRange(1, MOST_LANES), default=default, help=help)


def folder_option(name: str, help: str) -> Callable[[F], F]:
    """An option for an output folder."""
    return click.option(name, type=OutputFolder(), help=help)


def report_option(what: str) -> Callable[[F], F]:
    """``--report``; ``what``: the content of the folder."""
    return click.option("--report", type=ReportFolder(), help=f"Folder for {what}.")


known_option = click.option(
    "--known",
    type=click.Path(),
    metavar="FILE|none",
    help="Known deviations, or none of them.  [default: those shipped]",
)


def known_failures_options(what: str) -> Callable[[F], F]:
    """``--known-failing`` and ``--known-flaky``: files that list ``what`` the client fails."""
    file = click.Path(path_type=Path)

    def add(function: F) -> F:
        flaky = click.option("--known-flaky", type=file, help=f"{what} that it fails now and then.")
        failing = click.option("--known-failing", type=file, help=f"{what} that the client fails, one a line.")
        return failing(flaky(function))

    return add


client_option = click.option(
    "--client",
    type=CLIENT,
    help="Another pulsar-client, driver:COMMAND, or several: go:0.19.0,java:4.0.8.  [default: the one installed]",
)
setting_option = click.option(
    "--setting", "settings", type=SettingParameter(), multiple=True, help="A setting of the broker; may be repeated."
)
verbose_option = click.option(
    "--verbose", is_flag=True, help="Print known deviations and long histories in full as well."
)


def settings_option(choices: Sequence[str], help: str) -> Callable[[F], F]:
    """``--settings``: the settings below those of ``--setting``."""
    return click.option("--settings", "choice", type=click.Choice(choices), help=help)


json_file_option = click.option("--json", "json_", type=OutputFile(), help="Write the verdicts as JSON.")
coverage_option = click.option(
    "--coverage", type=OutputFile(), help="Add what is drawn to FILE; prefer and list what it lacks."
)
tenant_option = click.option(
    "--tenant",
    type=Tenant(),
    metavar="NAME",
    help="On a running cluster: use this tenant.  [default: one of the run's own]",
)
cluster_settings_option = click.option(
    "--allow-cluster-settings", is_flag=True, help="On a running cluster: change dynamic settings until the end."
)


def seed_or_new(seed: int | None) -> int:
    """The seed that was asked for, or a new one."""
    return secrets.randbelow(LARGEST_SEED + 1) if seed is None else seed


def footprint(broker: str, tenant: str | None, allow_cluster_settings: bool, *, at_most_s: float) -> Footprint | None:
    """What a run of this length may leave on a running cluster; None for another broker."""
    from conformance.brokers.name import demand_place, is_running_cluster
    from conformance.commands.releases import demand_published
    from conformance.tenancy.footprint import Footprint
    from conformance.tenancy.run_name import RunName

    demand_place(broker)
    demand_published(broker)
    if is_running_cluster(broker):
        name = RunName.new(at_most_s=at_most_s)
        return Footprint(name=name, within=tenant, may_change_settings=allow_cluster_settings)
    if tenant is not None or allow_cluster_settings:
        option = "--tenant" if tenant is not None else "--allow-cluster-settings"
        raise click.UsageError(f"{option} is for a cluster that runs already, and {broker} is not one")
    return None


def known_deviations(text: str | None) -> tuple[KnownDeviation, ...]:
    from conformance.known import read, shipped

    match text:
        case None:
            return shipped()
        case "none":
            return ()
        case _:
            return read(Path(text))


def with_client(engine: Engine, clients: str | None, err: Console) -> Engine:
    """The engine, with another release of pulsar-client, or with drivers, if ``clients`` names some.

    Raises HarnessError if one is not available, or there are two releases of pulsar-client that have no driver.
    """
    if clients is None:
        return engine
    wanted = clients_in(clients)
    releases = [one for one in wanted if not NAME.fullmatch(one)]
    if len(releases) > 1:
        raise HarnessError(f"{' and '.join(releases)} cannot be in one process: write python:{releases[-1]} for one")

    def say(line: str) -> None:
        err.print(line, markup=False)

    if releases and releases != [PULSAR_CLIENT]:
        from conformance.drivers.environment import python_with_client

        engine = engine.run_by(python_with_client(releases[0], say))
    if releases != list(wanted):
        from conformance.drivers.catalogue import driver_of

        engine = engine.with_drivers(driver_of(one, say) if NAME.fullmatch(one) else None for one in wanted)
    return replace(engine, client=clients)
