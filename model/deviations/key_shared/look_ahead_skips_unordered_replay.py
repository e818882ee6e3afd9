from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.deviations.looks import is_woken, stalls
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.log import Position
from model.subscriptions.evidence import Undispatched
from model.subscriptions.invariant import is_ordered

ENTRY = Deviation(
    name="look-ahead-skips-unordered-replay",
    rule="KEY-13",
    also=("KEY-08", "KEY-10"),
    statement="With out-of-order delivery, the broker replays messages whose consumers have no permits. Meanwhile a consumer leaves or requests redelivery. The dispatcher looks ahead: its next read skips the replay queue and waits at the end of the topic. Messages in the replay queue wait although their consumers have permits.",
    cause="With out-of-order delivery, the filter for replays of PersistentStickyKeyDispatcherMultipleConsumers passes every message, so any read of the replay queue may have only messages that it cannot dispatch. trySendMessagesToConsumers then sets skipNextReplayToTriggerLookAhead. A read that was requested meanwhile does nothing, because a replay read is pending, and the scheduled one skips the replay queue. apache/pulsar#26236 looks ahead only if there are more entries, but not with out-of-order delivery (read in the bytecode of 4.2.4).",
    upstream=("apache/pulsar#26236", "apache/pulsar#24700"),
    side="broker",
    releases=(">=4.0.1,<=4.0.8", "==4.2.4", "==5.0.0-M1"),
    seen=("4.0.8", "4.2.4", "5.0.0-M1"),
    occurrence="With the failpoint `read-slow` in 22 of 24 replays on 4.0.8, in 16 of 24 on 5.0.0-M1, and in 2 of 24 on 4.2.4. Without it once in two hours on 4.2.4 (`docs/histories/KEY-08-on-4.2.4.json`). On 4.0.8 the flag outlived the consumers (`docs/histories/KEY-13-on-4.0.8-permits-left.json`) in 3 of 19 replays with a dispatcher back-off of 60 ms, in 0 of 120 with the default of 1 ms.",
    shadow=Shadow(
        name="test_without_an_order_a_look_ahead_skips_only_a_replay_that_was_under_way",
        by="small history",
        statement="A message is not dispatched although no other one is in the replay queue, or although nothing happened since the last look.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    return stalls(state, broken, _passed_over, is_classic=False)


def _passed_over(state: Example, missing: Undispatched) -> frozenset[Position]:
    """The due entries, if the broker waits for a new one after it replayed others that no consumer has permits for."""
    has_others = missing.is_waiting and len(missing.owed) < missing.in_replay
    is_unordered = not is_ordered(missing.state, missing.subscription)
    is_passed_over = has_others and is_unordered and is_woken(state, missing.subscription)
    return frozenset(missing.owed) if is_passed_over else frozenset()
