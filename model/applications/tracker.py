"""Document 000 from its applications' side: all sources, subscriptions and programs of one example.

Here is what needs more than one of them: which topic is theirs, that its log was read after the last send, and which
operations have to end an example so that all is known. What each of them may count on is in
:mod:`model.applications.sources` (DEDUP-13, DEDUP-15), :mod:`model.applications.subscriptions` (DEDUP-16) and
:mod:`model.applications.programs` (DEDUP-17, DEDUP-18).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar, assert_never

from model.applications import programs, sources, subscriptions
from model.applications.programs import ProgramState, Scenario
from model.applications.sources import SourceState
from model.applications.subscriptions import ApplicationSubscription
from model.events import (
    AnyOutcome,
    Consumed,
    DatabaseRead,
    Drained,
    LoggedEntry,
    Ran,
    SourceEnded,
    SourceStarted,
    Stuck,
)
from model.judgement import Allowed, Broken, in_turn
from model.operations import (
    ApplicationOperation,
    Consume,
    CrashSource,
    Drain,
    FinishSource,
    ReadDatabase,
    RunReader,
    RunSubscriber,
    StartSource,
)
from model.vocabulary import Entry, Message, SubscriptionType

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Applications:
    """What is known of the applications of one example; subscriptions by topic and name, logs by topic."""

    sources: Mapping[str, SourceState] = field(default_factory=dict)
    subscriptions: Mapping[tuple[str, str], ApplicationSubscription] = field(default_factory=dict)
    kinds: Mapping[tuple[str, str], SubscriptionType] = field(default_factory=dict)
    programs: Mapping[str, ProgramState] = field(default_factory=dict)
    logs: Mapping[str, Sequence[LoggedEntry]] = field(default_factory=dict)
    """The whole log of a topic, where nothing was sent to it since it was read."""

    def has(self, topic: str) -> bool:
        """Whether this topic is one that sources write to."""
        return any(source.topic == topic for source in self.sources.values())

    def on(self, topic: str) -> dict[str, SourceState]:
        """The sources of a topic."""
        return {name: source for name, source in self.sources.items() if source.topic == topic}


Judgement = Allowed[Applications] | Broken


def judge(
    state: Applications, operation: ApplicationOperation, outcome: AnyOutcome, *, writes_may_fail: bool
) -> Judgement:
    """What this operation of an application, which was performed, leaves possible.

    ``writes_may_fail``: writes to its topic may, from now on.
    """
    match operation:
        case StartSource():
            return _source_started(state, operation, outcome, writes_may_fail=writes_may_fail)
        case FinishSource(name) | CrashSource(name):
            return _source_ended(state, name, outcome)
        case Consume() | Drain():
            return _received(state, operation, outcome)
        case RunReader(name, topic):
            return _ran(state, name, ProgramState(topic, "reader"), outcome)
        case RunSubscriber(name, topic):
            return _ran(state, name, ProgramState(topic, "subscriber"), outcome)
        case ReadDatabase(name):
            return _database_read(state, name, outcome)
        case _:
            assert_never(operation)


def _source_started(
    state: Applications, operation: StartSource, outcome: AnyOutcome, *, writes_may_fail: bool
) -> Judgement:
    if isinstance(outcome, Stuck):
        return sources.never_ended(operation.source, outcome.why)
    if not isinstance(outcome, SourceStarted):
        return Allowed(state)
    source = state.sources.get(operation.source, SourceState(operation.topic))
    source = sources.started(
        source,
        operation,
        outcome.told,
        is_undisturbed=not writes_may_fail,
    )
    through = {
        name: replace(program, is_through=program.is_through and program.topic != source.topic)
        for name, program in state.programs.items()
    }
    logs = {topic: log for topic, log in state.logs.items() if topic != source.topic}
    sent_to = {key: _if_on(source.topic, one, subscriptions.sent_to) for key, one in state.subscriptions.items()}
    state = replace(state, programs=through, logs=logs, subscriptions=sent_to)
    return Allowed(_with_source(state, operation.source, source))


def _source_ended(state: Applications, name: str, outcome: AnyOutcome) -> Judgement:
    if isinstance(outcome, Stuck):
        return sources.never_ended(name, outcome.why)
    if not isinstance(outcome, SourceEnded):
        return Allowed(state)
    judged = sources.ended(state.sources[name], name, outcome)
    return _put(judged, lambda new: _with_source(state, name, new))


def _with_source(state: Applications, name: str, source: SourceState) -> Applications:
    return replace(state, sources={**state.sources, name: source})


def _received(state: Applications, operation: Consume | Drain, outcome: AnyOutcome) -> Judgement:
    key = (operation.topic, operation.subscription)
    subscription = state.subscriptions.get(key, ApplicationSubscription(operation.topic))
    match operation, outcome:
        case _, Stuck():
            judged = subscriptions.starved(subscription, operation, outcome)
        case Consume(), Consumed(messages, acknowledged):
            state = replace(state, kinds={**state.kinds, key: operation.kind})
            judged = subscriptions.received(subscription, operation, messages, acknowledged)
        case Drain(), Drained(messages):
            log = state.logs.get(operation.topic)
            judged = subscriptions.drained(subscription, operation.subscription, messages, log)
        case _:
            return Allowed(state)
    return _put(judged, lambda new: replace(state, subscriptions={**state.subscriptions, key: new}))


def _ran(state: Applications, name: str, fresh: ProgramState, outcome: AnyOutcome) -> Judgement:
    program = state.programs.get(name, fresh)
    if isinstance(outcome, Stuck):
        return programs.got_stuck(program, name, outcome.why)
    if not isinstance(outcome, Ran):
        return Allowed(state)
    return Allowed(replace(state, programs={**state.programs, name: programs.ran(program, outcome)}))


def _database_read(state: Applications, name: str, outcome: AnyOutcome) -> Judgement:
    if not isinstance(outcome, DatabaseRead):
        return Allowed(state)
    program = state.programs[name]
    judged = programs.database_read(program, name, outcome.applied, state.logs.get(program.topic))
    return _put(judged, lambda new: replace(state, programs={**state.programs, name: new}))


def _put(judged: Allowed[T] | Broken, into: Callable[[T], Applications]) -> Judgement:
    return judged.then(lambda new: Allowed(into(new)))


def topic_without_lingering_writes(
    state: Applications, operation: ApplicationOperation, outcome: AnyOutcome
) -> str | None:
    """The topic on which this operation, being the end of a source's life, shows that all earlier writes have ended."""
    if not (isinstance(operation, FinishSource | CrashSource) and isinstance(outcome, SourceEnded)):
        return None
    source = state.sources[operation.source]
    return source.topic if sources.shows_that_writes_are_over(source, outcome) else None


def unloaded(state: Applications, topic: str | None = None, *, was_away: bool = False) -> Applications:
    """A topic, or, with None, all of them, was closed and is loaded again; ``was_away``: a broker's process was."""

    def source_moved(source: SourceState) -> SourceState:
        return sources.unloaded(source, was_away=was_away)

    return replace(
        state,
        sources={name: _if_on(topic, source, source_moved) for name, source in state.sources.items()},
        subscriptions={key: _if_on(topic, one, subscriptions.unloaded) for key, one in state.subscriptions.items()},
    )


def writes_may_fail(state: Applications, topic: str) -> Applications:
    """Failing writes were asked for on a topic."""
    changed = {name: _if_on(topic, source, sources.writes_may_fail) for name, source in state.sources.items()}
    return replace(state, sources=changed)


P = TypeVar("P", SourceState, ApplicationSubscription)


def _if_on(topic: str | None, one: P, change: Callable[[P], P]) -> P:
    return change(one) if topic in (None, one.topic) else one


def log_read(state: Applications, topic: str, entries: Sequence[LoggedEntry], *, deduplication: bool) -> Judgement:
    """The whole log of a topic was read; without deduplication nothing is promised to its sources."""

    def of_source(name: str) -> Callable[[Applications], Judgement]:
        found = [logged for logged in entries if logged.producer == name]
        return lambda before: sources.log_read(before.sources[name], name, found).then(
            lambda after: Allowed(_with_source(before, name, after))
        )

    read = replace(state, logs={**state.logs, topic: tuple(entries)})
    return in_turn(read, [of_source(name) for name in state.on(topic)] if deduplication else ())


# ------------------------------------------------------------------------------------------- how an example is ended


def settling(state: Callable[[], Applications], topic: str) -> Iterator[ApplicationOperation]:
    """The operations after which a topic's sources have nothing on the way any more.

    A source of which something is open lives once more, in order to send one message more: the broker lets it in only
    when it is through with its last life, and once that message is confirmed all writes before it have ended.
    """
    for name, source in state().on(topic).items():
        if source.is_running:
            yield FinishSource(name)
        source = state().sources[name]
        if not source.is_settled:
            last = Entry((Message(source.highest + 1, f"{name}-last"),))
            yield StartSource(name, topic, (last,), goes_on=source.goes_on)
            yield FinishSource(name)


def winding_up(state: Applications, topic: str) -> Iterator[ApplicationOperation]:
    """The operations that show, the topic's log being read, what its subscribers and programs have come to."""
    for key in state.subscriptions:
        if key[0] == topic:
            yield Drain(topic, key[1], state.kinds[key])
    for name, program in state.programs.items():
        if program.topic == topic:
            yield _run(program.scenario, name, topic)
            yield ReadDatabase(name)


def _run(scenario: Scenario, name: str, topic: str) -> RunReader | RunSubscriber:
    return RunReader(name, topic) if scenario == "reader" else RunSubscriber(name, topic)
