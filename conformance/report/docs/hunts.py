"""Reports a hunt for seeded defects: its progress line by line, its result as a table and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, assert_never

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from rich.console import Console
from rich.table import Table
from rich.text import Text

from conformance.events import (
    AnyEvent,
    HarnessErrorHappened,
    Phase,
    ProcessEnded,
    ReplayedSoundly,
    RunStarted,
    RunStopped,
    ViolationFound,
    ViolationMinimised,
)
from conformance.files import content
from conformance.harness_error import HarnessError
from conformance.history.document import Replays
from conformance.hunt_result import DefectFound, DefectMissed, DefectSuspected, Hunted, HuntFailed, NotItsDoing
from conformance.report.sentences.lists import count


class HuntProgress:
    """Prints the progress of the run for one defect."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def take(self, event: AnyEvent) -> None:
        if (line := _line(event)) is not None:
            self._console.print(Text(f"  [{event.at_s:4.0f} s] {line}"), soft_wrap=True)

    def tick(self, elapsed_s: float) -> None:
        """Nothing: the events are frequent enough."""


def _line(event: AnyEvent) -> str | None:
    match event:
        case RunStarted(release=release):
            return f"Pulsar {release} is up, with the defect"
        case Phase(what=what):
            return what
        case ViolationFound(machine=machine, violation=violation, operations=operations):
            found = f"{machine} found it after {operations} operations"
            return f"{found}: {violation.rule}, {violation.because}"
        case ViolationMinimised(steps=steps, tries=tries, came_back=came_back):
            shortened = f"the history was shortened to {count(steps, 'step', 'steps')}"
            return f"{shortened}; it came back in {came_back} of {tries} replays"
        case ReplayedSoundly(tries=tries, came_back=came_back):
            return f"without the defect a rule broke in {came_back} of {tries} replays"
        case HarnessErrorHappened(sentence=sentence):
            return f"HARNESS ERROR: {sentence}"
        case RunStopped(sentence=sentence) | ProcessEnded(sentence=sentence):
            return sentence
        case _:
            return None


def show(hunted: Sequence[Hunted], console: Console) -> None:
    """Print the table, the problem of each defect that was not found, and how many were found.

    Operations and seconds are those until the defect was found, steps those of the minimal history. Each defect has two
    lines, so that 80 columns are enough.
    """
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("Defect", "Breaks", "Violated"):
        table.add_column(heading, no_wrap=True)
    for heading in ("Ops", "Secs", "Steps", "Replays"):
        table.add_column(heading, justify="right", no_wrap=True)
    for one in hunted:
        table.add_row(_name(one), one.defect.breaks, *_cells(one))
    console.print()
    console.print(table)
    console.print()
    for one in hunted:
        if (problem := problem_of(one)) is not None:
            console.print(Text(f"{one.defect.name}: {problem}.", style="red"))
    found = sum(isinstance(one, DefectFound) for one in hunted)
    console.print(Text(f"{found} of {count(len(hunted), 'defect', 'defects')} found.", style="bold"))


def _name(one: Hunted) -> Text:
    match one:
        case DefectFound(catch=catch):
            below, style = f"by {catch.machine}", "green"
        case NotItsDoing():
            below, style = "not its doing", "bold red"
        case DefectSuspected():
            below, style = "suspected", "bold yellow"
        case DefectMissed():
            below, style = "not found", "bold red"
        case HuntFailed():
            below, style = "harness error", "yellow"
        case _:
            assert_never(one)
    return Text.assemble(one.defect.name, "\n  ", (below, style))


def _cells(one: Hunted) -> tuple[str, ...]:
    match one:
        case DefectFound(catch=catch) | NotItsDoing(catch=catch) | DefectSuspected(catch=catch):
            replays = f"{catch.with_defect.came_back} of {catch.with_defect.tries}"
            rule, operations = catch.violation.rule, str(catch.operations)
            return rule, operations, f"{catch.seconds:.1f}", str(catch.steps), replays
        case DefectMissed(operations=number, seconds=seconds):
            return "-", str(number), f"{seconds:.1f}", "-", "-"
        case HuntFailed():
            return "-", "-", "-", "-", "-"
        case _:
            assert_never(one)


def problem_of(one: Hunted) -> str | None:
    """Why the defect does not count as found, without a full stop; None if it was found."""
    match one:
        case DefectFound():
            return None
        case NotItsDoing(catch=catch):
            times = f"{catch.without.came_back} of {catch.without.tries} replays"
            return f"{catch.violation.rule} was broken without the defect, too, in {times}: {catch.violation.because}"
        case DefectSuspected(catch=catch):
            times = f"none of {catch.with_defect.tries} replays"
            return (
                f"{catch.violation.rule} was broken with it, but that came back in {times}: {catch.violation.because}"
            )
        case DefectMissed():
            what = one.defect.summary.rstrip(".")
            return f"the machines did not find it; it should break {one.defect.breaks}: {what}"
        case HuntFailed(why=why):
            return why.rstrip(".")
        case _:
            assert_never(one)


class DefectForm(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One defect of a hunt in JSON, with the fields of :class:`~conformance.hunt_result.Catch` if a rule was violated.

    ``history``: its file, in the folder of the hunt's report. ``problem``: why it does not count as found.
    """

    id: str
    breaks: str
    result: Literal["found", "not-its-doing", "suspected", "not-found", "harness-error"]
    machine: str | None = None
    rule: str | None = None
    because: str | None = None
    operations: int | None = None
    seconds: float | None = None
    steps: int | None = None
    replays: Replays | None = None
    replays_without_defect: Replays | None = None
    history: str | None = None
    problem: str | None = None


class HuntForm(Struct, frozen=True, kw_only=True):
    """A hunt in JSON; ``budget_s`` is the budget of each defect, in seconds."""

    broker: str
    seed: int
    budget_s: float
    defects: tuple[DefectForm, ...]


def as_json(hunted: Sequence[Hunted], *, broker: str, seed: int, budget_s: float) -> bytes:
    """The hunt as JSON, indented: a :class:`HuntForm`."""
    form = HuntForm(broker=broker, seed=seed, budget_s=budget_s, defects=tuple(_form(one) for one in hunted))
    return msgspec.json.format(msgspec.json.encode(form), indent=2) + b"\n"


def read(path: Path) -> HuntForm:
    """Read the JSON of a hunt."""
    try:
        return msgspec.json.decode(content(path), type=HuntForm)
    except (OSError, msgspec.MsgspecError) as error:
        raise HarnessError(f"{path} does not have the JSON of a hunt: {error}") from error


def _form(one: Hunted) -> DefectForm:
    form = DefectForm(id=one.defect.name, breaks=one.defect.breaks, result=_result(one), problem=problem_of(one))
    if not isinstance(one, DefectFound | NotItsDoing | DefectSuspected):
        return form
    catch = one.catch
    return replace(
        form,
        machine=catch.machine,
        rule=catch.violation.rule,
        because=catch.violation.because,
        operations=catch.operations,
        seconds=round(catch.seconds, 1),
        steps=catch.steps,
        replays=catch.with_defect,
        replays_without_defect=catch.without,
        history=f"{one.defect.name}/{Path(catch.history).name}",
    )


def _result(one: Hunted) -> Literal["found", "not-its-doing", "suspected", "not-found", "harness-error"]:
    match one:
        case DefectFound():
            return "found"
        case NotItsDoing():
            return "not-its-doing"
        case DefectSuspected():
            return "suspected"
        case DefectMissed():
            return "not-found"
        case HuntFailed():
            return "harness-error"
        case _:
            assert_never(one)
