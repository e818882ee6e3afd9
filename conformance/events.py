"""The stream of events of a run.

The engine (pytest, in a process of its own) emits them; the command line, the tables and the reports consume them. They
are JSON lines, and are stored with the report, so that a report can be made again later.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from conformance.coverage.coverage import Drawn
from conformance.history.document import Replays, Violation
from conformance.known import KnownDeviation
from conformance.known.failures import NO_FAILURES, KnownFailures
from conformance.load import Load

Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
"""A number of something; larger ones are not exact in all JSON."""
Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e9)]


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag=True):
    """An event; ``at_s``: seconds since the run began."""

    at_s: Seconds


class RunStarted(Event, frozen=True, kw_only=True):
    """The broker is up and the machines are about to start."""

    release: str
    broker: str
    clients: dict[str, str]
    seed: int
    budget_s: Seconds
    rules: tuple[str, ...]
    machines: tuple[str, ...]
    settings: dict[str, str]
    known: tuple[str, ...] = ()
    defect: str | None = None
    substitutes: dict[str, str] = {}
    """By what is not published of an assembled release, what is used instead."""

    @property
    def releases(self) -> tuple[str, ...]:
        """Those of its brokers: two in a rolling upgrade, whose broker is named ``3.3.6,4.0.8``."""
        named = tuple(self.broker.split(","))
        return named if len(named) > 1 and ":" not in self.broker else (self.release,)

    def has(self, deviation: KnownDeviation) -> bool:
        """Whether a deviation is known of one of its brokers, with its clients and settings."""
        return any(deviation.concerns(one, self.clients, self.settings) for one in self.releases)


class RunAsked(Event, frozen=True, kw_only=True):
    """The options of a check, from its supervisor before anything starts, so that a report needs only the events.

    ``known``: the deviations to tolerate; ``command``: the user's command; ``named``: the rules that the user named by
    id; ``failures``: the rules that the client is known to break.
    """

    command: str
    broker: str
    rules: tuple[str, ...]
    seed: int
    budget_s: Seconds
    named: frozenset[str] = frozenset()
    known: tuple[KnownDeviation, ...] = ()
    client: str | None = None
    connection: tuple[str, ...] = ()
    """The options for TLS and authentication, without secrets."""
    defect: str | None = None
    failures: KnownFailures = NO_FAILURES


class Phase(Event, frozen=True, kw_only=True):
    """A phase begins, such as a download, the start of the broker, or a machine; ``what``: one short sentence.

    ``until_s``: its latest end, if that may exceed the run's budget.
    """

    what: str
    until_s: Seconds | None = None


class ExampleFinished(Event, frozen=True, kw_only=True):
    """One example of a machine ended: how often it exercised each rule, or was excused, and its duration.

    A new violation is an event of its own, after this one.
    """

    machine: str
    operations: Count
    exercised: dict[str, Count]
    deviations: dict[str, Count] = {}
    excused: dict[str, Count] = {}
    seconds: Seconds = 0.0


class ViolationFound(Event, frozen=True, kw_only=True):
    """A rule was broken; its whole history is on disk. ``operations`` counts those of the run so far.

    ``took_s``: how long the step took that broke it. ``also``: the rules that break with any rule of such a history.
    """

    machine: str
    violation: Violation
    history: str
    operations: Count
    took_s: float = 0.0
    also: tuple[str, ...] = ()


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """One stage of shortening a history: how much it tried, its duration, and how many steps were left.

    ``recording``: parts of the recording were judged again by the model, without a broker. ``broker``: parts were
    performed, in ``runs`` runs. ``candidates``: the parts that were tried.
    """

    name: Literal["recording", "broker"]
    seconds: Seconds
    candidates: Count
    steps: Count
    runs: Count = 0


class ViolationMinimised(Event, frozen=True, kw_only=True):
    """A violation's history was shortened and replayed; the file ``history`` is next to ``original``.

    Further replays emit it again, and the last one counts. ``broke_in`` is the number of examples of the run that broke
    the rule in this way so far, of ``checked_in`` that checked it. ``stages``: how it was shortened.
    ``also``: the rules that the shortened history breaks besides.
    """

    original: str
    history: str
    steps: Count
    tries: Count
    came_back: Count
    broke_in: Count = 1
    checked_in: Count = 0
    stages: tuple[Stage, ...] = ()
    also: tuple[str, ...] = ()


class ReplayedSoundly(Event, frozen=True, kw_only=True):
    """Histories of a violation were replayed without the seeded defect; ``came_back``: how many broke a rule.

    ``original`` is the file of the whole history; it and the shortened one were replayed.
    """

    original: str
    tries: Count
    came_back: Count


BaselineResult = Literal["new", "there-before", "undecided"]


class ComparedWithBaseline(Event, frozen=True, kw_only=True):
    """A violation was compared with the baseline of the run; ``original`` is the file of its whole history.

    ``candidate`` and ``before``: how often it came back on each. ``p`` is Fisher's probability, and ``interval`` that
    of the difference of the two rates (Newcombe, 95 %). ``because``: why it is undecided, or what a file says.
    """

    original: str
    baseline: str
    result: BaselineResult
    candidate: Replays | None = None
    before: Replays | None = None
    p: float | None = None
    interval: tuple[float, float] | None = None
    because: str = ""

    @property
    def sentence(self) -> str:
        """The result, as the end of a sentence."""
        what = {
            "new": f"new against {self.baseline}",
            "there-before": f"in {self.baseline}, too",
            "undecided": f"only suspected to be new against {self.baseline}",
        }[self.result]
        if self.p is None or self.candidate is None or self.before is None:
            return f"{what}: {self.because}."
        rates = (
            f"it came back in {self.candidate.came_back} of {self.candidate.tries} replays here, and in "
            f"{self.before.came_back} of {self.before.tries} there (p = {self.p:.2g})"
        )
        return f"{what}: {rates}{f'; {self.because}' if self.because else ''}."


class NotExercisable(Event, frozen=True, kw_only=True):
    """A rule that this run cannot exercise, for example because the broker allows no fault, and why."""

    rule: str
    why: str


class HarnessErrorHappened(Event, frozen=True, kw_only=True):
    """The run failed: one sentence, and the last lines of the broker's log if they may help."""

    sentence: str
    log_tail: str = ""


class RunStopped(Event, frozen=True, kw_only=True):
    """The run ended early, and nothing failed; ``sentence`` says why.

    ``interrupted``: by the user. ``forbidden``: the cluster does not authorize the suite's role. ``too-short``: the
    budget ended before the broker was ready.
    """

    why: Literal["interrupted", "forbidden", "too-short"]
    sentence: str


class LoadMeasured(Event, frozen=True, kw_only=True):
    """The load of the machine since the last event of this kind, from the supervisor, every few seconds."""

    load: Load


class ProcessEnded(Event, frozen=True, kw_only=True):
    """A process of the run ended, and the suite did not end it; ``sentence``: how, and the likely cause.

    ``is_of_release``: a broker, a bookie or a metadata store, not a process of the suite. ``status`` as subprocess has
    it (negative: by that signal), None if nobody knows it. ``log_tail``: the last lines of its log.
    """

    process: str
    is_of_release: bool
    pid: int
    status: int | None
    sentence: str
    log_tail: str = ""


class RunFinished(Event, frozen=True, kw_only=True):
    """The machines have finished. A run without this event was killed or failed. ``drawn``: the choices, if counted."""

    operations: Count
    drawn: Drawn | None = None


AnyEvent = (
    RunAsked
    | RunStarted
    | Phase
    | ExampleFinished
    | ViolationFound
    | ViolationMinimised
    | ReplayedSoundly
    | ComparedWithBaseline
    | NotExercisable
    | HarnessErrorHappened
    | RunStopped
    | LoadMeasured
    | ProcessEnded
    | RunFinished
)

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[AnyEvent] = msgspec.json.Decoder(AnyEvent)


def encode(event: AnyEvent) -> bytes:
    """One line, with its newline."""
    return _encoder.encode(event) + b"\n"


def decode(line: bytes) -> AnyEvent:
    """The event of one line. Raises msgspec.ValidationError or DecodeError."""
    return _decoder.decode(line)


class Emitter:
    """Writes the events of a run into a file; plain pytest has none."""

    def __init__(self, path: Path | None, *, began: float) -> None:
        """``path`` may be a file or a named pipe; ``began`` is the run's beginning on the monotonic clock."""
        self._file = path.open("ab", buffering=0) if path is not None else None
        self._began = began

    @property
    def now_s(self) -> float:
        """Seconds since the run began."""
        return round(time.monotonic() - self._began, 3)

    def __call__(self, event: AnyEvent) -> None:
        if self._file is not None:
            self._file.write(encode(event))
