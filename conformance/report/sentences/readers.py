"""Readers in words, each operation and outcome by a function that is found by its type."""

from __future__ import annotations

from functools import singledispatch

from conformance.report.sentences.lists import count, joined
from model.reader_operations import (
    AvailabilityRead,
    CloseReader,
    CutReader,
    HasMessageAvailable,
    MessagesRead,
    OpenReader,
    ReaderOpened,
    ReaderOperation,
    ReaderOutcome,
    ReadNext,
    SeekReader,
)


@singledispatch
def action(operation: ReaderOperation) -> str:
    """What a reader does, as the rest of a sentence."""
    raise NotImplementedError(type(operation).__name__)


@singledispatch
def outcome_in_words(outcome: ReaderOutcome) -> str:
    """What happened."""
    raise NotImplementedError(type(outcome).__name__)


@action.register
def _(operation: OpenReader) -> str:
    queue = f", with a receiver queue of {operation.queue}" if operation.queue else ""
    if operation.at is None:
        return f"opens on topic {operation.topic}, at its {_END[operation.start]}{queue}"
    return f"opens on topic {operation.topic}, {_at(operation.at, operation.is_inclusive)}{queue}"


_END = {"earliest": "beginning", "latest": "end"}


def _at(name: str, is_inclusive: bool) -> str:
    return f"at {name}, which is included" if is_inclusive else f"after {name}"


@outcome_in_words.register
def _(outcome: ReaderOpened) -> str:
    within = "" if outcome.batch_index < 0 else f", batch index {outcome.batch_index}"
    return "at the beginning" if outcome.after.ledger < 0 else f"after {outcome.after}{within}"


@action.register
def _(operation: ReadNext) -> str:
    return f"reads {count(operation.count, 'message', 'messages')}"


@outcome_in_words.register
def _(outcome: MessagesRead) -> str:
    return joined([f"{one.business_id} at {one.position}" for one in outcome.messages]) or "nothing"


@action.register
def _(operation: HasMessageAvailable) -> str:  # noqa: ARG001 - it has no more to say
    return "asks whether a message is available"


@outcome_in_words.register
def _(outcome: AvailabilityRead) -> str:
    last = "there is no message" if outcome.last is None else f"the last message id is {outcome.last}"
    return f"{'yes' if outcome.is_available else 'no'}: {last}"


@action.register
def _(operation: SeekReader) -> str:
    return "seeks to the beginning" if operation.to is None else f"seeks {_to(operation.to, operation.is_inclusive)}"


def _to(name: str, is_inclusive: bool) -> str:
    return f"to {name}, which is included" if is_inclusive else f"to after {name}"


@action.register
def _(operation: CutReader) -> str:  # noqa: ARG001 - it has no more to say
    return "loses its connection"


@action.register
def _(operation: CloseReader) -> str:  # noqa: ARG001 - it has no more to say
    return "closes"
