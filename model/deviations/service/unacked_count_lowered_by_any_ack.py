from __future__ import annotations

from collections.abc import Sequence

from model.deviation import Deviation, Shadow
from model.deviations.consumers import acknowledged, since_subscribed
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.subscriptions.consumers import Message
from model.subscriptions.counts import BeyondLimit, Count
from model.subscriptions.state import Consumption, messages_at
from model.vocabulary import SubscriptionId

ENTRY = Deviation(
    name="unacked-count-lowered-by-any-ack",
    aliases=("outstanding-undercounted",),
    rule="SERVE-04",
    also=("SERVE-05",),
    statement="If a consumer acknowledges a message that is not pending at it, its count of unacknowledged messages falls, even below zero. So it gets more messages than the limit allows.",
    cause="Every individual ack of a consumer lowers its count, whether or not the message is pending there. 3.3.6 and 4.0.8 lower it only for pending messages.",
    side="broker",
    releases=(">=2.10.0,<3.3.6",),
    seen=("3.3.5", "3.1.0", "2.11.0", "2.10.1", "2.10.0"),
    gone=("3.3.6", "4.0.8"),
    shadow=Shadow(
        name="unacked-count-lowered-by-nack",
        statement="A redelivery request lowers the count by one too many, too.",
        missed_before=True,
    ),
)


def adds(state: Example, step: Step, wrong: Count) -> tuple[int, int] | None:
    return (-_lowered_by(state, wrong.consumer), -1) if wrong.of == "at consumer" else None


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence:
        case BeyondLimit(consumer, had, limit) if had - _lowered_by(state, consumer) < limit:
            return broken.passing()
        case _:
            return None


def _lowered_by(state: Example, name: str) -> int:
    """How many messages a consumer acknowledged, with the rest of their entries, that were pending at no consumer."""
    every = ((past.before.consumption, acknowledged(past, name)) for past in since_subscribed(state, name))
    return sum(_not_pending(before, name, acked) for before, acked in every if acked)


def _not_pending(before: Consumption, name: str, acked: Sequence[Message]) -> int:
    topic = acked[0][0]
    here = [one for _, one in before.consumers_of(SubscriptionId(topic, before.consumers[name].subscription))]
    pending = {message for one in here for message in one.unacknowledged if message not in one.acked_by_others}
    entries = (message for _, at in acked for message in messages_at(topic, before.log(topic), at.position))
    return sum(message not in pending for message in entries)
