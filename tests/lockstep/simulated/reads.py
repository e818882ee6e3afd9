"""Requests that only read, on the simulated broker: those whose answer follows from a topic's log."""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch

from model.events import AnyOutcome, LoggedEntry, Refused, Skipped
from model.log import Position
from model.read_operations import (
    Answered,
    EntryRead,
    ExamineMessage,
    FindByTime,
    Inquire,
    MessageIdRead,
    ReadMessage,
    ReadRequest,
)

NO_ENTRY = Refused("404", "there is no such entry")
NO_MESSAGE = Skipped("no such message is known to be in the topic")
AFTER_ALL = Position(10**6, 0)


@singledispatch
def perform_read(operation: ReadRequest, log: Sequence[LoggedEntry]) -> AnyOutcome:
    """The answer to a read."""
    return Skipped("it is not simulated")


def _position(message: str | None, log: Sequence[LoggedEntry]) -> Position | None:
    names = ((one.position, [message.business_id for message in one.entry.messages]) for one in log)
    return next((position for position, ids in names if message in ids), None)


@perform_read.register
def _(operation: ReadMessage, log: Sequence[LoggedEntry]) -> AnyOutcome:
    if operation.message is None:
        return NO_ENTRY
    position = _position(operation.message, log)
    return NO_MESSAGE if position is None else EntryRead(position)


@perform_read.register
def _(operation: ExamineMessage, log: Sequence[LoggedEntry]) -> AnyOutcome:
    if operation.nth > len(log):
        return NO_ENTRY
    return EntryRead(log[-operation.nth if operation.from_end else operation.nth - 1].position)


@perform_read.register
def _(operation: FindByTime, log: Sequence[LoggedEntry]) -> AnyOutcome:
    if operation.message is None:
        return MessageIdRead(AFTER_ALL, None)
    position = _position(operation.message, log)
    return NO_MESSAGE if position is None else MessageIdRead(position, position)


@perform_read.register
def _(operation: Inquire, log: Sequence[LoggedEntry]) -> AnyOutcome:
    last = log[-1].position if log and operation.about == "last message id" else None
    return Skipped("it is not simulated") if operation.about == "subscriptions" else Answered(position=last)
