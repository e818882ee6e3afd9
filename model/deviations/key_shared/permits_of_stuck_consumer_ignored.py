from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.deviations.looks import (
    hashed_before_4,
    last_gone,
    leavers,
    may_be_ready,
    permits_of,
    permitted,
    reads_in,
    stalls,
)
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.key_shared.liveness import owner_of
from model.log import Position
from model.subscriptions.evidence import Undispatched
from model.subscriptions.invariant import is_ordered
from model.subscriptions.state import surely_left

ENTRY = Deviation(
    name="permits-of-stuck-consumer-ignored",
    rule="KEY-16",
    statement="The replay queue has messages of two consumers without permits, while another consumer has permits. One of the two adds permits and receives nothing, until a consumer adds permits again, leaves or requests redelivery, or a new message is dispatched.",
    cause="PersistentStickyKeyDispatcherMultipleConsumers.trySendMessagesToConsumers puts consumers without permits into stuckConsumers if a dispatch sends nothing and no consumer is recently joined (lines 315 to 332, 2.11.0). Permits do not remove a consumer from it, so in the next dispatch, which they trigger, getRestrictedMaxEntriesForConsumer returns 0 (line 370). If the other consumer still has no permits, the dispatcher sets isDispatcherStuckOnReplays again. The read that follows skips the replay queue, and a read is already pending at the end of the topic. The debug log says: stop to dispatch by stuckConsumers. apache/pulsar#7553, in 2.6.2, added stuckConsumers; apache/pulsar#20335, in 2.10.5, 2.11.2 and 3.0.1, removed it (read in the sources of 2.6.1, 2.6.2, 2.10.4, 2.10.5, 2.11.0, 3.0.0 and 3.2.2).",
    upstream=("apache/pulsar#7553", "apache/pulsar#20335"),
    side="broker",
    releases=(">=2.6.2,<2.10.5", ">=2.11.0,<2.11.2", "==3.0.0"),
    seen=("2.11.0", "2.10.1"),
    read=("3.0.0",),
    gone=("3.3.6", "4.0.8"),
    occurrence="Every time, in 12 steps.",
    shadow=Shadow(
        name="test_permits_are_ignored_only_of_a_consumer_that_had_none_while_another_one_has_none",
        by="small history",
        statement="A consumer is starved although it had permits before, no other one lacks permits, no other one had any, a consumer is recently joined, or something else triggered a read.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    """It goes on until something else triggers a read."""
    return stalls(state, broken, _stuck, is_classic=True, ends=reads_in)


def _stuck(state: Example, missing: Undispatched) -> frozenset[Position]:
    """The due entries of consumers whose permits are ignored.

    A dispatch that sends nothing, because only consumers without permits have messages in it, makes these *stuck*. Some
    other consumer had permits, or nothing would have been read. The next dispatch sends stuck consumers nothing, even
    if they have permits. If it sends nothing at all, and some have none, the dispatcher looks ahead and waits for a new
    entry.
    """
    subscription, outcome = missing.subscription, missing.outcome
    if outcome is None or not missing.is_waiting or not is_ordered(missing.state, subscription):
        return frozenset()
    if _is_anybody_surely_recent(state, missing) or not _is_anybody_without_permits(missing):
        return frozenset()
    received = {read.consumer: len(read.messages) for read in outcome.consumers}
    permits, ready = permits_of(state, subscription), may_be_ready(state, subscription)
    is_other_gone = bool(leavers(state, subscription)) or last_gone(state, subscription) is not None
    names = {
        name
        for name in permitted(state, subscription)
        if permits.get(name, 0) <= received.get(name, 0) and (ready - {name} or is_other_gone)
    }
    return frozenset(at for at, name in missing.owed.items() if name in names)


def _is_anybody_without_permits(missing: Undispatched) -> bool:
    without = [one for one in missing.receivers if one.permits <= 0]
    return any(owner_of(entry.hashed, without) for entry in hashed_before_4(missing) if entry.holder is None)


def _is_anybody_surely_recent(state: Example, missing: Undispatched) -> bool:
    """Whether a consumer has been recently joined since the last look: two entries read before it joined are left.

    If only one is left, the dispatcher does not count the consumer as recently joined.
    """
    seen = permits_of(state, missing.subscription)
    joined = [one.delivered for name, one in missing.keyed.joined.items() if name in seen]
    first = next((message[1].position for message in surely_left(missing.state, missing.subscription)), None)
    return first is not None and any(first < delivered for delivered in joined)
