"""Document 004 in words: permits, and the state of a Key_Shared subscription."""

from __future__ import annotations

from typing import assert_never

from conformance.report.sentences.consumption import blocked_in_words, messages_in_words
from conformance.report.sentences.lists import count, joined
from conformance.report.sentences.participants import SUITE, Participants
from model.events import ConsumerRead, DueReceived
from model.subscription_operations import KeyOperation, Permit, ReceiveDue


def action(operation: KeyOperation, participants: Participants) -> tuple[str, str, str]:
    """The actor's short name, the actor as the subject of a sentence, and the rest of that sentence."""
    match operation:
        case Permit(consumer=consumer, count=number):
            permits = count(number, "more message", "more messages")
            return consumer, participants.consumer(consumer), f"gives the broker permits for {permits}"
        case ReceiveDue(topic=topic, subscription=subscription):
            return (
                SUITE,
                "the suite",
                f"waits until the consumers of subscription {subscription} of topic {topic} receive all that is due",
            )
        case _:
            assert_never(operation)


def outcome_in_words(outcome: DueReceived) -> str:
    """The outcome of an operation of document 004."""
    reads = "; ".join(_consumer(read) for read in outcome.consumers) or "no consumer is connected"
    return reads + blocked_in_words(outcome.withheld)


def _consumer(read: ConsumerRead) -> str:
    left = f"{count(read.permits, 'permit', 'permits')} left, {read.unacknowledged} unacknowledged"
    waiting = joined([f"{one.hashed} for {one.unacknowledged}" for one in read.draining])
    draining = f", draining: {waiting}" if read.draining else ""
    return f"{read.consumer} got {messages_in_words(read.messages)} ({left}{draining})"
