"""Records the minimal history of a seeded defect: ``python -m tests.replays.record HISTORY…``.

Takes what ``defects --hunt`` stored, or any history whose field ``defect`` names one: performs it with the defect until
it breaks the rule that the defect was made for, shortens it, replays it with the defect and without, and writes it to
``histories``. With ``--any-rule`` it may break another rule: a defect can show in several, and in one of them first.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from conformance.engine.shortener.attempt import Attempt, one_by_one
from conformance.engine.shortener.broker_search import minimise
from conformance.engine.shortener.model_search import shorten_recording
from conformance.engine.shortener.replays import Shortest
from conformance.faults import catalogue
from conformance.faults.defect import Defect
from conformance.history import document
from conformance.history.document import History, Replays
from model.operations import AnyOperation
from tests.replays import stored
from tests.replays.seeded_world import SeededWorld

TRIES = 5
"""How often a history is performed until it breaks its rule again."""
SOUND_TRIES = 2


class NotShown(Exception):
    """A history does not show its defect; the message says what it came to."""


def shortest(seeded: SeededWorld, operations: list[AnyOperation], rule: str | None, limit_s: float) -> Shortest:
    """The shortest part of a history that breaks this rule, or any, on a broker that has the defect now."""
    last: Attempt | None = None
    for _ in range(TRIES):
        last = seeded.perform(operations)
        if last.violation is not None and rule in (None, last.violation.rule):
            recording = shorten_recording(last, seeded.known, limit_s=limit_s / 4)
            return minimise(last, one_by_one(seeded.perform), limit_s=limit_s, recording=recording)
    assert last is not None
    raise NotShown(f"never broke {rule or 'a rule'}; last time: {last.violation}")


def record(seeded: SeededWorld, defect: Defect, found: History, limit_s: float, *, any_rule: bool) -> History:
    """The history to store. NotShown if it does not break its rule with the defect, or breaks one without."""
    rule = None if any_rule else defect.breaks
    with seeded.defective(defect):
        best = shortest(seeded, [step.operation for step in found.steps], rule, limit_s)
    operations = [step.operation for step in best.attempt.steps]
    for _ in range(SOUND_TRIES):
        if (broken := seeded.perform(operations).violation) is not None:
            raise NotShown(f"breaks a rule without the defect: {broken}")
    if not best.came_back:
        raise NotShown(f"{best.attempt.violation} came back in none of {best.tries} replays")
    world = seeded.world
    return History(
        machine=found.machine,
        release=world.broker.version,
        broker=world.broker.version,
        clients=world.clients,
        seed=found.seed,
        settings=dict(world.settings),
        steps=best.attempt.steps,
        violation=best.attempt.violation,
        defect=defect.name,
        replays=Replays(tries=best.tries, came_back=best.came_back),
        minimal=True,
    )


def main() -> int:
    """Record each history; exit status 1 if one of them shows nothing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("histories", nargs="+", type=Path)
    parser.add_argument("--broker", default="4.0.8")
    parser.add_argument("--limit-s", type=float, default=30.0, help="how long one history may be shortened")
    parser.add_argument("--any-rule", action="store_true", help="not only the rule that the defect was made for")
    asked = parser.parse_args()
    seeded = SeededWorld(asked.broker)
    failed = 0
    try:
        for path in asked.histories:
            found = document.read(path)
            assert found.defect is not None, f"{path} names no defect"
            defect = catalogue.find(found.defect)
            try:
                recorded = record(seeded, defect, found, asked.limit_s, any_rule=asked.any_rule)
            except NotShown as why:
                failed += 1
                print(f"{defect.name}: {why}", flush=True)
                continue
            folder = stored.HISTORIES / stored.family(defect.breaks)
            folder.mkdir(parents=True, exist_ok=True)
            document.write(recorded, folder / f"{defect.name}.json")
            print(f"{defect.name}: {len(recorded.steps)} steps, {recorded.violation}, {recorded.replays}", flush=True)
    finally:
        seeded.close()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
