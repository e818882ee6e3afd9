"""``reproduce --all``: replays the histories of all named finds of a release, and keeps a line of each.

A find whose line is in the file is not replayed again, so a campaign that was interrupted goes on where it was. The
track record in the documentation is made from these files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Final

import msgspec
from rich.console import Console

from conformance.brokers.select import releases_of
from conformance.clients.versions import client_versions
from conformance.commands.comparison.replays import Conditions, Find, Replayed, replays
from conformance.commands.supervision.engine import Engine
from conformance.commands.supervision.folders import as_file_name, bugs_kept_in, unused
from conformance.commands.supervision.interrupts import INTERRUPTED
from conformance.commands.supervision.open_files import demand_open_files
from conformance.files import write_whole
from conformance.harness_error import HarnessError
from conformance.known import shipped
from conformance.report.console import say
from conformance.report.docs.track_record import Reproduced, read
from conformance.report.sentences.lists import count

MISSED: Final = 0.05
"""A find is gone if so few replays of it would be in vain as often as this at most, at the rate of its history."""
GONE = 1
"""The exit status if a find is gone."""
INCOMPLETE = 2
"""The exit status if a find could not be replayed, or not often enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReproduceAllOptions:
    """The options of ``reproduce --all``. ``budget_s``: of each find."""

    broker: str
    times: int
    lanes: int
    budget_s: float
    folder: Path


def reproduce_all(asked: ReproduceAllOptions, engine: Engine, *, out: Console, err: Console) -> int:
    """Replay each find of the release that has no line yet; returns the exit status."""
    demand_open_files()
    release = _release(asked.broker, engine)
    clients = client_versions(engine.client)
    finds = finds_of(release, clients)
    asked.folder.mkdir(parents=True, exist_ok=True)
    file = asked.folder / f"{as_file_name(asked.broker)}.jsonl"
    lines = list(read(file)) if file.exists() else []
    done = {one.deviation for one in lines}
    for number, (name, find) in enumerate(finds, start=1):
        say(err, f"{number} of {len(finds)}: {name}{' is in ' + str(file) if name in done else ''}")
        if name in done:
            continue
        folder = unused(asked.folder / "reports" / f"{as_file_name(asked.broker)}-{name}")
        folder.mkdir(parents=True, exist_ok=True)
        on = Conditions(broker=asked.broker, lanes=asked.lanes, budget_s=asked.budget_s)
        with bugs_kept_in(folder):
            result = replays(find, asked.times, on, engine, folder / "replays", err=err)
        if result.is_interrupted:
            return INTERRUPTED
        lines.append(_line(name, release, clients, result))
        write_whole(file, b"".join(msgspec.json.encode(one) + b"\n" for one in lines))
    return _say(lines, dict(finds), asked.broker, file, out)


def _release(broker: str, engine: Engine) -> str:
    releases = releases_of(broker, security=engine.security)
    if len(releases) != 1:
        raise HarnessError(f"--all needs a broker of one release that is known before it starts, unlike {broker}")
    return releases[0]


def finds_of(release: str, clients: dict[str, str]) -> list[tuple[str, Find]]:
    """The finds that the release has with these clients, the shortest histories first."""
    with_history = [(one, Find.read(Path(one.history))) for one in shipped() if one.history is not None]
    finds = [
        (one.name, find) for one, find in with_history if one.comes_back_on(release, clients, find.history.settings)
    ]
    return sorted(finds, key=lambda one: (len(one[1].history.steps), one[0]))


def _line(name: str, release: str, clients: dict[str, str], result: Replayed) -> Reproduced:
    return Reproduced(
        deviation=name,
        release=result.release or release,
        clients=clients,
        suite=version("pulsar-conformance"),
        date=datetime.now(UTC).strftime("%Y-%m-%d"),
        tries=result.seen.trials,
        came_back=result.seen.times,
        why="" if result.seen.times else result.lacks or result.failure or "",
    )


def _say(lines: Sequence[Reproduced], finds: Mapping[str, Find], broker: str, file: Path, out: Console) -> int:
    gone, unsure, back = 0, 0, 0
    for one in (line for line in lines if line.deviation in finds):
        missed = (1 - finds[one.deviation].rate) ** one.tries
        if one.came_back:
            back += 1
        elif one.tries and missed <= MISSED:
            gone += 1
            say(out, f"{one.deviation} came back in none of {one.tries} replays: it is gone.", style="yellow")
        else:
            unsure += 1
            why = one.why or f"{one.tries} replays, in none of which it came back, are too few to say that it is gone"
            say(out, f"{one.deviation}: {why}.", style="yellow")
    say(out, f"{back} of {count(len(finds), 'find', 'finds')} came back on {broker}: {file}", style="bold")
    return GONE if gone else INCOMPLETE if unsure else 0
