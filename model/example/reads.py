"""Judges the requests that only read (SERVE-08), each by a function that is found by the type of the operation.

An answer is compared with the state. That a read changed nothing is judged by all other rules: if one of them breaks
right after a read of the topic, it is SERVE-08.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import replace
from functools import singledispatch
from typing import Final

from model.cursors.log import TopicLog
from model.events import AnyOutcome, Refused, Skipped
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Allowed, Broken
from model.log import EARLIEST
from model.operations import AnyOperation
from model.read_operations import (
    AnalyzeBacklog,
    Answered,
    BacklogAnalyzed,
    EntryRead,
    ExamineMessage,
    FindByTime,
    Inquire,
    InternalsRead,
    MessageIdRead,
    ReadInternals,
    ReadMessage,
    ReadRequest,
)
from model.rules.catalogue import carries
from model.service.refusals import NO_REASON
from model.subscription_operations import PeekMessage, Permit, Receive, ReceiveDue
from model.subscriptions.state import TrackedTopic, upper
from model.vocabulary import SubscriptionId

SERVE: Final = ("SERVE-01", "SERVE-02", "SERVE-05", "SERVE-06", "SERVE-07", "SERVE-08", "SERVE-09")
"""The rules that keep their names right after a read: they are about answers, connections, access, lost processes."""
EXERCISED: Final = ("SERVE-08",)


# ------------------------------------------------------------------------------------------------------------- answers


@carries("SERVE-08")
def judge(state: Example, operation: ReadRequest, outcome: AnyOutcome) -> Judgement:
    """The answer to a read. What exists is not refused, and what does not exist is refused as documented."""
    if isinstance(outcome, Refused):
        if outcome.code in NO_REASON:
            because = f"{_words(operation)} is refused with {outcome.code}: {outcome.message}"
            return Broken("SERVE-01", because, evidence=outcome).passing_to(state)
        if _may_be_refused(operation, state):
            return Allowed(state, EXERCISED)
        return Broken("SERVE-08", f"{_words(operation)} is refused: {outcome.code}, {outcome.message}")
    judged = _answer(operation, state, outcome)
    return judged.then(lambda _: Allowed(state))


@singledispatch
def _answer(operation: AnyOperation, state: Example, outcome: AnyOutcome) -> Allowed[None] | Broken:
    raise NotImplementedError(type(operation).__name__)


@_answer.register
def _(operation: AnalyzeBacklog, state: Example, outcome: AnyOutcome) -> Allowed[None] | Broken:
    """It counts the unacknowledged entries, and their messages: of a batch all, or those that are unacknowledged."""
    subscription = SubscriptionId(operation.topic, operation.subscription)
    cursor, log = state.consumption.cursors.get(subscription), _known_log(state, operation.topic)
    if not isinstance(outcome, BacklogAnalyzed) or outcome.is_aborted or cursor is None or log is None:
        return Allowed(None, excused=EXERCISED)
    possible = cursor.possible
    fewest = {upper(one, cursor, log) for one in possible}
    entries = min(one.count_left(log) for one in fewest), max(one.count_left(log) for one in possible)
    least = min(sum(1 for _ in one.messages_left(log)) for one in fewest)
    most = max(sum(log.size(position) for position in one.unacknowledged(log)) for one in possible)
    shown = f"the analysis of the backlog of {operation.subscription} counts"
    if not entries[0] <= outcome.entries <= entries[1]:
        return Broken("SERVE-08", f"{shown} {outcome.entries} entries, and {_between(entries)} are unacknowledged")
    if not least <= outcome.messages <= most:
        return Broken("SERVE-08", f"{shown} {outcome.messages} messages, and there are {_between((least, most))}")
    return Allowed(None, EXERCISED)


@_answer.register
def _(operation: ReadMessage, state: Example, outcome: AnyOutcome) -> Allowed[None] | Broken:
    log = _known_log(state, operation.topic)
    if not isinstance(outcome, EntryRead) or log is None:
        return Allowed(None, excused=EXERCISED)
    if operation.message is None:
        return Broken("SERVE-08", f"an entry that does not exist is read: {outcome.position}")
    place = log.places.get(operation.message)
    if place is None:
        return Allowed(None, excused=EXERCISED)
    if place.position != outcome.position:
        return Broken("SERVE-08", f"{operation.message} is at {place.position}, and {outcome.position} was read")
    return Allowed(None, EXERCISED)


@_answer.register
def _(operation: ExamineMessage, state: Example, outcome: AnyOutcome) -> Allowed[None] | Broken:
    """If the log has fewer entries, brokers answer with its last one, or refuse."""
    log = _known_log(state, operation.topic)
    if not isinstance(outcome, EntryRead) or log is None:
        return Allowed(None, excused=EXERCISED)
    entries = list(log.all_after(EARLIEST))
    if operation.nth > len(entries):
        is_there = outcome.position in entries
    else:
        is_there = outcome.position == entries[-operation.nth if operation.from_end else operation.nth - 1]
    if not is_there:
        return Broken("SERVE-08", f"{_words(operation)} reads {outcome.position}, which is another entry")
    return Allowed(None, EXERCISED)


@_answer.register
def _(operation: FindByTime, state: Example, outcome: AnyOutcome) -> Allowed[None] | Broken:
    log = _known_log(state, operation.topic)
    is_unclear = log is None or state.consumption.topics[operation.topic].is_reopened
    if not isinstance(outcome, MessageIdRead) or outcome.first is None or is_unclear:
        return Allowed(None, excused=EXERCISED)
    if outcome.position != outcome.first:
        what = f"{outcome.first} is the first entry with the publish time of {operation.message} or a later one"
        return Broken("SERVE-08", f"{what}, and the broker answers {outcome.position}")
    return Allowed(None, EXERCISED)


@_answer.register
def _(operation: ReadInternals, state: Example, outcome: AnyOutcome) -> Allowed[None] | Broken:
    log = _known_log(state, operation.topic)
    if not isinstance(outcome, InternalsRead) or log is None:
        return Allowed(None, excused=EXERCISED)
    entries = log.count_after(EARLIEST)
    # By the documentation of the stats, entry -1 means that a later ledger is open and no entry has been written to it.
    is_last = outcome.last == log.last or (outcome.last.entry == -1 and outcome.last.ledger > log.last.ledger)
    if outcome.entries != entries or (entries and not is_last):
        shown = f"{outcome.entries} entries, the last at {outcome.last}"
        return Broken("SERVE-08", f"the internal stats show {shown}, and there are {entries}, the last at {log.last}")
    return _listed(state, operation.topic, outcome.cursors)


@_answer.register
def _(operation: Inquire, state: Example, outcome: AnyOutcome) -> Allowed[None] | Broken:
    if not isinstance(outcome, Answered):
        return Allowed(None, excused=EXERCISED)
    if operation.about == "subscriptions":
        return _listed(state, operation.topic, outcome.names)
    log = _known_log(state, operation.topic)
    if outcome.position is not None and log is not None and log.ledgers and outcome.position != log.last:
        return Broken("SERVE-08", f"the last message id is said to be {outcome.position}, and it is {log.last}")
    return Allowed(None, EXERCISED)


def _listed(state: Example, topic: str, names: Iterable[str]) -> Allowed[None] | Broken:
    """All durable subscriptions are listed, and none that was deleted."""
    durable = (one.name for one, cursor in state.consumption.cursors.items() if one.topic == topic and cursor.durable)
    missing = sorted(set(durable).difference(names))
    if missing:
        return Broken("SERVE-08", f"subscription {missing[0]} of {topic} is not listed")
    return Allowed(None, EXERCISED)


def _known_log(state: Example, topic: str) -> TopicLog | None:
    """A topic's log, if all of it is known and there: without markers, and not trimmed."""
    tracked: TrackedTopic | None = state.consumption.topics.get(topic)
    is_known = tracked is not None and tracked.is_sure and not (tracked.is_trimmed or tracked.log.has_markers)
    return tracked.log if tracked is not None and is_known else None


def _may_be_refused(operation: ReadRequest, state: Example) -> bool:
    match operation:
        case ReadMessage(message=message):
            return message is None or _known_log(state, operation.topic) is None
        case ExamineMessage(nth=nth):
            log = _known_log(state, operation.topic)
            return log is None or nth > log.count_after(EARLIEST)
        case AnalyzeBacklog(topic, subscription):
            return (topic, subscription) not in state.consumption.cursors
        case FindByTime():
            return _known_log(state, operation.topic) is None
        case Inquire(about=about):
            return about in ("schema", "schema versions", "topic policy")
        case ReadInternals():
            return False


# --------------------------------------------------------------------------------------------------- what happens later


@carries("SERVE-08")
def right_after_read(state: Example, step: Step, broken: Broken) -> Broken:
    """A read changes nothing. What breaks right after one of a topic, on that topic, breaks this rule."""
    if broken.deviation is not None or broken.rule in SERVE:
        return broken
    read = _read_before(state, _topics_of(state, step.operation))
    if read is None:
        return broken
    because = f"right after a request that only reads ({_words(read)}): {broken.because} ({broken.rule})"
    return replace(broken, rule="SERVE-08", because=because)


def _read_before(state: Example, topics: Set[str]) -> ReadRequest | PeekMessage | None:
    """The last read of one of these topics, if nothing but deliveries and looks followed."""
    for past in state.trace:
        operation = past.step.operation
        if isinstance(past.step.outcome, Skipped) or topics.isdisjoint(_topics_of(past.before, operation)):
            continue
        if isinstance(operation, ReadRequest | PeekMessage):
            return operation
        if not operation.is_look and not isinstance(operation, Receive | ReceiveDue | Permit):
            return None
    return None


def _topics_of(state: Example, operation: AnyOperation) -> frozenset[str]:
    """The topics that an operation is about: all of them if it names none, as a kill."""
    if operation.topic is not None:
        return frozenset((operation.topic, *state.consumption.parts_of(operation.topic)))
    actor = operation.actor or ""
    if (consumer := state.consumption.consumers.get(actor)) is not None:
        return frozenset(consumer.topics)
    session = state.sessions.get(actor)
    return frozenset(state.topics) if session is None else frozenset({session.topic})


def _between(bounds: tuple[int, int]) -> str:
    return str(bounds[0]) if bounds[0] == bounds[1] else f"{bounds[0]} to {bounds[1]}"


def _words(operation: ReadRequest | PeekMessage) -> str:
    match operation:
        case PeekMessage(subscription=subscription):
            return f"a peek at {subscription}"
        case AnalyzeBacklog(subscription=subscription):
            return f"the analysis of the backlog of {subscription}"
        case ReadMessage(message=message):
            return "the read of an entry that does not exist" if message is None else f"the read of {message}"
        case ExamineMessage(nth=nth, from_end=from_end):
            return f"the examination of entry {nth} from the {'end' if from_end else 'beginning'}"
        case FindByTime():
            return "the look-up of a message id by time"
        case ReadInternals():
            return "the read of internal stats"
        case Inquire(about=about):
            return f"the inquiry about the {about}"
