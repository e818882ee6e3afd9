"""Checks that a history makes sense before a broker is started to replay it.

A file may have the form of a history and still be impossible: negative counts, an entry without a message, a session
that is never opened. A shortened history lacks operations; steps that refer to these were skipped when it was
performed. So an undefined name is nonsense only in a step that was not skipped.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, Final

import msgspec

from conformance.history.document import History, Step
from model.cluster_operations import LABELS
from model.events import Skipped
from model.key_shared.hashes import STICKY_HASHES
from model.log import Position
from model.operations import (
    AnyOperation,
    Consume,
    CrashSource,
    CreateTopic,
    FinishSource,
    HoldAfterSends,
    OpenProducer,
    RunReader,
    RunSubscriber,
    Send,
    SendToFrozen,
    StartSource,
)
from model.rules import names
from model.rules.catalogue import LISTED_BY, RULES
from model.subscription_operations import Subscribe
from model.vocabulary import ChunkNumber, Entry, partition_name

LARGEST: Final = 2**63 - 1
"""The largest number of the protocol."""

MOST: Final = {"sequence_id": LARGEST, "size_bytes": 2**27, "partitions": 1000, "clusters": len(LABELS)}
"""The largest number of an operation, by field."""
MOST_MS: Final = 600_000
"""The same for times in milliseconds."""
MOST_OTHERWISE: Final = 10**6
"""The same for all other numbers."""

FROM_ONE: Final = {"chunks", "clusters", "message", "times"}
"""Fields that count from one; all others count from zero."""

FROM_EITHER_END: Final = {"nth", "later_ms"}
"""Fields that count from either end, or in either direction."""

OF_POSITIONS: Final = {field.name for field in fields(Position)}
"""The fields of positions: -1 is before the first one."""

NAMED: Final = {kind: kind for kind in ("topic", "session", "consumer", "program")}
"""The kinds of the names in operations, by field."""

OF_CLUSTERS: Final = {"cluster", "target", "by"}
"""The fields of operations with labels of clusters; the source of a link has one, too."""

Name = tuple[str, str]
"""A kind, and a name of it."""


def nonsense(history: History) -> str | None:
    """The first problem of a history, as a predicate for its path; None without one."""
    if not history.steps:
        return "has no steps: there is nothing to replay"
    if all(isinstance(step.outcome, Skipped) for step in history.steps):
        return "has skipped steps only: there is nothing to replay"
    return next(_complaints(history), None)


def made_by(step: Step) -> frozenset[Name]:
    """The names that exist after a step."""
    return frozenset(_made(step.operation))


def used_by(step: Step) -> frozenset[Name]:
    """The names that a step needs; none if it was skipped."""
    return frozenset() if isinstance(step.outcome, Skipped) else frozenset(_used(step.operation))


def _complaints(history: History) -> Iterator[str]:
    yield from _of_the_whole(history)
    made = {name for step in history.steps for name in made_by(step)}
    for number, step in enumerate(history.steps, start=1):
        for what in _of_a_step(step, made):
            yield f"makes no sense in step {number} ({type(step.operation).__name__}): {what}"


def _of_the_whole(history: History) -> Iterator[str]:
    violation = history.violation
    if violation is not None and violation.rule not in RULES:
        yield f"breaks a rule that is not known: {names.unknown('rule', violation.rule, RULES, listed_by=LISTED_BY)}"
    if violation is not None and not 1 <= violation.step <= len(history.steps):
        yield f"says that its step {violation.step} breaks a rule, and has {len(history.steps)} steps"
    if not 0 <= history.seed <= LARGEST:
        yield f"has the seed {history.seed}, which no run can have"
    replays = history.replays
    if replays is not None and not 0 <= replays.came_back <= replays.tries:
        yield f"says that it came back {replays.came_back} times in {replays.tries} replays"
    for name, value in history.settings.items():
        if not name or not (name + value).isprintable():
            yield f"has a setting that is no line of a configuration: {name!r} = {value!r}"


def _of_a_step(step: Step, made: set[Name]) -> Iterator[str]:
    if not (math.isfinite(step.completed_ms) and 0 <= step.invoked_ms <= step.completed_ms):
        yield f"it ends at {step.completed_ms:g} ms and begins at {step.invoked_ms:g} ms"
    for field, number in _numbers(step.operation):
        most = _most(field)
        least = -most if field in FROM_EITHER_END else int(field in FROM_ONE)
        if not least <= number <= most:
            yield f"{field} is {number}, which is not between {least} and {most}"
    for value in _values(step.operation):
        yield from _of_a_value(value)
    for field, number in _numbers((step.outcome, *step.late)):
        if abs(number) > LARGEST or (field in OF_POSITIONS and number < -1):
            yield f"{field} is {number} in its outcome"
    if isinstance(step.outcome, Skipped):
        return
    for label in _clusters(step.operation):
        if label not in LABELS:
            yield f"there is no cluster {label!r}; there are: {', '.join(LABELS)}"
    for kind, name in sorted(used_by(step) - made):
        yield f"no operation of the history makes the {kind} {name!r}"


def _of_a_value(value: Any) -> Iterator[str]:
    match value:
        case Entry(messages=()):
            yield "an entry has no message"
        case Send(entries=()) | SendToFrozen(entries=()) | HoldAfterSends(entries=()):
            yield "it sends no entry"
        case ChunkNumber(chunk_id=chunk_id, chunks=chunks) if chunk_id >= chunks:
            yield f"chunk_id is {chunk_id}, of {chunks} chunks"
        case Subscribe(sticky=sticky):
            for first, last in sticky:
                if not STICKY_HASHES.first <= first <= last <= STICKY_HASHES.last:
                    yield f"{first} to {last} is no range of hashes"
        case _:
            pass


def _most(field: str) -> int:
    return MOST.get(field, MOST_MS if field.endswith("_ms") else MOST_OTHERWISE)


def _made(operation: AnyOperation) -> Iterator[Name]:
    """The names that an operation makes."""
    match operation:
        case CreateTopic(topic=topic, partitions=partitions):
            yield "topic", topic
            for number in range(min(partitions, MOST["partitions"])):
                yield "topic", partition_name(topic, number)
            yield "topic", topic
        case OpenProducer(session=session):
            yield "session", session
        case Subscribe(consumer=consumer):
            yield "consumer", consumer
        case Consume(consumer=consumer):
            yield "consumer", consumer
        case RunReader(program=program) | RunSubscriber(program=program):
            yield "program", program
        case StartSource(source=source):
            yield "source", source
        case _:
            pass


def _used(operation: AnyOperation) -> Iterator[Name]:
    """The names that an operation uses, including those that it makes."""
    if isinstance(operation, FinishSource | CrashSource):
        yield "source", operation.source
    for value in _values(operation):
        for field, content in _fields(value):
            if field in NAMED and isinstance(content, str):
                yield NAMED[field], content


def _clusters(operation: AnyOperation) -> Iterator[str]:
    for field, content in _fields(operation):
        if (field in OF_CLUSTERS and content is not None) or (field == "source" and hasattr(operation, "target")):
            yield from content if isinstance(content, tuple) else (content,)


def _numbers(value: Any) -> Iterator[tuple[str, int]]:
    """Every integer in a value, with its field."""
    for each in _values(value):
        for field, content in _fields(each):
            for number in content if isinstance(content, tuple) else (content,):
                if isinstance(number, int) and not isinstance(number, bool):
                    yield field, number


def _values(value: Any) -> Iterator[Any]:
    """A value, and all values in it that have fields."""
    if isinstance(value, tuple):
        for part in value:
            yield from _values(part)
    elif isinstance(value, dict):
        for part in value.values():
            yield from _values(part)
    elif isinstance(value, msgspec.Struct) or is_dataclass(value):
        yield value
        for _, content in _fields(value):
            yield from _values(content)


def _fields(value: Any) -> Iterator[tuple[str, Any]]:
    listed = (field.name for field in fields(value)) if is_dataclass(value) else value.__struct_fields__
    for name in listed:
        yield name, getattr(value, name)
