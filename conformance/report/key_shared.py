"""Document 004 in words: permits, and what was gathered of a Key_Shared subscription."""

from __future__ import annotations

from typing import assert_never

from conformance.report.consumption import messages_in_words
from conformance.report.lists import count, joined
from conformance.report.participants import SUITE, Cast
from model.key_shared.vocabulary import Gather, Gathered, KeyOperation, Permit, Share


def deed(operation: KeyOperation, cast: Cast) -> tuple[str, str, str]:
    """The actor's short name, the actor as the subject of a sentence, and the rest of that sentence."""
    match operation:
        case Permit(consumer=consumer, count=number):
            permits = count(number, "message more", "messages more")
            return consumer, cast.consumer(consumer), f"permits the broker to send it {permits}"
        case Gather(topic=topic, subscription=subscription):
            return (
                SUITE,
                "the suite",
                f"gathers what subscription {subscription} of topic {topic} sends to its consumers",
            )
        case _:
            assert_never(operation)


def outcome_in_words(outcome: Gathered) -> str:
    """What came of an operation of document 004."""
    return "; ".join(_share(share) for share in outcome.shares) or "nobody is there"


def _share(share: Share) -> str:
    left = f"{count(share.permits, 'permit', 'permits')} left, {share.unacknowledged} unacknowledged"
    waiting = joined([f"{one.hashed} for {one.unacknowledged}" for one in share.draining])
    draining = f", draining: {waiting}" if share.draining else ""
    return f"{share.consumer} got {messages_in_words(share.messages)} ({left}{draining})"
