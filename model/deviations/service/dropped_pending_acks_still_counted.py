from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.deviations.consumers import elsewhere, stays_blocked_for
from model.example.state import Example
from model.example.step import Step
from model.subscriptions.counts import Count

ENTRY = Deviation(
    name="dropped-pending-acks-still-counted",
    rule="SERVE-04",
    also=("SERVE-05", "SERVE-03"),
    statement="If an administrator skips or expires messages that a consumer has, and the consumer acknowledges or nacks them afterwards, it still has them in its count of unacknowledged messages. The count never falls again, until the consumer leaves. At its limit, the consumer receives nothing more.",
    cause="When mark-delete has moved, PersistentDispatcherMultipleConsumers.readMoreEntries calls PendingAcksMap.removeAllUpTo for each consumer, which does not lower unackedMessages. The later ack finds no pending ack (Consumer.removePendingAcks), so it does not lower it either (read in the bytecode of 4.0.8). 3.3.6 removes nothing there.",
    upstream=("apache/pulsar#25581",),
    side="broker",
    releases=(">=4.0.0,<=4.0.8",),
    seen=("4.0.8", "4.0.1", "4.0.6", "4.0.0"),
    gone=("3.3.6",),
    shadow=Shadow(
        name="test_a_consumer_that_acknowledges_once_more_is_counted_exactly_again",
        by="small history",
        statement="The count has more than the messages that were acknowledged twice, or less than those that are unacknowledged.",
        missed_before=True,
    ),
)


def adds(state: Example, step: Step, wrong: Count) -> tuple[int, int] | None:
    now = elsewhere(state, wrong.consumer)
    slack = 0 if now.skipped else stays_blocked_for(state, step, wrong)
    return (1, now.again + slack) if now.again else None
