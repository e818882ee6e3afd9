"""Expiry by time in words, each operation and outcome by a function that is found by its type."""

from __future__ import annotations

from functools import singledispatch

from conformance.report.sentences.lists import count, joined
from model.expiry_operations import ExpireOlder, ExpiryAnswer, ExpiryRequest, OlderExpired, SetTtl, TtlSet


@singledispatch
def action(operation: ExpiryRequest) -> str:
    """What an administrator asks for, as the rest of a sentence."""
    raise NotImplementedError(type(operation).__name__)


@singledispatch
def outcome_in_words(outcome: ExpiryAnswer) -> str:
    """What happened."""
    raise NotImplementedError(type(outcome).__name__)


@action.register
def _(operation: SetTtl) -> str:
    of = "topic" if operation.scope == "topic" else "the namespace of topic"
    if operation.seconds is None:
        return f"removes the message TTL of {of} {operation.topic}"
    return f"sets the message TTL of {of} {operation.topic} to {operation.seconds} s"


@outcome_in_words.register
def _(outcome: TtlSet) -> str:
    late = "" if outcome.is_over else ", and the broker's period is not over"
    return f"{_left(outcome.not_expired)}{late}"


@action.register
def _(operation: ExpireOlder) -> str:
    of = "all subscriptions" if operation.subscription is None else operation.subscription
    return f"expires the messages of {of} of topic {operation.topic} that are older than {operation.seconds} s"


@outcome_in_words.register
def _(outcome: OlderExpired) -> str:
    return _left(outcome.not_expired)


def _left(not_expired: dict[str, int]) -> str:
    if not not_expired:
        return "no older message is left"
    left = [f"{count(number, 'entry', 'entries')} of {name}" for name, number in not_expired.items()]
    return f"did not expire: {joined(left)}"
