"""What a hunt for a seeded defect came to, folded from the events of the run that had it switched on.

A defect counts as found when a machine broke a rule by something that is no known deviation, and the same histories
broke nothing once the defect was taken out of the broker again. Anything less says so: not found, not the defect's
doing, only suspected, or nothing that can be said because the run failed. Nothing is run or shown here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from conformance.events import (
    AnyEvent,
    ExampleFinished,
    HarnessErrorHappened,
    ReplayedSoundly,
    RunFinished,
    RunStarted,
    ViolationFound,
    ViolationMinimised,
)
from conformance.faults.defect import Defect
from conformance.history.document import Replays, Violation


@dataclass(frozen=True, slots=True, kw_only=True)
class Catch:
    """The violation of a run with a defect that was made short: the first that came back, if one did.

    ``operations`` and ``seconds`` are those that the machines took up to it, ``steps`` the length of its ``history``
    made short, ``with_defect`` how often that came back, ``without`` how often histories of it broke a rule of the
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
class Found:
    """The machines found the defect."""

    defect: Defect
    catch: Catch


@dataclass(frozen=True, slots=True, kw_only=True)
class NotItsDoing:
    """What the machines found breaks a rule without the defect, too: it says nothing of the defect."""

    defect: Defect
    catch: Catch


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspected:
    """What the machines found came back in none of many replays, so that nothing ties it to the defect."""

    defect: Defect
    catch: Catch


@dataclass(frozen=True, slots=True, kw_only=True)
class Missed:
    """The machines were through and broke no rule: a hole in the suite."""

    defect: Defect
    operations: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The run failed, so that nothing can be said of the defect."""

    defect: Defect
    why: str


Hunted = Found | NotItsDoing | Suspected | Missed | Failed
"""What a hunt for one defect can come to."""

UNFINISHED = "the run ended before anything could be said"


def fold(defect: Defect, events: Iterable[AnyEvent]) -> Hunted:
    """What the events of a run with this defect come to."""
    told = list(events)
    began_s = next((event.at_s for event in told if isinstance(event, RunStarted)), 0.0)
    shown = {event.original for event in told if isinstance(event, ViolationMinimised)}
    all_found = [event for event in told if isinstance(event, ViolationFound)]
    found = next((event for event in all_found if event.history in shown), next(iter(all_found), None))
    if found is not None:
        catch = _catch(found, told, began_s)
        if catch is None:
            return Failed(defect=defect, why=f"{found.violation.rule} was broken, but then: {_why(told)}")
        return _of_catch(defect, catch)
    finished = next((event for event in told if isinstance(event, RunFinished)), None)
    if finished is None or any(isinstance(event, HarnessErrorHappened) for event in told):
        return Failed(defect=defect, why=_why(told))
    ended_s = max((event.at_s for event in told if isinstance(event, ExampleFinished)), default=began_s)
    return Missed(defect=defect, operations=finished.operations, seconds=ended_s - began_s)


def _of_catch(defect: Defect, catch: Catch) -> Found | NotItsDoing | Suspected:
    if catch.without.came_back:
        return NotItsDoing(defect=defect, catch=catch)
    if catch.with_defect.are_in_vain:
        return Suspected(defect=defect, catch=catch)
    return Found(defect=defect, catch=catch)


def exit_status(hunted: Iterable[Hunted]) -> int:
    """0 when all were found, 1 when one was not, 2 when a run failed, and otherwise 3: one was only suspected."""
    all_hunted = list(hunted)
    if any(isinstance(one, Missed | NotItsDoing) for one in all_hunted):
        return 1
    if any(isinstance(one, Failed) for one in all_hunted):
        return 2
    return 3 if any(isinstance(one, Suspected) for one in all_hunted) else 0


def _catch(found: ViolationFound, told: list[AnyEvent], began_s: float) -> Catch | None:
    shortened = next(
        (e for e in reversed(told) if isinstance(e, ViolationMinimised) and e.original == found.history), None
    )
    soundly = next((e for e in told if isinstance(e, ReplayedSoundly) and e.original == found.history), None)
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


def _why(told: list[AnyEvent]) -> str:
    return next((event.sentence for event in told if isinstance(event, HarnessErrorHappened)), UNFINISHED)
