from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.deviations.consumers import acknowledged, since_subscribed
from model.example.state import Example, Past
from model.example.step import Step
from model.subscriptions.counts import Count
from model.subscriptions.state import messages_at

ENTRY = Deviation(
    name="partial-ack-leaves-consumer-blocked",
    rule="SERVE-05",
    statement="A consumer that is blocked at its limit stays blocked after it acknowledged parts of batches, even if few of its messages are left, until it acknowledges a whole batch or message.",
    cause="Consumer.individualAckNormal lowers the count for a part of a batch. Whether the consumer can be unblocked is looked at only when an entry is removed from its pending acks (4.0.8). Read in 2.11.0, 3.3.6 and 4.2.4, too.",
    searched="2026-11-30: `blockedConsumerOnUnackedMsgs batch index acknowledgment`; nearest is apache/pulsar#22657: the flag is wrong after a race between dispatch and ack.",
    side="broker",
    releases=(">=2.11,<=4.2.4",),
    seen=("4.0.8",),
    read=("4.2.4",),
    gone=(
        "5.0.0-M1",
        "5.0.1",
    ),
    occurrence="Every time.",
    shadow=Shadow(
        name="test_a_consumer_stays_blocked_only_after_an_ack_of_parts",
        by="small history",
        statement="A consumer stays blocked after an ack of a whole message or of the rest of a batch.",
    ),
)


def adds(state: Example, step: Step, wrong: Count) -> tuple[int, int] | None:
    """How many messages a consumer acknowledged, each leaving a part of its batch, since an ack that left none, or with
    it."""
    if wrong.of != "blocked":
        return None
    left = 0
    for past in since_subscribed(state, wrong.consumer):
        if acked := acknowledged(past, wrong.consumer):
            parts = _leaving_parts(past, wrong.consumer)
            left = parts + (left if parts == len(acked) else 0)
    return 1, left


def _leaving_parts(past: Past, name: str) -> int:
    """How many of the acknowledged messages leave others of their batch with the consumer."""
    before, acked = past.before.consumption, acknowledged(past, name)
    rest = before.consumers[name].unacknowledged.keys() - set(acked)
    return sum(any(one in rest for one in messages_at(topic, before.log(topic), at.position)) for topic, at in acked)
