"""``check``: runs the machines against a broker, and gives each rule a verdict."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
from rich.console import Console

from conformance.brokers.select import releases_of
from conformance.brokers.settings import Choice
from conformance.brokers.size import SMALLEST, Size
from conformance.clients.security.service import Security
from conformance.clients.versions import client_versions
from conformance.commands.supervision.engine import Engine, Order
from conformance.commands.supervision.folders import bugs_kept_in, report_folder
from conformance.commands.supervision.interrupts import INTERRUPTED
from conformance.commands.supervision.on_cluster import on_cluster
from conformance.commands.supervision.open_files import demand_open_files
from conformance.commands.supervision.packages import demand_installed
from conformance.commands.supervision.supervisor import LINE_AT_MOST_BYTES, Ending, events_file, supervise
from conformance.coverage.coverage import Coverage
from conformance.engine.catalogue import BY_NAME
from conformance.events import AnyEvent, RunAsked, RunFinished, RunStarted, decode
from conformance.files import lines
from conformance.harness_error import HarnessError
from conformance.known import KnownDeviation, known_of, validate_releases
from conformance.known.failures import NO_FAILURES, KnownFailures
from conformance.report import coverage, github, junit, table, verdicts_json
from conformance.report.data import ReportData, reported_findings, stored_findings
from conformance.report.pages import page
from conformance.report.progress import display
from conformance.tenancy.footprint import Footprint
from conformance.verdicts import verdicts
from model.rules.catalogue import RULES, Rule


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOptions:
    """The options of ``check``; ``command`` is the command line for the report."""

    broker: str
    rules: Sequence[Rule]
    budget_s: float
    seed: int
    known: tuple[KnownDeviation, ...]
    report: Path | None
    json: Path | None
    defect: str | None
    machines: Sequence[str]
    settings: Sequence[tuple[str, str]]
    command: str
    choice: Choice | None = None
    """The settings below those of ``settings``; None: the quick ones."""
    size: Size = SMALLEST
    client: str | None = None
    connection: tuple[str, ...] = ()
    """The options for TLS and authentication, without secrets, for the report."""
    verbose: bool = False
    """Whether the terminal shows everything."""
    named: frozenset[str] = frozenset()
    """The ids of the rules that were asked for by id."""
    footprint: Footprint | None = None
    """What the run may leave on a running cluster; None for a broker of the suite's own."""
    lanes: int = 1
    """How many examples run at once."""
    coverage: Path | None = None
    """The file with the choices of earlier runs, to which this run adds its own."""
    history: Path | None = None
    """The folder for a history of all examples, for ``verify``."""
    failures: KnownFailures = NO_FAILURES
    """The rules that the client is known to break."""


Afterwards = Callable[[CheckOptions, Path], bool]
"""What is done with the options and the folder of a run before its reports, such as a comparison with a baseline.

It returns whether it came to its end: False if the user interrupted it."""


def check(
    asked: CheckOptions, engine: Engine, *, out: Console, err: Console, afterwards: Afterwards | None = None
) -> int:
    """Run, show progress on ``err``, print the table on ``out``, write the reports; returns the exit status."""
    demand_open_files()
    _demand_decided(asked)
    if asked.history is not None:
        demand_installed(("pyarrow",), "check --history")
    if asked.coverage is not None:
        Coverage.read(asked.coverage)
    engine.demand(asked.broker, asked.settings, asked.choice, asked.size)
    engine.obtain(asked.broker, engine.security)
    folder = report_folder(asked.report, asked.broker, str(asked.seed))
    with bugs_kept_in(folder):
        return _check(asked, folder, engine, out=out, err=err, afterwards=afterwards)


def _demand_decided(asked: CheckOptions) -> None:
    """Reject a named machine that decides none of the rules: it would not run."""
    rules = {rule.id for rule in asked.rules}
    for name in asked.machines:
        decides = BY_NAME[name].decides
        if not rules & set(decides):
            raise HarnessError(
                f"the machine {name} decides no rule that was asked for; ask for one of these with --rules: "
                + ", ".join(decides)
            )


def _check(
    asked: CheckOptions, folder: Path, engine: Engine, *, out: Console, err: Console, afterwards: Afterwards | None
) -> int:
    command = [*engine.command, *_order(asked, folder, engine.security).options()]
    with (
        on_cluster(asked.broker, asked.footprint, engine.security, err=err),
        display(asked.rules, budget_s=asked.budget_s, console=err) as shown,
    ):
        ending = supervise(
            command,
            folder=folder,
            budget_s=asked.budget_s,
            watcher=shown,
            asked=_run_asked(asked),
            security=engine.security,
        )
    is_interrupted = ending is Ending.INTERRUPTED
    if afterwards is not None and not is_interrupted:
        is_interrupted = not afterwards(asked, folder)
    data = read(folder)
    report(data, folder, out, verbose=asked.verbose)
    github.publish(data)
    if asked.json is not None:
        verdicts_json.write(data, asked.json)
    if asked.history is not None:
        _record(asked.history, folder)
    if asked.coverage is not None:
        _add_to_coverage(asked.coverage, folder, out, verbose=asked.verbose)
    return INTERRUPTED if is_interrupted else data.verdicts.exit_status


def _add_to_coverage(file: Path, folder: Path, out: Console, *, verbose: bool) -> None:
    """Add the choices of a run to a file, unless it did not finish, and print what is missing."""
    drawn = next((event.drawn for event in read_events(folder) if isinstance(event, RunFinished)), None)
    if drawn is None:
        out.print("The run did not finish, so its choices are not counted.", markup=False)
        return
    before = Coverage.read(file).drawn
    Coverage(before + drawn).write(file)
    coverage.show(before, drawn, out, verbose=verbose)


def report(data: ReportData, folder: Path, out: Console, *, verbose: bool = False) -> None:
    """Write the reports of a run into its folder, and print its table on ``out``."""
    verdicts_json.write(data, folder / "verdicts.json")
    junit.write(data, folder / "junit.xml")
    page.write(data, folder / "report.html")
    table.show(data, out, report=folder / "report.html", verbose=verbose)


def read(folder: Path) -> ReportData:
    """The data of the check whose events are in ``folder``, also if it was ended early."""
    events = list(read_events(folder))
    asked = next((event for event in events if isinstance(event, RunAsked)), None)
    if asked is None:
        raise HarnessError(f"{folder} has no events of a check: those of a replay or a hunt make no such report")
    judged = verdicts(
        events,
        tuple(RULES[rule] for rule in asked.rules if rule in RULES),
        asked.known,
        named=asked.named,
        failures=asked.failures,
    )
    return ReportData(
        verdicts=judged,
        known=asked.known,
        findings=reported_findings(
            judged, folder=folder, broker=asked.broker, client=asked.client, connection=asked.connection
        ),
        broker=asked.broker,
        seed=asked.seed,
        budget_s=asked.budget_s,
        defect=asked.defect,
        command=asked.command,
        stored=stored_findings(
            judged, asked.known, broker=asked.broker, client=asked.client, connection=asked.connection
        ),
    )


def read_events(folder: Path) -> Iterator[AnyEvent]:
    """The events of a run, as its supervisor kept them, without a truncated last line."""
    file = events_file(folder)
    kept = lines(file, "the events of a run in", line_at_most_bytes=LINE_AT_MOST_BYTES)
    try:
        for event in (decode(line) for line in kept if line.endswith(b"\n")):
            for deviation in event.known if isinstance(event, RunAsked) else ():
                validate_releases(deviation, file)
            yield event
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise HarnessError(f"{file} does not have the events of a run: {error}") from error


def _order(asked: CheckOptions, folder: Path, security: Security) -> Order:
    return Order(
        broker=asked.broker,
        seed=asked.seed,
        budget_s=asked.budget_s,
        rules=asked.rules,
        report=folder,
        known=known_of(asked.known, releases_of(asked.broker, security=security), client_versions(asked.client)),
        defect=asked.defect,
        machines=asked.machines,
        settings=asked.settings,
        footprint=asked.footprint,
        choice=asked.choice or "quick",
        size=asked.size,
        lanes=asked.lanes,
        coverage=None if asked.coverage is None else asked.coverage.absolute(),
    )


def _run_asked(asked: CheckOptions) -> RunAsked:
    return RunAsked(
        at_s=0.0,
        command=asked.command,
        broker=asked.broker,
        rules=tuple(rule.id for rule in asked.rules),
        named=asked.named,
        seed=asked.seed,
        budget_s=asked.budget_s,
        known=asked.known,
        client=asked.client,
        connection=asked.connection,
        defect=asked.defect,
        failures=asked.failures,
    )


def _record(history: Path, folder: Path) -> None:
    """Write the examples as a history. Imported here, because pyarrow is not needed otherwise."""
    from conformance.history.about import About
    from conformance.history.from_journal import record_journals

    for event in read_events(folder):
        if isinstance(event, RunStarted):
            about = About(release=event.release, clients=event.clients, settings=event.settings)
            run = f"check-{event.seed:x}-{int(time.time()):x}"
            record_journals(folder, history, run=run, about=about)
