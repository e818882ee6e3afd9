"""What a run tells while it goes on: a stream of events.

The engine (pytest, in a process of its own) emits them; the command line, the tables and the reports only consume them.
They travel as JSON lines, one event a line, and are kept with the report, so a run can be told again later.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Literal

import msgspec

from conformance.history.document import Violation
from conformance.known import KnownDeviation


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag=True):
    """What all events have in common: when, in seconds since the run began."""

    at_s: float


class RunStarted(Event, frozen=True, kw_only=True):
    """The broker is up and the machines are about to start."""

    release: str
    broker: str
    clients: dict[str, str]
    seed: int
    budget_s: float
    rules: tuple[str, ...]
    machines: tuple[str, ...]
    settings: dict[str, str]
    known: tuple[str, ...] = ()
    defect: str | None = None


class RunAsked(Event, frozen=True, kw_only=True):
    """What a check was asked for, told by its supervisor before anything starts: reports follow from the events alone.

    ``known``: the deviations that were to be tolerated; ``command``: what the user ran; ``named``: the rules that were
    asked for by id.
    """

    command: str
    broker: str
    rules: tuple[str, ...]
    seed: int
    budget_s: float
    named: frozenset[str] = frozenset()
    known: tuple[KnownDeviation, ...] = ()
    client: str | None = None
    connection: tuple[str, ...] = ()
    """The options for TLS and authentication, without secrets."""
    defect: str | None = None


class Phase(Event, frozen=True, kw_only=True):
    """Something long begins: a download, a start of the broker, a machine, shrinking; one short sentence.

    ``until_s``: when it ends at the latest, where it may take longer than the budget of the run.
    """

    what: str
    until_s: float | None = None


class ExampleFinished(Event, frozen=True, kw_only=True):
    """One example of a machine ended; how often it exercised each rule, or could not, and how long it took.

    A violation that the run has not found before is told by an event of its own, after this one.
    """

    machine: str
    operations: int
    exercised: dict[str, int]
    deviations: dict[str, int] = {}
    excused: dict[str, int] = {}
    seconds: float = 0.0


class ViolationFound(Event, frozen=True, kw_only=True):
    """A rule was broken; its history is on disk, unshortened. ``operations`` counts those of the run up to it."""

    machine: str
    violation: Violation
    history: str
    operations: int


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """One stage of making a history short: what it tried, in which time, and how many steps were left.

    ``recording``: parts of the recording were judged again by the model, without a broker. ``broker``: parts were
    performed, in ``runs`` runs. ``candidates``: the parts that were tried.
    """

    name: Literal["recording", "broker"]
    seconds: float
    candidates: int
    steps: int
    runs: int = 0


class ViolationMinimised(Event, frozen=True, kw_only=True):
    """A violation's history was shortened and replayed; the file ``history`` stands beside ``original``.

    It is told again when the violation was replayed more often: the last one counts. ``broke_in`` is the number of
    examples of the run that broke the rule in this way so far, of ``checked_in`` that checked it. ``stages``: how it
    was shortened.
    """

    original: str
    history: str
    steps: int
    tries: int
    came_back: int
    broke_in: int = 1
    checked_in: int = 0
    stages: tuple[Stage, ...] = ()


class ReplayedSoundly(Event, frozen=True, kw_only=True):
    """With a seeded defect taken out again, histories of a violation were replayed; in how many of these a rule broke.

    ``original`` is the file of the history as it was found; it was replayed, and what it had been shortened to.
    """

    original: str
    tries: int
    came_back: int


class NotExercisable(Event, frozen=True, kw_only=True):
    """A rule that this run cannot exercise (no fault possible on this kind of broker, say), and why."""

    rule: str
    why: str


class HarnessErrorHappened(Event, frozen=True, kw_only=True):
    """The run failed: one sentence, and the last lines of the broker's log where that may help."""

    sentence: str
    log_tail: str = ""


class RunFinished(Event, frozen=True, kw_only=True):
    """The machines are through. Without this event a run did not end by itself."""

    operations: int


AnyEvent = (
    RunAsked
    | RunStarted
    | Phase
    | ExampleFinished
    | ViolationFound
    | ViolationMinimised
    | ReplayedSoundly
    | NotExercisable
    | HarnessErrorHappened
    | RunFinished
)
"""Every event there is."""

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[AnyEvent] = msgspec.json.Decoder(AnyEvent)


def encode(event: AnyEvent) -> bytes:
    """One line, ending in a newline."""
    return _encoder.encode(event) + b"\n"


def decode(line: bytes) -> AnyEvent:
    """The event of one line; msgspec.ValidationError or DecodeError for anything else."""
    return _decoder.decode(line)


class Teller:
    """Writes events where a run's events go; without a file they go nowhere (plain pytest needs none)."""

    def __init__(self, path: Path | None, *, began: float) -> None:
        """``path`` may be a file or a named pipe; ``began`` is the run's beginning on the monotonic clock."""
        self._file = path.open("ab", buffering=0) if path is not None else None
        self._began = began

    @property
    def now_s(self) -> float:
        """Seconds since the run began."""
        return round(time.monotonic() - self._began, 3)

    def __call__(self, event: AnyEvent) -> None:
        """Tell one event."""
        if self._file is not None:
            self._file.write(encode(event))
