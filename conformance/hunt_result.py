"""The result of a hunt for a seeded defect, folded from the events of the run with this defect.

A defect is found if a machine broke a rule without a known deviation, and the same histories broke nothing without the
defect. If it is not the rule that the defect breaks, the history must also come back with the defect. Otherwise the
result is: missed, not the defect's doing, only suspected, or failed. It runs and prints nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from conformance.events import (
    AnyEvent,
    ExampleFinished,
    HarnessErrorHappened,
    ProcessEnded,
    ReplayedSoundly,
    RunFinished,
    RunStarted,
    RunStopped,
    ViolationFound,
    ViolationMinimised,
)
from conformance.faults.defect import Defect
from conformance.history.document import Replays, Violation


@dataclass(frozen=True, slots=True, kw_only=True)
class Catch:
    """The shortened violation of a run with a defect: the first that came back, if one did.

    ``operations`` and ``seconds``: those of the machines until then. ``steps``: the length of its shortened
    ``history``. ``with_defect``: how often that came back. ``without``: how often its histories broke a rule on the
    same broker without the defect.
    """

    machine: str
    violation: Violation
    operations: int
    seconds: float
    history: str
    steps: int
    with_defect: Replays
    without: Replays


@dataclass(frozen=True, slots=True, kw_only=True)
class DefectFound:
    """The machines found the defect."""

    defect: Defect
    catch: Catch


@dataclass(frozen=True, slots=True, kw_only=True)
class NotItsDoing:
    """The violation comes back without the defect, too, so the defect is not its cause."""

    defect: Defect
    catch: Catch


@dataclass(frozen=True, slots=True, kw_only=True)
class DefectSuspected:
    """The violation came back in no replay and breaks another rule, or came back in none of many: nothing ties it to
    the defect."""

    defect: Defect
    catch: Catch


@dataclass(frozen=True, slots=True, kw_only=True)
class DefectMissed:
    """The machines finished and broke no rule: a hole in the suite."""

    defect: Defect
    operations: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HuntFailed:
    """The run failed, which says nothing about the defect."""

    defect: Defect
    why: str


Hunted = DefectFound | NotItsDoing | DefectSuspected | DefectMissed | HuntFailed
"""The possible results of a hunt for one defect."""

UNFINISHED = "the run ended before it had a result"


def fold(defect: Defect, events: Iterable[AnyEvent]) -> Hunted:
    """The result of the events of a run with this defect."""
    recorded = list(events)
    began_s = next((event.at_s for event in recorded if isinstance(event, RunStarted)), 0.0)
    shown = {event.original for event in recorded if isinstance(event, ViolationMinimised)}
    all_found = [event for event in recorded if isinstance(event, ViolationFound)]
    found = next((event for event in all_found if event.history in shown), next(iter(all_found), None))
    if found is not None:
        catch = _catch(found, recorded, began_s)
        if catch is None:
            return HuntFailed(defect=defect, why=f"{found.violation.rule} was broken, but then: {_why(recorded)}")
        return _of_catch(defect, catch)
    finished = next((event for event in recorded if isinstance(event, RunFinished)), None)
    if finished is None or any(isinstance(event, HarnessErrorHappened | ProcessEnded) for event in recorded):
        return HuntFailed(defect=defect, why=_why(recorded))
    ended_s = max((event.at_s for event in recorded if isinstance(event, ExampleFinished)), default=began_s)
    return DefectMissed(defect=defect, operations=finished.operations, seconds=ended_s - began_s)


def _of_catch(defect: Defect, catch: Catch) -> DefectFound | NotItsDoing | DefectSuspected:
    if catch.without.came_back:
        return NotItsDoing(defect=defect, catch=catch)
    is_another = catch.violation.rule != defect.breaks and not catch.with_defect.came_back
    if is_another or catch.with_defect.are_in_vain:
        return DefectSuspected(defect=defect, catch=catch)
    return DefectFound(defect=defect, catch=catch)


def exit_status(hunted: Iterable[Hunted]) -> int:
    """0 if all were found, 1 if one was not, 2 if a run failed, 3 if one was only suspected."""
    all_hunted = list(hunted)
    if any(isinstance(one, DefectMissed | NotItsDoing) for one in all_hunted):
        return 1
    if any(isinstance(one, HuntFailed) for one in all_hunted):
        return 2
    return 3 if any(isinstance(one, DefectSuspected) for one in all_hunted) else 0


def _catch(found: ViolationFound, recorded: list[AnyEvent], began_s: float) -> Catch | None:
    shortened = next(
        (e for e in reversed(recorded) if isinstance(e, ViolationMinimised) and e.original == found.history), None
    )
    soundly = next((e for e in recorded if isinstance(e, ReplayedSoundly) and e.original == found.history), None)
    if shortened is None or soundly is None:
        return None
    return Catch(
        machine=found.machine,
        violation=found.violation,
        operations=found.operations,
        seconds=found.at_s - began_s,
        history=shortened.history,
        steps=shortened.steps,
        with_defect=Replays(tries=shortened.tries, came_back=shortened.came_back),
        without=Replays(tries=soundly.tries, came_back=soundly.came_back),
    )


def _why(recorded: list[AnyEvent]) -> str:
    reasons = (
        event.sentence for event in recorded if isinstance(event, HarnessErrorHappened | ProcessEnded | RunStopped)
    )
    return next(reasons, UNFINISHED)
