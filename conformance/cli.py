"""The command line: reads what the user asks, hands it to :mod:`conformance.commands`, and ends with a status.

0: held; 1: a rule was violated; 2: the run failed, left a rule unexercised, or was asked for something that is not
there (one sentence on standard error); 130: interrupted. It decides nothing itself.
"""

from __future__ import annotations

import os
import secrets
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import click
from rich.console import Console

from conformance.commands import check as checking
from conformance.commands import compact as compacting
from conformance.commands import hunt as hunting
from conformance.commands import listings
from conformance.commands import replay as replaying
from conformance.commands import soak as soaking
from conformance.commands import verify as verifying
from conformance.commands.clients import python_with_client
from conformance.commands.engine import Engine
from conformance.commands.folders import bugs_kept_in
from conformance.commands.interrupting import INTERRUPTED
from conformance.commands.options import ClientRelease, Duration, Faults, Machines, Rules, Setting
from conformance.faults import catalogue
from conformance.known import KnownDeviation, read, shipped
from conformance.report import hunts
from conformance.report.lists import count
from conformance.soak.asked import Asked as SoakAsked
from conformance.soak.words import FaultName
from conformance.trouble import Trouble
from model.catalogue import Rule

NAME = "pulsar-conformance"
FAILED = 2
"""The exit status of everything that is no verdict."""

STDOUT = "-"
"""What stands for standard output where a file may be named."""

_LARGEST_SEED = 2**32 - 1


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name=NAME)
def cli() -> None:
    """Says, rule by rule, whether an Apache Pulsar release keeps its word."""


@cli.command()
@click.option("--broker", default="4.0.8", show_default=True, help="VERSION, dist:FOLDER, container:TAG or URLs.")
@click.option("--rules", type=Rules(), default="DEDUP,ACK", show_default=True, help="Ids or families of rules.")
@click.option("--budget", type=Duration(), default="270s", show_default=True, help="How long to run: 90s, 10m, 2h.")
@click.option("--seed", type=click.IntRange(0, _LARGEST_SEED), help="Repeats a run's choices.  [default: a new one]")
@click.option("--known", metavar="FILE|none", help="Known deviations, or none of them.  [default: those shipped]")
@click.option("--report", type=click.Path(path_type=Path, file_okay=False), help="Folder for the report.")
@click.option("--json", "json_", type=click.Path(path_type=Path, dir_okay=False), help="Write the verdicts as JSON.")
@click.option("--history", type=click.Path(path_type=Path, file_okay=False), help="Folder for a history to `verify`.")
@click.option("--defect", help="Switch a seeded defect on in the broker.")
@click.option("--machines", type=Machines(), default=(), help="Run only these machines.")
@click.option("--client", type=ClientRelease(), help="Another pulsar-client.  [default: the one installed]")
@click.option("--setting", "settings", type=Setting(), multiple=True, help="A setting of the broker; may be repeated.")
@click.pass_obj
def check(
    engine: Engine,
    broker: str,
    rules: tuple[Rule, ...],
    budget: float,
    seed: int | None,
    known: str | None,
    report: Path | None,
    json_: Path | None,
    history: Path | None,
    defect: str | None,
    machines: tuple[str, ...],
    client: str | None,
    settings: tuple[tuple[str, str], ...],
) -> int:
    """Run the state machines against a broker and give every rule its verdict."""
    if json_ is not None:
        _demand_folder_of(json_)
    if seed is None:
        seed = secrets.randbelow(_LARGEST_SEED + 1)
    asked = checking.Asked(
        broker=broker,
        rules=rules,
        budget_s=budget,
        seed=seed,
        known=_known(known),
        report=report,
        json=json_,
        defect=defect,
        machines=machines,
        client=client,
        history=history,
        settings=settings,
        command=shlex.join([NAME, *sys.argv[1:]]),
    )
    out, err = _consoles()
    out.print(
        f"Seed {seed}, broker {broker}, {count(len(rules), 'rule', 'rules')}, budget {budget:g} s",
        markup=False,
        highlight=False,
    )
    return checking.check(asked, _with_client(engine, client, err), out=out, err=err)


@cli.command()
@click.argument("history", type=click.Path(path_type=Path))
@click.option("--broker", required=True, help="VERSION, dist:FOLDER, container:TAG or URLs.")
@click.option("--times", type=click.IntRange(1, 1000), default=5, show_default=True, help="How often.")
@click.option("--budget", type=Duration(), default="5m", show_default=True, help="How long at most: 90s, 10m, 2h.")
@click.option("--known", metavar="FILE|none", help="Known deviations, or none of them.  [default: those shipped]")
@click.option("--report", type=click.Path(path_type=Path, file_okay=False), help="Folder for what the run writes.")
@click.option("--defect", metavar="NAME|none", help="Switch a seeded defect on.  [default: the history's own]")
@click.option("--client", type=ClientRelease(), help="Another pulsar-client.  [default: the one installed]")
@click.option("--setting", "settings", type=Setting(), multiple=True, help="A setting of the broker; may be repeated.")
@click.pass_obj
def replay(
    engine: Engine,
    history: Path,
    broker: str,
    times: int,
    budget: float,
    known: str | None,
    report: Path | None,
    defect: str | None,
    client: str | None,
    settings: tuple[tuple[str, str], ...],
) -> int:
    """Run one saved HISTORY again, step by step."""
    asked = replaying.Asked(
        history=history,
        broker=broker,
        times=times,
        budget_s=budget,
        known=_known(known),
        report=report,
        settings=settings,
        defect=defect,
    )
    out, err = _consoles()
    return replaying.replay(asked, _with_client(engine, client, err), out=out, err=err)


@cli.command()
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def rules(as_json: bool) -> None:
    """List the rules."""
    if as_json:
        click.echo(listings.rules_as_json())
    else:
        listings.list_rules(_consoles()[0])


@cli.command()
@click.argument("names", nargs=-1)
@click.option("--hunt", is_flag=True, help="See whether the machines find each defect.")
@click.option("--broker", default="4.0.8", show_default=True, help="Hunt in: VERSION, dist:FOLDER or container:TAG.")
@click.option("--budget", type=Duration(), default="60s", show_default=True, help="How long to hunt for each: 90s, 2m.")
@click.option("--seed", type=click.IntRange(0, _LARGEST_SEED), help="Repeats a hunt's choices.  [default: a new one]")
@click.option("--report", type=click.Path(path_type=Path, file_okay=False), help="Folder for what a hunt writes.")
@click.option("--json", "json_", is_flag=False, flag_value=STDOUT, metavar="[FILE]", help="For programs.")
@click.pass_obj
def defects(
    engine: Engine,
    names: tuple[str, ...],
    hunt: bool,
    broker: str,
    budget: float,
    seed: int | None,
    report: Path | None,
    json_: str | None,
) -> int:
    """List the seeded defects (all, or those of these NAMES), or hunt them: each must be found by the machines."""
    chosen = tuple(catalogue.find(name) for name in names) or catalogue.defects()
    out, err = _consoles()
    if json_ is not None:
        _demand_folder_of(Path(json_))
    if not hunt:
        if json_ is None:
            listings.list_defects(chosen, out)
        else:
            _write(listings.defects_as_json(chosen), json_)
        return 0
    asked = hunting.Asked(
        defects=chosen,
        broker=broker,
        budget_s=budget,
        seed=secrets.randbelow(_LARGEST_SEED + 1) if seed is None else seed,
        known=shipped(),
        report=report,
    )
    status, hunted = hunting.hunt(asked, engine, err=err)
    hunts.show(hunted, err if json_ == STDOUT else out)
    if json_ is not None:
        _write(hunts.as_json(hunted, broker=broker, seed=asked.seed, budget_s=budget), json_)
    return status


@cli.command()
@click.option("--broker", default="4.0.8", show_default=True, help="VERSION, dist:FOLDER, container:TAG or URLs.")
@click.option("--minutes", type=click.FloatRange(0, min_open=True), help="How long to load it.  [default: 30]")
@click.option("--hours", type=click.FloatRange(0, min_open=True), help="The same in hours; both add up.")
@click.option("--clients", type=click.IntRange(1, 64), default=8, show_default=True, help="Client processes.")
@click.option("--topics", type=click.IntRange(1, 1000), default=8, show_default=True, help="Topics.")
@click.option("--clusters", type=click.IntRange(1, 3), default=1, show_default=True, help="Clusters that replicate.")
@click.option(
    "--rate", type=click.FloatRange(1), default=400, show_default=True, help="Messages sent a second, in all."
)
@click.option("--fault-every", type=Duration(), default="20s", show_default=True, help="Between two faults.")
@click.option("--faults", type=Faults(), help="Which faults, or none.  [default: all that the broker can be given]")
@click.option("--seed", type=click.IntRange(0, _LARGEST_SEED), help="Repeats a soak's choices.  [default: a new one]")
@click.option("--history", type=click.Path(path_type=Path, file_okay=False), help="Folder for the history.")
@click.option("--defect", "defects_", multiple=True, help="Switch a seeded defect on; may be repeated.")
@click.option("--setting", "settings", type=Setting(), multiple=True, help="A setting of the broker; may be repeated.")
def soak(
    broker: str,
    minutes: float | None,
    hours: float | None,
    clients: int,
    topics: int,
    clusters: int,
    rate: float,
    fault_every: float,
    faults: frozenset[FaultName] | None,
    seed: int | None,
    history: Path | None,
    defects_: tuple[str, ...],
    settings: tuple[tuple[str, str], ...],
) -> int:
    """Run many clients against a broker that is disturbed, for long, and write the history that `verify` judges."""
    if seed is None:
        seed = secrets.randbelow(_LARGEST_SEED + 1)
    asked = SoakAsked(
        broker=broker,
        seed=seed,
        length_s=60 * (minutes or 0) + 3600 * (hours or 0) or 1800,
        clients=clients,
        topics=topics,
        clusters=clusters,
        rate=rate,
        fault_every_s=fault_every,
        faults=faults,
        history=(history or Path("histories") / f"{NAME}-{seed}").absolute(),
        defects=defects_,
        settings=settings,
    )
    out, err = _consoles()
    out.print(
        f"Seed {seed}, broker {broker}, {asked.length_s:g} s, history {asked.history}",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
    return soaking.soak(asked, out=out, err=err)


@cli.command()
@click.argument("histories", nargs=-1, required=True)
@click.option("--rules", type=Rules(), help="Ids or families of rules.  [default: all that histories can decide]")
@click.option("--master", help="Spark's master.  [default: that of spark-submit, or local[*]]")
@click.option("--persisted-after", type=Duration(), help="What a kill may undo.  [default: as the runs tell, or 61s]")
@click.option("--known", metavar="FILE|none", help="Known deviations, or none of them.  [default: those shipped]")
@click.option("--release", help="What the histories are of, where they do not tell it themselves: 4.0.8.")
@click.option("--summary", metavar="FOLDER", help="Write rates, latencies and verdicts by run as Parquet.")
@click.option("--report", type=click.Path(path_type=Path, file_okay=False), help="Folder for a report in HTML.")
@click.option("--json", "json_", type=click.Path(path_type=Path, dir_okay=False), help="Write the verdicts as JSON.")
@click.option("--follow", is_flag=True, help="Judge histories while they grow, until Ctrl-C or --settled.")
@click.option("--settled", type=Duration(), help="With --follow: the end without news.  [default: 120s]")
def verify(
    histories: tuple[str, ...],
    rules: tuple[Rule, ...] | None,
    master: str | None,
    persisted_after: float | None,
    known: str | None,
    release: str | None,
    summary: str | None,
    report: Path | None,
    json_: Path | None,
    follow: bool,
    settled: float | None,
) -> int:
    """Verify recorded HISTORIES (folders, on any file system that Spark reads) on Spark."""
    if json_ is not None:
        _demand_folder_of(json_)
    if settled is not None and not follow:
        raise click.UsageError("--settled says when --follow ends: it needs --follow")
    asked = verifying.Asked(
        histories=histories,
        rules=rules,
        master=master,
        persisted_after_s=persisted_after,
        known=_known(known),
        release=release,
        summary=summary,
        report=report,
        json=json_,
        follow_s=(settled or verifying.SETTLED_S) if follow else None,
    )
    return verifying.verify(asked, out=_consoles()[0])


@cli.command()
@click.argument("folder", type=click.Path(path_type=Path))
def compact(folder: Path) -> int:
    """Make a few large files of the history in FOLDER, which nobody writes to; `verify` is much quicker over these."""
    out, err = _consoles()
    return compacting.compact(folder, out=out, err=err)


@cli.command()
@click.option("--variant", metavar="NAME", help="Explore the model with one thing done differently.")
@click.option("--list", "only_list", is_flag=True, help="List the variants.")
def explore(variant: str | None, only_list: bool) -> int:
    """Explore every reachable state of the model, in small configurations."""
    from conformance.commands import explore as exploring  # here, because networkx takes its time to load

    out, _ = _consoles()
    if only_list:
        exploring.list_variants(out)
        return 0
    return exploring.explore(variant, out)


def main(arguments: Sequence[str] | None = None, engine: Engine | None = None) -> NoReturn:
    """Run the command line and end the process; tests give another engine."""
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
    except Trouble as trouble:
        return _failed(str(trouble))
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except BrokenPipeError:  # whoever read our output has gone, as in `... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    return status if isinstance(status, int) else 0


def _failed(sentence: str) -> int:
    click.echo(f"{NAME}: {sentence}", err=True)
    return FAILED


def _with_client(engine: Engine, version: str | None, err: Console) -> Engine:
    """The engine with another release of pulsar-client, if one is asked for."""
    if version is None:
        return engine
    return engine.run_by(python_with_client(version, lambda line: err.print(line, markup=False)))


def _demand_folder_of(path: Path) -> None:
    """Trouble now rather than at the end of a long run."""
    if not path.parent.is_dir():
        raise Trouble(f"{path} cannot be written, because there is no folder {path.parent}")


def _write(content: bytes, where: str) -> None:
    """Write to a file, or to standard output."""
    with click.open_file(where, "wb") as file:
        file.write(content)


def _known(text: str | None) -> tuple[KnownDeviation, ...]:
    match text:
        case None:
            return shipped()
        case "none":
            return ()
        case _:
            return read(Path(text))


def _consoles() -> tuple[Console, Console]:
    return Console(highlight=False), Console(stderr=True, highlight=False)


if __name__ == "__main__":
    main()
