"""Holes between acknowledgments in words, each operation and outcome by a function that is found by its type."""

from __future__ import annotations

from functools import singledispatch

from conformance.report.sentences.lists import count
from model.hole_operations import HoleOperation, HoleOutcome, HolesMade, HolesReceived, MakeHoles, ReceiveHoles


@singledispatch
def action(operation: HoleOperation) -> str:
    """What the suite does, as the rest of a sentence."""
    raise NotImplementedError(type(operation).__name__)


@singledispatch
def outcome_in_words(outcome: HoleOutcome) -> str:
    """What happened."""
    raise NotImplementedError(type(outcome).__name__)


@action.register
def _(operation: MakeHoles) -> str:
    sends = (
        f"sends {count(operation.count, 'message', 'messages')} beside topic {operation.topic}, and "
        if operation.count
        else ""
    )
    waits = ", and waits until this is persisted" if operation.awaits else ""
    which = "all messages" if operation.stride == 1 else f"one of {operation.stride} messages"
    return f"{sends}acknowledges {which} beside topic {operation.topic}, from number {operation.first} on{waits}"


@outcome_in_words.register
def _(outcome: HolesMade) -> str:
    persisted = ", persisted" if outcome.is_persisted else ""
    messages = count(sum(outcome.ledgers), "message", "messages")
    return f"{messages} in {count(len(outcome.ledgers), 'ledger', 'ledgers')}{persisted}"


@action.register
def _(operation: ReceiveHoles) -> str:
    return f"receives what is unacknowledged beside topic {operation.topic}, by a new consumer"


@outcome_in_words.register
def _(outcome: HolesReceived) -> str:
    received = sum(one.count for one in outcome.received)
    cut_short = ", then nothing more" if outcome.is_cut_short else ""
    return f"{received} of {count(sum(outcome.ledgers), 'message', 'messages')}{cut_short}"
