"""Histories and runs to judge and to tell: small, made by hand, with one of everything."""

from __future__ import annotations

from conformance.events import (
    AnyEvent,
    ExampleFinished,
    ReplayedSoundly,
    RunFinished,
    RunStarted,
    RunStopped,
    Stage,
    ViolationFound,
    ViolationMinimised,
)
from conformance.history.document import History, Step, Violation
from conformance.known import KnownDeviation
from model.events import (
    Answer,
    AnyOutcome,
    Created,
    Done,
    Duplicate,
    Late,
    LoggedEntry,
    LogRead,
    Opened,
    Sent,
    Stored,
    Unknown,
)
from model.log import Position
from model.operations import AnyOperation, CrashProducer, CreateTopic, Kill, OpenProducer, ReadLog, Send
from model.vocabulary import Entry, Message

STARTED = RunStarted(
    at_s=5.0,
    release="4.0.8",
    broker="4.0.8",
    clients={"wire": "0.1.0", "official": "3.13.0"},
    seed=7,
    budget_s=240.0,
    rules=("DEDUP-01", "DEDUP-03"),
    machines=("Deduplication",),
    settings={"brokerDeduplicationEntriesInterval": "5"},
)

VIOLATION = Violation(
    rule="DEDUP-03",
    because="sequence id 4 of producer p0 was stored again at 3:2 although it stands at 3:1",
    step=8,
    evidence=("3:1 p0 4 (b4)", "3:2 p0 4 (b4)"),
)

FOUND = ViolationFound(
    at_s=9.0, machine="Deduplication", violation=VIOLATION, history="histories/1.json", operations=120
)

MINIMISED = ViolationMinimised(
    at_s=11.0,
    original="histories/1.json",
    history="histories/1-minimal.json",
    steps=8,
    tries=5,
    came_back=4,
    broke_in=1,
    checked_in=2,
    stages=(
        Stage(name="recording", seconds=0.4, candidates=77, steps=7),
        Stage(name="broker", seconds=31.2, candidates=12, runs=40, steps=8),
    ),
)

INTERRUPTED = RunStopped(at_s=12.0, why="interrupted", sentence="The run was interrupted after 12 s.")

REPLAYED_SOUNDLY = ReplayedSoundly(at_s=12.0, original="histories/1.json", tries=6, came_back=0)

QUIRK = KnownDeviation(
    name="batch-without-highest-id",
    rule="DEDUP-03",
    releases=(">=3.0,<4.1",),
    summary="A duplicate that is sent while its topic is unloaded is stored again",
    cause="the check is skipped until the snapshot is there",
)


OTHER_QUIRK = KnownDeviation(
    name="deduplication-enabled-in-flight",
    rule="DEDUP-03",
    releases=(">=3.0,<4.1",),
    summary="What was on its way when deduplication was switched on is stored again",
    cause="only one of two maps has it",
)


def finished(at_s: float = 20.0, operations: int = 500) -> RunFinished:
    """The last event of a run that ended by itself."""
    return RunFinished(at_s=at_s, operations=operations)


def example(at_s: float = 8.0, *, operations: int = 50, deviations: int = 0, **exercised: int) -> ExampleFinished:
    """An example that exercised rules, written ``DEDUP_01=3``, and met the quirk so many times."""
    return ExampleFinished(
        at_s=at_s,
        machine="Deduplication",
        operations=operations,
        exercised={rule.replace("_", "-"): times for rule, times in exercised.items()},
        deviations={QUIRK.name: deviations} if deviations else {},
    )


def run(*events: AnyEvent) -> list[AnyEvent]:
    """A whole run, with these events between its first and its last."""
    return [STARTED, *events, finished()]


def entry(*ids: int) -> Entry:
    """An entry of messages with these sequence ids, whose business ids are b and the number."""
    return Entry(tuple(Message(number, f"b{number}") for number in ids))


def history(*steps: Step, violation: Violation | None = VIOLATION) -> History:
    """A history of these steps, or else of the sample ones."""
    return History(
        machine="Deduplication",
        release="4.0.8",
        broker="4.0.8",
        clients=STARTED.clients,
        seed=7,
        settings=STARTED.settings,
        steps=steps or STEPS,
        violation=violation,
        minimal=True,
    )


def step(operation: AnyOperation, outcome: AnyOutcome | None = None, late: tuple[Late, ...] = ()) -> Step:
    """A step that took a millisecond."""
    return Step(operation=operation, outcome=outcome or Done(), invoked_ms=1.0, completed_ms=2.0, late=late)


def answers(*answers: Answer) -> Sent:
    """The answers to a send."""
    return Sent(answers)


STEPS = (
    step(CreateTopic("t0", "namespace-on"), Created(deduplication=True, snapshot_room=10)),
    step(OpenProducer("s1", "t0", "p0", "wire"), Opened(-1)),
    step(Send("s1", (entry(3),)), answers(Stored(Position(3, 0)))),
    step(Send("s1", (entry(4), entry(5, 6, 7)), wait=False), answers()),
    step(
        CrashProducer("s1"),
        late=(Late("s1", (Stored(Position(3, 1)), Unknown("the connection was cut before the answer"))),),
    ),
    step(Kill()),
    step(OpenProducer("s2", "t0", "p0", "official"), Opened(None)),
    step(Send("s2", (entry(4),)), answers(Stored(Position(3, 2)))),
    step(Send("s2", (entry(3),)), answers(Duplicate())),
    step(
        ReadLog("t0"),
        LogRead((LoggedEntry(Position(3, 0), "p0", entry(3)), LoggedEntry(Position(3, 1), "p0", entry(4)))),
    ),
)
"""A duplicate is stored again after a crash and a kill."""
