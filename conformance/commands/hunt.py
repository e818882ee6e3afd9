"""``defects --hunt``: seeds one defect after the other in a broker, and has the machines look for it.

Each defect gets a run of the engine and a new broker with the settings that it needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.text import Text

from conformance.brokers.select import releases_of
from conformance.clients.versions import client_versions
from conformance.commands.check import read_events
from conformance.commands.releases import demand_published
from conformance.commands.supervision.engine import Engine, Order
from conformance.commands.supervision.folders import bugs_kept_in, report_folder
from conformance.commands.supervision.interrupts import INTERRUPTED
from conformance.commands.supervision.supervisor import Ending, supervise
from conformance.faults.defect import Defect
from conformance.hunt_result import Hunted, exit_status, fold
from conformance.known import KnownDeviation, known_of
from conformance.report.docs import hunts
from conformance.report.sentences.lists import count
from model.rules.catalogue import RULES, select

SHORTENING_S = 20.0
"""The time for shortening a history after the budget, in seconds."""

AFTERWARDS_S = 180.0
"""The time for replays after that, in seconds; a replay in which a client receives nothing takes 40 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HuntOptions:
    """The options of a hunt; ``budget_s``: for one defect, with the start of its broker."""

    defects: Sequence[Defect]
    broker: str
    budget_s: float
    seed: int
    known: tuple[KnownDeviation, ...]
    report: Path | None


def hunt(asked: HuntOptions, engine: Engine, *, err: Console) -> tuple[int, list[Hunted]]:
    """Hunt every defect with progress on ``err``; returns the exit status and the results."""
    demand_published(asked.broker)
    defects = count(len(asked.defects), "defect", "defects")
    err.print(Text(f"Seed {asked.seed}, broker {asked.broker}, {defects}, {asked.budget_s:g} s for each"))
    engine.obtain(asked.broker, engine.security)
    folder = report_folder(asked.report, "hunt", asked.broker, str(asked.seed))
    hunted: list[Hunted] = []
    ending = Ending.BY_ITSELF
    with bugs_kept_in(folder):
        for number, defect in enumerate(asked.defects, start=1):
            place = f"{number}/{len(asked.defects)}"
            err.print(Text(f"{place} {defect.name} (breaks {defect.breaks}): {defect.summary}"), soft_wrap=True)
            below = report_folder(folder / defect.name)
            ending = _run(asked, defect, below, engine, err)
            if ending is Ending.INTERRUPTED:
                break
            hunted.append(fold(defect, read_events(below)))
    return INTERRUPTED if ending is Ending.INTERRUPTED else exit_status(hunted), hunted


def _run(asked: HuntOptions, defect: Defect, folder: Path, engine: Engine, err: Console) -> Ending:
    order = Order(
        broker=asked.broker,
        seed=asked.seed,
        budget_s=asked.budget_s,
        rules=select(defect.family or RULES[defect.breaks].family),
        report=folder,
        known=known_of(
            asked.known, releases_of(asked.broker, security=engine.security), client_versions(engine.client)
        ),
        defect=defect.name,
        settings=defect.settings,
        size=defect.size,
        stop_at_first=True,
        shortening_s=SHORTENING_S,
    )
    return supervise(
        [*engine.command, *order.options()],
        folder=folder,
        budget_s=asked.budget_s + SHORTENING_S + AFTERWARDS_S,
        watcher=hunts.HuntProgress(err),
    )
