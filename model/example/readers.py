"""Judges readers (ACK-20), each operation by a function that is found by the type of the operation.

What a reader reads next follows from its own position and the log. Nothing that happens to subscriptions, the topic or
the broker moves the position: the reader continues there after it has reconnected.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import singledispatch
from itertools import takewhile

from model.cursors.log import Place, TopicLog
from model.events import AnyOutcome, Done, Starved
from model.example.state import Example, Judgement
from model.judgement import Allowed, Broken, in_turn
from model.operations import AnyOperation
from model.reader_operations import (
    AvailabilityRead,
    CloseReader,
    CutReader,
    HasMessageAvailable,
    MessagesRead,
    OpenReader,
    ReaderOpened,
    ReaderOperation,
    ReadNext,
    SeekReader,
)
from model.readers import Reader
from model.rules.catalogue import carries
from model.traffic import Delivery

EXERCISED = ("ACK-20",)


@dataclass(frozen=True, slots=True)
class PassedOver:
    """Evidence: a reader did not read these messages, which were next."""

    reader: str
    places: tuple[Place, ...]


@carries("ACK-20")
def judge(state: Example, operation: ReaderOperation, outcome: AnyOutcome) -> Judgement:
    """What a reader reads, and what it says is available."""
    return _judged(operation, state, outcome)


@singledispatch
def _judged(operation: AnyOperation, state: Example, outcome: AnyOutcome) -> Judgement:
    raise NotImplementedError(type(operation).__name__)


@_judged.register
def _(operation: OpenReader, state: Example, outcome: AnyOutcome) -> Judgement:
    return Allowed(_begun(state, operation.reader, operation.topic, outcome))


@_judged.register
def _(operation: SeekReader, state: Example, outcome: AnyOutcome) -> Judgement:
    reader = state.readers.get(operation.reader)
    return Allowed(state if reader is None else _begun(state, operation.reader, reader.topic, outcome))


def _begun(state: Example, name: str, topic: str, outcome: AnyOutcome) -> Example:
    if not isinstance(outcome, ReaderOpened):
        return state
    return state.with_reader(name, Reader(topic, Place(outcome.after, outcome.batch_index)))


@_judged.register
def _(operation: CutReader, state: Example, outcome: AnyOutcome) -> Judgement:  # noqa: ARG001 - its position stays
    return Allowed(state)


@_judged.register
def _(operation: CloseReader, state: Example, outcome: AnyOutcome) -> Judgement:
    if not isinstance(outcome, Done):
        return Allowed(state)
    return Allowed(
        replace(state, readers={name: one for name, one in state.readers.items() if name != operation.reader})
    )


@_judged.register
def _(operation: ReadNext, state: Example, outcome: AnyOutcome) -> Judgement:
    if operation.reader not in state.readers or not isinstance(outcome, MessagesRead | Starved):
        return Allowed(state)
    steps = [lambda before, one=one: _read(before, operation.reader, one) for one in outcome.messages]
    return in_turn(state, steps).then(lambda after: _ended(after, operation, len(outcome.messages)))


def _read(state: Example, name: str, message: Delivery) -> Judgement:
    """A reader read a message, which must be the next one."""
    reader, place = state.readers[name], Place(message.position, message.batch_index)
    if reader.has_passed(place):
        because = f"reader {name} reads {message.business_id} at {message.position} again, or out of order"
        return Broken("ACK-20", because)
    after = state.with_reader(name, replace(reader, after=place))
    log = _known_log(state, reader.topic)
    if log is None:
        return Allowed(after, excused=EXERCISED)
    if place not in reader.following(log):
        return Broken("ACK-20", f"reader {name} reads {message.business_id} at {message.position}, which was not sent")
    missing = _there(state, reader, takewhile(lambda expected: expected != place, reader.following(log)))
    if not missing:
        return Allowed(after, EXERCISED)
    because = f"reader {name} reads {message.business_id} next, and passes {_words(log, missing)} over"
    return Broken("ACK-20", because, evidence=PassedOver(name, tuple(missing))).passing_to(after)


def _ended(state: Example, operation: ReadNext, count: int) -> Judgement:
    """A reader read fewer messages than it asked for: there are no more."""
    name, reader = operation.reader, state.readers[operation.reader]
    log = _known_log(state, reader.topic)
    if count >= operation.count or log is None:
        return Allowed(state)
    missing = _there(state, reader, reader.following(log))
    if not missing:
        return Allowed(state, EXERCISED)
    because = f"reader {name} does not read {_words(log, missing)}"
    return Broken("ACK-20", because, evidence=PassedOver(name, tuple(missing))).passing_to(state)


@_judged.register
def _(operation: HasMessageAvailable, state: Example, outcome: AnyOutcome) -> Judgement:
    reader = state.readers.get(operation.reader)
    if reader is None or not isinstance(outcome, AvailabilityRead):
        return Allowed(state)
    log = _known_log(state, reader.topic)
    if log is None:
        return Allowed(state, excused=EXERCISED)
    missing = _there(state, reader, reader.following(log))
    if outcome.is_available == bool(missing):
        return Allowed(state, EXERCISED)
    if not missing and any(reader.following(log)):
        return Allowed(state, excused=EXERCISED)
    what = f"{_words(log, missing)} can be read" if missing else "there is none"
    because = f"reader {operation.reader} has {'a' if outcome.is_available else 'no'} message available, and {what}"
    return Broken("ACK-20", because, evidence=outcome).passing_to(state)


def _known_log(state: Example, topic: str) -> TopicLog | None:
    """A topic's log, if it is known."""
    tracked = state.consumption.topics.get(topic)
    return tracked.log if tracked is not None and tracked.is_sure else None


def _there(state: Example, reader: Reader, places: Iterable[Place]) -> list[Place]:
    """Those that cannot be deleted: readers keep no ledger that all subscriptions acknowledged, or that none has."""
    tracked, cursors = state.consumption.topics[reader.topic], state.consumption.cursors.items()
    if not tracked.is_trimmed:
        return list(places)
    is_kept = any(one.topic == reader.topic and cursor.durable for one, cursor in cursors)
    return [one for one in places if is_kept and one.position > tracked.trimmable]


def _words(log: TopicLog, missing: list[Place]) -> str:
    first = missing[0]
    name = log.entries[first.position][max(0, first.batch_index)]
    more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
    return f"{name} at {first.position}{more}"
