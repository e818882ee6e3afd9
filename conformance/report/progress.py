"""Shows the progress of a run: the rules exercised, operations a second, the time left.

It is a live display on a terminal, and plain lines elsewhere (a CI log), on standard error. Standard output has only
the table. A rule is ticked when it was exercised; nothing is judged here.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Protocol, Self, assert_never

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from conformance.events import (
    AnyEvent,
    ComparedWithBaseline,
    ExampleFinished,
    HarnessErrorHappened,
    LoadMeasured,
    NotExercisable,
    Phase,
    ProcessEnded,
    ReplayedSoundly,
    RunAsked,
    RunFinished,
    RunStarted,
    RunStopped,
    ViolationFound,
    ViolationMinimised,
)
from conformance.report.sentences.lists import count
from model.rules.catalogue import Rule

PLAIN_EVERY_S = 15.0
"""The interval of a plain display's lines when nothing else happens, in seconds."""


NAMED_AT_MOST = 4
"""How many machines are named at the start; of more, the number is shown."""

LIVE_EVERY_S = 0.1
"""How often a live display is drawn again, in seconds."""


class Display(Protocol):
    """A display of a run, which has to be opened and closed."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def take(self, event: AnyEvent) -> None:
        """Show an event."""

    def tick(self, elapsed_s: float) -> None:
        """Show the time since the engine was started, in seconds."""


def display(rules: Sequence[Rule], *, budget_s: float, console: Console) -> Display:
    state = _State(rules, budget_s)
    return _LiveDisplay(state, console) if console.is_terminal else _PlainDisplay(state, console)


class _State:
    """The progress of a run."""

    def __init__(self, rules: Sequence[Rule], budget_s: float) -> None:
        self.rules = rules
        self.budget_s = budget_s
        self.exercised: set[str] = set()
        self.violated: set[str] = set()
        self.operations = 0
        self.phase = "Starting"
        self.elapsed_s = 0.0
        self._operations_since_s: float | None = None

    @property
    def reached(self) -> str:
        asked = {rule.id for rule in self.rules}
        return f"{len(asked & (self.exercised | self.violated))} of {len(asked)} rules exercised"

    @property
    def speed(self) -> str:
        since_s = self.elapsed_s - (self._operations_since_s or 0.0)
        return f"{self.operations / since_s:.0f}/s" if self.operations and since_s > 0 else "-/s"

    @property
    def time_left(self) -> str:
        minutes, seconds = divmod(max(0, round(self.budget_s - self.elapsed_s)), 60)
        return f"{minutes}:{seconds:02} left"

    def take(self, event: AnyEvent) -> str | None:
        """Note an event; returns a line on it, or None."""
        match event:
            case RunStarted(machines=machines, at_s=at_s):
                self._operations_since_s = at_s
                self.phase = f"Pulsar {','.join(event.releases)} is up{_named(machines)}"
                return self.phase
            case RunAsked() | LoadMeasured():
                return None
            case Phase(what=what, until_s=until_s):
                self.phase = what
                self.budget_s = max(self.budget_s, until_s or 0.0)
                return what
            case ExampleFinished(operations=operations, exercised=exercised):
                self.operations += operations
                new = sorted(rule for rule, times in exercised.items() if times and rule not in self.exercised)
                self.exercised.update(new)
                return f"{', '.join(new)} exercised ({self.reached})" if new else None
            case ViolationFound(violation=violation, operations=operations):
                self.operations = max(self.operations, operations)
                self.violated.add(violation.rule)
                return f"VIOLATION of {violation.rule}: {violation.because}"
            case ViolationMinimised(steps=steps, tries=0):
                return f"its history was shortened to {steps} steps, without a replay"
            case ViolationMinimised(steps=steps, tries=tries, came_back=came_back):
                return f"its history was shortened to {steps} steps; it came back in {came_back} of {tries} replays"
            case ReplayedSoundly(tries=tries, came_back=came_back):
                return f"without the defect a rule broke in {came_back} of {tries} replays"
            case ComparedWithBaseline():
                return f"the violation is {event.sentence}"
            case NotExercisable(rule=rule, why=why):
                return f"{rule} cannot be exercised: {why}"
            case HarnessErrorHappened(sentence=sentence):
                return f"HARNESS ERROR: {sentence}"
            case RunStopped(sentence=sentence):
                return sentence
            case ProcessEnded(sentence=sentence, is_of_release=is_of_release):
                return f"{'CRASH' if is_of_release else 'HARNESS ERROR'}: {sentence}"
            case RunFinished(operations=operations):
                self.operations = max(self.operations, operations)
                return "the machines have ended"
            case _:
                assert_never(event)


def _named(machines: Sequence[str]) -> str:
    """The machines by name if they are few, or else how many they are; a replay has none."""
    names = f": {', '.join(machines)}" if len(machines) <= NAMED_AT_MOST else ""
    return f"; {count(len(machines), 'machine', 'machines')}{names}" if machines else ""


class _PlainDisplay:
    def __init__(self, state: _State, console: Console) -> None:
        self._state = state
        self._console = console
        self._said_s = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def take(self, event: AnyEvent) -> None:
        line = self._state.take(event)
        if line is not None:
            self._say(line, event.at_s)

    def tick(self, elapsed_s: float) -> None:
        state = self._state
        state.elapsed_s = elapsed_s
        if elapsed_s - self._said_s >= PLAIN_EVERY_S:
            self._say(f"{state.operations} operations, {state.speed}; {state.reached}; {state.time_left}", elapsed_s)

    def _say(self, line: str, at_s: float) -> None:
        self._said_s = max(self._said_s, at_s)  # the engine's clock and ours differ a little
        self._console.print(Text(f"[{self._said_s:4.0f} s] {line}"), soft_wrap=True)


class _LiveDisplay:
    def __init__(self, state: _State, console: Console) -> None:
        self._state = state
        self._spinner = Spinner("dots")
        self._live = Live(console=console, auto_refresh=False, transient=True, get_renderable=self._picture)
        self._refreshed_s = 0.0

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def take(self, event: AnyEvent) -> None:
        line = self._state.take(event)
        match event:
            case ViolationFound() | ProcessEnded(is_of_release=True):
                self._live.console.print(Text(line or "", style="bold red"))
            case HarnessErrorHappened() | ProcessEnded() | RunStopped():
                self._live.console.print(Text(line or "", style="yellow"))
            case _:
                pass

    def tick(self, elapsed_s: float) -> None:
        self._state.elapsed_s = elapsed_s
        if elapsed_s - self._refreshed_s >= LIVE_EVERY_S:
            self._refreshed_s = elapsed_s
            self._live.refresh()

    def _picture(self) -> RenderableType:
        state = self._state
        self._spinner.update(text=Text(state.phase, overflow="ellipsis", no_wrap=True))
        numbers = f"{state.operations} operations  {state.speed}  {state.reached}  {state.time_left}"
        return Group(*self._families(), self._spinner, Text(numbers, style="dim"))

    def _families(self) -> list[Text]:
        lines: dict[str, Text] = {}
        for rule in self._state.rules:
            line = lines.setdefault(rule.family, Text(f"{rule.family:6}", style="bold"))
            line.append(self._mark(rule))
        return list(lines.values())

    def _mark(self, rule: Rule) -> Text:
        number = rule.id.partition("-")[2]
        if rule.id in self._state.violated:
            return Text(f" ✗{number}", style="bold red")
        if rule.id in self._state.exercised:
            return Text(f" ✓{number}", style="not bold green")
        return Text(f" ·{number}", style="not bold dim")
