"""``replay``: runs one saved history again, step by step, a number of times, and prints how often it broke a rule.

A known deviation is tolerated and printed, as in ``check``; with ``--known none`` it breaks its rule.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.text import Text

from conformance.brokers.select import releases_of
from conformance.brokers.settings import Base
from conformance.brokers.size import Size
from conformance.clients.names import NAME, PULSAR_CLIENT
from conformance.clients.versions import client_versions, libraries_in
from conformance.commands.check import read_events
from conformance.commands.supervision.engine import Engine, Order
from conformance.commands.supervision.folders import bugs_kept_in, report_folder
from conformance.commands.supervision.interrupts import INTERRUPTED
from conformance.commands.supervision.on_cluster import on_cluster
from conformance.commands.supervision.open_files import demand_open_files
from conformance.commands.supervision.supervisor import Ending, supervise
from conformance.events import (
    AnyEvent,
    ExampleFinished,
    HarnessErrorHappened,
    ProcessEnded,
    RunStarted,
    RunStopped,
    ViolationFound,
    ViolationMinimised,
)
from conformance.faults import catalogue
from conformance.faults.defect import Defect
from conformance.harness_error import HarnessError
from conformance.history import document
from conformance.history.document import History, Replays, replay_file
from conformance.history.validation import nonsense
from conformance.known import KnownDeviation, known_of
from conformance.report.progress import display
from conformance.report.sentences.words import explain
from conformance.tenancy.footprint import Footprint
from model.rules.catalogue import CATALOGUE, RULES

NO_DEFECT = "none"
"""The value of ``--defect`` for no defect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """The options of ``replay``; ``defect``: a name, ``none``, or None for the history's own."""

    history: Path
    broker: str
    times: int
    budget_s: float
    shortening_s: float | None
    """How long the history of a violation may then be made short; None: it is not."""
    lanes: int = 1
    """How many replays run at once, if the history leaves the broker's process alone."""
    known: tuple[KnownDeviation, ...]
    report: Path | None
    settings: tuple[tuple[str, str], ...]
    defect: str | None
    footprint: Footprint | None = None
    base: Base | None = None
    """The settings below those of ``settings``; None: the history's own."""
    brokers: int | None = None
    """The number of brokers; None: the history's own."""
    bookies: int | None = None
    """The number of bookies; None: the history's own."""

    def size(self, history: History) -> Size:
        """The size of the deployment for this history."""
        return Size(brokers=self.brokers or history.size.brokers, bookies=self.bookies or history.size.bookies)


def replay(asked: ReplayOptions, engine: Engine, *, out: Console, err: Console) -> int:
    """Run the history, print what happened in one replay, and how often a rule broke.

    Returns 1 if a rule broke at least once or a process of the release ended although nobody ended it, 0 if the history
    ran as often as asked and no rule broke, 2 otherwise.
    """
    demand_open_files()
    history = document.read(asked.history)
    if (what := nonsense(history)) is not None:
        raise HarnessError(f"{asked.history} {what}")
    defect = _defect(asked.defect, history)
    engine.demand(asked.broker, asked.settings, asked.base, asked.size(history))
    engine.obtain(asked.broker, engine.security)
    folder = report_folder(asked.report, "replay", asked.history.stem, asked.broker)
    with bugs_kept_in(folder):
        return _replay(asked, history, defect, folder, engine, out=out, err=err)


def clients_of(history: Path) -> str | None:
    """The value of ``--client`` with which a history was recorded, if it had drivers.

    Raises HarnessError if one of them is a driver that the suite does not have.
    """
    libraries = libraries_in(document.read(history).clients)
    for one in libraries:
        if not NAME.fullmatch(one) and not one.startswith(PULSAR_CLIENT):
            raise HarnessError(f"{history} was recorded with the client {one}: name its driver with --client")
    return ",".join(PULSAR_CLIENT if one.startswith(PULSAR_CLIENT) else one for one in libraries) or None


def _defect(asked: str | None, history: History) -> Defect | None:
    """The defect to switch on; None without one."""
    name = history.defect if asked is None else asked
    return None if name in (None, NO_DEFECT) else catalogue.find(name)


def _replay(
    asked: ReplayOptions,
    history: History,
    defect: Defect | None,
    folder: Path,
    engine: Engine,
    *,
    out: Console,
    err: Console,
) -> int:
    if defect is not None:
        out.print(Text(f"With the defect {defect.name} switched on: {defect.summary}", style="bold"))
    rules = (RULES[history.violation.rule],) if history.violation else CATALOGUE
    order = Order(
        broker=asked.broker,
        seed=history.seed,
        budget_s=asked.budget_s,
        shortening_s=asked.shortening_s,
        rules=rules,
        report=folder,
        known=known_of(
            asked.known, releases_of(asked.broker, security=engine.security), client_versions(engine.client)
        ),
        defect=defect.name if defect is not None else None,
        settings=tuple({**({} if asked.base else history.settings), **dict(asked.settings)}.items()),
        choice=asked.base or history.base,
        size=asked.size(history),
        replay=(asked.history.absolute(), asked.times),
        footprint=asked.footprint,
        lanes=asked.lanes,
    )
    with (
        on_cluster(asked.broker, asked.footprint, engine.security, err=err),
        display(rules, budget_s=asked.budget_s, console=err) as shown,
    ):
        command = [*engine.command, *order.options()]
        at_most_s = asked.budget_s + (asked.shortening_s or 0.0)
        ending = supervise(command, folder=folder, budget_s=at_most_s, watcher=shown, security=engine.security)
    events = list(read_events(folder))
    _say_steps(events, folder, out)
    status = _say(events, history, asked, out)
    return INTERRUPTED if ending is Ending.INTERRUPTED else status


def _say_steps(events: list[AnyEvent], folder: Path, out: Console) -> None:
    """Print the steps of the first replay that broke a rule, or else of the first one, with their outcomes there."""
    ends = [event for event in events if isinstance(event, ViolationFound | ExampleFinished)]
    broke = [number for number, event in enumerate(ends, start=1) if isinstance(event, ViolationFound)]
    number = broke[0] if broke else 1
    file = folder / replay_file(number)
    if not ends or not file.exists():
        return
    out.print(Text(f"What happened in replay {number} of {len(ends)}:", style="bold"))
    for step in explain(document.read(file)):
        out.print(Text(str(step)))


def _say(events: list[AnyEvent], history: History, asked: ReplayOptions, out: Console) -> int:
    broke = [event for event in events if isinstance(event, ViolationFound)]
    passed = [event for event in events if isinstance(event, ExampleFinished)]
    tries = len(broke) + len(passed)
    for number, found in enumerate(broke, start=1):
        name = f" (deviation {found.violation.deviation})" if found.violation.deviation else ""
        out.print(Text(f"{number}. {found.violation.rule} was broken: {found.violation.because}{name}", style="red"))
    for event in events:
        if isinstance(event, HarnessErrorHappened):
            out.print(Text(f"Harness error: {event.sentence}", style="yellow"))
        elif isinstance(event, RunStopped):
            out.print(Text(event.sentence, style="yellow"))
        elif isinstance(event, ProcessEnded):
            out.print(Text(f"{event.sentence}\n{event.log_tail}", style="red" if event.is_of_release else "yellow"))
    known = _known_here(asked, events)
    is_new = _say_deviations(passed, tries, known, out)
    shown = history.violation.deviation if history.violation else None
    if shown in known and tries == asked.times and not any(event.deviations.get(shown) for event in passed):
        gone = f"The known deviation {shown}, which this history shows, was met in no replay: it seems to be fixed."
        out.print(Text(gone, style="bold"))
    if history.violation is not None and Replays(tries=tries, came_back=len(broke)).are_in_vain:
        out.print(Text("A violation that comes back in none of so many replays is only suspected.", style="bold"))
    expected = f" It was found to break {history.violation.rule}." if history.violation else ""
    out.print(Text(f"A rule was broken in {len(broke)} of {tries} replays.{expected}", style="bold"))
    for event in events:
        if isinstance(event, ViolationMinimised):
            _say_short(event, out)
    ended = [event for event in events if isinstance(event, ProcessEnded)]
    if broke or is_new or any(one.is_of_release for one in ended):
        return 1
    return 0 if tries == asked.times and not ended else 2


def _say_short(made: ViolationMinimised, out: Console) -> None:
    """Tell the history that a violation was made short to, how often it came back, and where it is."""
    for telling in explain(document.read(Path(made.history))):
        out.print(Text(str(telling)))
    what = f"Made short: {made.steps} steps, came back in {made.came_back} of {made.tries} replays: {made.history}"
    out.print(Text(what, style="bold"))


def _known_here(asked: ReplayOptions, events: list[AnyEvent]) -> set[str]:
    """The names of the deviations that are known of the broker's release and of our clients."""
    started = next((event for event in events if isinstance(event, RunStarted)), None)
    if started is None:
        return {deviation.name for deviation in asked.known}
    return {one.name for one in asked.known if one.concerns(started.release, started.clients, started.settings)}


def _say_deviations(passed: list[ExampleFinished], tries: int, known: set[str], out: Console) -> bool:
    """Print the deviations that were met and tolerated; returns whether one of them is unknown for this release."""
    met = Counter(name for event in passed for name, times in event.deviations.items() if times)
    for name, times in met.items():
        what = "The known deviation" if name in known else "Not known of this release: the deviation"
        out.print(Text(f"{what} {name} was met in {times} of {tries} replays.", style="magenta"))
    return not set(met) <= known
