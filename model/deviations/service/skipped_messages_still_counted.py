from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.deviations.consumers import elsewhere, stays_blocked_for
from model.example.state import Example
from model.example.step import Step
from model.subscriptions.counts import Count

ENTRY = Deviation(
    name="skipped-messages-still-counted",
    rule="SERVE-04",
    also=("SERVE-05", "SERVE-03"),
    statement="If an administrator skips or expires messages that a consumer of a Shared or Key_Shared subscription has, the broker still counts them as unacknowledged until that consumer acknowledges them, too. A consumer at its limit stays blocked, although nothing is left to acknowledge.",
    cause="When PersistentSubscription.clearBacklog and skipMessages, and PersistentMessageExpiryMonitor, have moved the mark-delete position, they call Dispatcher.afterAckMessages only, which leaves pending acks and unackedMessages alone (read in the bytecode of 4.0.8). 4.2.4 calls Dispatcher.markDeletePositionMoveForward, which removes the pending acks up to there and lowers the count (apache/pulsar#25581, #25592).",
    upstream=("apache/pulsar#25581", "apache/pulsar#25592"),
    side="broker",
    releases=(">=2.8.2,<=4.0.8",),
    seen=("4.0.8", "3.3.6", "3.0.7", "2.11.0", "2.10.1", "2.8.2"),
    gone=("4.2.4",),
    occurrence="Every time; on 5.0.0-M1 in 0 of 3 replays.",
    shadow=Shadow(
        name="test_a_count_includes_what_was_skipped_by_a_deviation_and_nothing_else",
        by="small history",
        statement="The count has more than the skipped messages, also those whose redelivery was requested, or a consumer without skipped messages is blocked.",
    ),
)


def adds(state: Example, step: Step, wrong: Count) -> tuple[int, int] | None:
    skipped = elsewhere(state, wrong.consumer).skipped
    return (1, len(skipped) + stays_blocked_for(state, step, wrong)) if skipped else None
