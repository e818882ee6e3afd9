"""Requests that only read, in words, each by a function that is found by the type of the operation or the outcome."""

from __future__ import annotations

from functools import singledispatch

from conformance.report.sentences.lists import count, joined
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
    ReadAnswer,
    ReadInternals,
    ReadMessage,
    ReadRequest,
)


@singledispatch
def action(operation: ReadRequest) -> str:
    """What an administrator asks for, as the rest of a sentence."""
    raise NotImplementedError(type(operation).__name__)


@singledispatch
def outcome_in_words(outcome: ReadAnswer) -> str:
    """The broker's answer."""
    raise NotImplementedError(type(outcome).__name__)


@action.register
def _(operation: AnalyzeBacklog) -> str:
    return f"has the backlog of {operation.subscription} of topic {operation.topic} analyzed"


@outcome_in_words.register
def _(outcome: BacklogAnalyzed) -> str:
    words = f"{count(outcome.entries, 'entry', 'entries')} with {count(outcome.messages, 'message', 'messages')}"
    return f"{words}; not all was read" if outcome.is_aborted else words


@action.register
def _(operation: ReadMessage) -> str:
    what = "the entry after the last one" if operation.message is None else operation.message
    return f"reads {what} of topic {operation.topic} by its id"


@action.register
def _(operation: ExamineMessage) -> str:
    end = "end" if operation.from_end else "beginning"
    return f"examines entry {operation.nth} of topic {operation.topic}, counted from the {end}"


@outcome_in_words.register
def _(outcome: EntryRead) -> str:
    return f"entry {outcome.position}"


@action.register
def _(operation: FindByTime) -> str:
    time = "after all messages" if operation.message is None else f"of {operation.message}"
    return f"asks for the first message id of topic {operation.topic} at the time {time}"


@outcome_in_words.register
def _(outcome: MessageIdRead) -> str:
    return str(outcome.position)


@action.register
def _(operation: ReadInternals) -> str:
    return f"reads the internal stats of topic {operation.topic}, with its ledgers"


@outcome_in_words.register
def _(outcome: InternalsRead) -> str:
    entries = count(outcome.entries, "entry", "entries")
    return f"{entries}, the last at {outcome.last}; cursors: {joined(list(outcome.cursors)) or 'none'}"


@action.register
def _(operation: Inquire) -> str:
    return f"asks for the {operation.about} of topic {operation.topic}"


@outcome_in_words.register
def _(outcome: Answered) -> str:
    if outcome.position is not None:
        return str(outcome.position)
    return joined(list(outcome.names)) or "answered"
