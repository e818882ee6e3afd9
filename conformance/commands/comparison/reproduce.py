"""``reproduce``: how often the minimal history of a known deviation comes back on a release that has it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.text import Text

from conformance.brokers.select import releases_of
from conformance.brokers.tried import tried
from conformance.clients.versions import client_versions
from conformance.commands.comparison.replays import Conditions, Find, Replayed, replays
from conformance.commands.releases import order
from conformance.commands.supervision.engine import Engine
from conformance.commands.supervision.folders import bugs_kept_in, report_folder
from conformance.commands.supervision.interrupts import INTERRUPTED
from conformance.commands.supervision.open_files import demand_open_files
from conformance.harness_error import HarnessError
from conformance.history import document
from conformance.known import KnownDeviation, shipped
from conformance.report.console import say
from conformance.report.sentences.lists import percent
from conformance.report.sentences.words import explain
from model.deviations import DEVIATIONS
from model.deviations.symptoms import symptom_of

FAILED = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ReproduceOptions:
    """The options of ``reproduce``; without a ``broker``, a release that has the deviation is chosen."""

    name: str
    broker: str | None
    times: int
    lanes: int
    budget_s: float
    report: Path | None


def reproduce(asked: ReproduceOptions, engine: Engine, *, out: Console, err: Console) -> int:
    """Replay it and print how often it came back. Returns 0 if it did, 1 if not, 2 if it could not be replayed."""
    demand_open_files()
    find, known = _stored(asked.name)
    broker = asked.broker or release_with(known, find, engine)
    folder = report_folder(asked.report, "reproduce", asked.name, broker)
    deviation = DEVIATIONS[asked.name]
    symptom = symptom_of(deviation)
    say(out, f"{deviation.name} ({symptom.name}, breaks {deviation.rule}): {deviation.statement}", style="bold")
    if not _is_known_on(known, find, broker, engine):
        say(out, f"It is not known of {broker}.", style="yellow")
    on = Conditions(broker=broker, lanes=asked.lanes, budget_s=asked.budget_s)
    with bugs_kept_in(folder):
        result = replays(find, asked.times, on, engine, folder / "replays", err=err)
    _say(result, find, broker, out)
    if result.is_interrupted:
        return INTERRUPTED
    if result.seen.times:
        return 0
    return FAILED if result.failure or result.lacks else 1


def _stored(name: str) -> tuple[Find, KnownDeviation]:
    known = next(one for one in shipped() if one.name == name)
    if known.history is None:
        raise HarnessError(f"the suite has no history of {name}, so it cannot be reproduced")
    return Find.read(Path(known.history)), known


def release_with(known: KnownDeviation, find: Find, engine: Engine) -> str:
    """The newest release that was tried and is known to have it, with the settings of its history."""
    if not known.concerns_clients(client_versions(engine.client)):
        wanted = ", ".join(f"{client} {versions}" for client, versions in known.clients.items())
        raise HarnessError(f"{known.name} is a deviation of the client {wanted}; name one with --client")
    if not (known.releases or known.switched_on or known.seldom):
        return find.history.release
    versions = [one.version for one in tried() if one.check is not None]
    settings = find.history.settings
    has_it = [one for one in versions if known.comes_back_on(one, client_versions(engine.client), settings)]
    return max(has_it, key=order, default=find.history.release)


def _is_known_on(known: KnownDeviation, find: Find, broker: str, engine: Engine) -> bool:
    releases = releases_of(broker, security=engine.security)
    clients = client_versions(engine.client)
    return not releases or any(known.concerns(one, clients, find.history.settings) for one in releases)


def _say(result: Replayed, find: Find, broker: str, out: Console) -> None:
    shown = find.path if result.shown is None else result.shown
    for step in explain(document.read(shown)):
        out.print(Text(str(step)), soft_wrap=True)
    if result.seen.trials:
        rate = f"{find.words} came back in {result.seen} replays on {broker}"
        say(out, f"{rate}, 95 % interval {percent(result.seen.interval)}.", style="bold")
    if result.others:
        say(out, f"Other violations: {', '.join(result.others)}.", style="yellow")
    if result.lacks is not None and not result.seen.times:
        say(out, f"{broker} lacks what the history needs: {result.lacks}.", style="yellow")
    if result.failure is not None:
        say(out, f"Not all replays were performed: {result.failure}", style="yellow")
