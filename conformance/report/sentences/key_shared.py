"""Document 004 in words: permits, and what was gathered of a Key_Shared subscription."""

from __future__ import annotations

from typing import assert_never

from conformance.report.sentences.consumption import messages_in_words
from conformance.report.sentences.lists import count, joined
from conformance.report.sentences.participants import SUITE, Cast
from model.events import ConsumerRead, DueReceived
from model.subscription_operations import KeyOperation, Permit, ReceiveDue


def deed(operation: KeyOperation, cast: Cast) -> tuple[str, str, str]:
    """The actor's short name, the actor as the subject of a sentence, and the rest of that sentence."""
    match operation:
        case Permit(consumer=consumer, count=number):
            permits = count(number, "message more", "messages more")
            return consumer, cast.consumer(consumer), f"permits the broker to send it {permits}"
        case ReceiveDue(topic=topic, subscription=subscription):
            return (
                SUITE,
                "the suite",
                f"gathers what subscription {subscription} of topic {topic} sends to its consumers",
            )
        case _:
            assert_never(operation)


def outcome_in_words(outcome: DueReceived) -> str:
    """What came of an operation of document 004."""
    return "; ".join(_consumer(read) for read in outcome.consumers) or "nobody is there"


def _consumer(read: ConsumerRead) -> str:
    left = f"{count(read.permits, 'permit', 'permits')} left, {read.unacknowledged} unacknowledged"
    waiting = joined([f"{one.hashed} for {one.unacknowledged}" for one in read.draining])
    draining = f", draining: {waiting}" if read.draining else ""
    return f"{read.consumer} got {messages_in_words(read.messages)} ({left}{draining})"
