"""The command line of ``check``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from conformance.brokers.settings import CHOICES, Choice
from conformance.brokers.size import SMALLEST, Size
from conformance.cli.parameters import options
from conformance.cli.parameters.connection import connection_options
from conformance.cli.parameters.defaults import command_line
from conformance.cli.parameters.groups import GroupedCommand
from conformance.cli.parameters.output import consoles
from conformance.cli.parameters.types import DEFECT, MACHINES, Duration, Rules
from conformance.clients.security.service import Security
from conformance.commands.supervision.engine import Engine
from model.rules.catalogue import FAMILIES, RULES, Selection

if TYPE_CHECKING:
    from rich.console import Console

    from conformance.commands.check import CheckOptions

LANES = 8
"""On a broker of its own. A running cluster has other users, and what a run leaves there takes time to remove."""


@click.command(cls=GroupedCommand)
@options.broker_option()
@options.size_options(1)
@click.option("--rules", type=Rules(), default=",".join(FAMILIES), show_default=True, help="Ids or families of rules.")
@click.option("--budget", type=Duration(), default="10m", show_default=True, help="How long to run: 90s, 10m, 2h.")
@options.seed_option("a run")
@options.known_option
@options.known_failures_options("Rules")
@options.report_option("the report")
@options.json_file_option
@options.coverage_option
@options.folder_option("--history", "Folder for a history to `verify`.")
@click.option(
    "--baseline",
    metavar="BROKER|FILE",
    help="Fail only for violations that are new against this broker, or the verdicts.json of a check.",
)
@click.option("--defect", type=DEFECT, help="Switch a seeded defect on in the broker.")
@click.option("--machines", type=MACHINES, default=(), help="Run only these machines.")
@options.lanes_option(f"How many examples run at once.  [default: {LANES}; on a running cluster 1]")
@options.client_option
@options.setting_option
@options.verbose_option
@connection_options
@options.tenant_option
@options.cluster_settings_option
@click.option(
    "--dry-run", is_flag=True, help="Only say what would run, what it would create and which rules it can decide."
)
@options.settings_option(CHOICES, "The suite's own, the release's, or a random subset.  [default: quick]")
@click.pass_obj
def check(
    engine: Engine,
    broker: str,
    brokers: int,
    bookies: int,
    rules: Selection,
    budget: float,
    seed: int | None,
    known: str | None,
    known_failing: Path | None,
    known_flaky: Path | None,
    report: Path | None,
    json_: Path | None,
    coverage: Path | None,
    history: Path | None,
    baseline: str | None,
    defect: str | None,
    machines: tuple[str, ...],
    lanes: int | None,
    client: str | None,
    settings: tuple[tuple[str, str], ...],
    verbose: bool,
    security: Security,
    tenant: str | None,
    allow_cluster_settings: bool,
    dry_run: bool,
    choice: Choice | None,
) -> int:
    """Run the state machines against a broker and give every rule its verdict."""
    from conformance.commands import check as checking
    from conformance.known.failures import read_failures
    from conformance.report.sentences.lists import count

    seed = options.seed_or_new(seed)
    size = Size(brokers=brokers, bookies=bookies)
    footprint = options.footprint(broker, tenant, allow_cluster_settings, at_most_s=budget)
    asked = checking.CheckOptions(
        broker=broker,
        rules=rules.rules,
        named=rules.named,
        budget_s=budget,
        seed=seed,
        known=options.known_deviations(known),
        failures=read_failures(known_failing, known_flaky, kind="rule", possible=list(RULES)),
        report=report,
        json=json_,
        defect=defect,
        machines=machines,
        client=client,
        coverage=coverage,
        history=history,
        lanes=lanes or (LANES if footprint is None else 1),
        settings=settings,
        verbose=verbose,
        choice=choice,
        size=size,
        connection=tuple(security.options()),
        command=command_line(click.get_current_context()),
        footprint=footprint,
    )
    out, err = consoles()
    deployment = broker if size == SMALLEST else f"{broker}, {size}"
    out.print(
        f"Seed {seed}, broker {deployment}, {count(len(rules.rules), 'rule', 'rules')}, budget {budget:g} s",
        markup=False,
        highlight=False,
    )
    if dry_run:
        from conformance.commands.dry_run import dry_run as only_say

        return only_say(asked, engine.secured(security), out=out)
    engine = options.with_client(engine.secured(security), client, err)
    if baseline is None:
        return checking.check(asked, engine, out=out, err=err)
    return _against(baseline, asked, engine, out, err)


def _against(baseline: str, asked: CheckOptions, engine: Engine, out: Console, err: Console) -> int:
    """Check, and compare what is found with a baseline that is known to be there before the check begins."""
    from conformance.brokers.name import exact_name
    from conformance.commands.check import check as check_it
    from conformance.commands.comparison.baseline import Baseline, compare

    against = Baseline.read(baseline)
    if against.verdicts is None:
        against = replace(against, name=exact_name(against.name))
        engine.demand(against.name, asked.settings, asked.choice, asked.size)
        engine.obtain(against.name, engine.security)

    def compared(done: CheckOptions, folder: Path) -> bool:
        return compare(against, done, folder, engine, out=out, err=err)

    return check_it(asked, engine, out=out, err=err, afterwards=compared)
