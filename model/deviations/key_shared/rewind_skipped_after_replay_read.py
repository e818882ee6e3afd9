from __future__ import annotations

from model.applications.subscriptions import ApplicationSubscription
from model.deviation import Deviation, Shadow
from model.deviations.looks import (
    explained,
    leaves_replay_read,
    may_wait_before_rewind,
    since_reset,
    undispatched_at,
)
from model.events import Stuck
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.operations import Consume, Drain
from model.subscriptions.consumers import SHARED
from model.subscriptions.counts import Starving
from model.subscriptions.evidence import StarvingAlone, Undispatched
from model.vocabulary import IN_ORDER, SubscriptionId

ENTRY = Deviation(
    name="rewind-skipped-after-replay-read",
    aliases=("rewind-waits-for-news",),
    rule="KEY-13",
    also=("ACK-12", "DEDUP-16", "SERVE-03"),
    statement="All consumers of a Shared or Key_Shared subscription leave during a replay read, and a new one joins. It receives the result of that read, and the other unacknowledged messages only after the next new message.",
    cause="If a read is pending, PersistentDispatcherMultipleConsumers.addConsumer leaves the rewind for the first consumer to the end of that read (shouldRewindBeforeReadingOrReplaying). readEntriesComplete rewinds only after a normal read, not after a replay read. The next read then waits at the end of the log, where the cursor still is (4.0.8; read in 3.3.6, 4.0.1, 4.0.7, 4.2.4 and 5.0.0-M1, too). A replay read is pending if another consumer left just before, and the last one leaves before its messages are read again. Sent one more message, the broker delivered all that was missing, in each of 54 stalls on seven releases.",
    upstream=("apache/pulsar#10662",),
    side="broker",
    releases=("<=5.0.0-M1",),
    seen=("4.0.8", "3.3.6", "2.11.0", "2.10.5", "2.8.1", "2.6.0", "2.5.1", "4.2.4"),
    read=("5.0.0-M1",),
    occurrence="On Key_Shared with the failpoints `join-slow` or `leave-slow`. On Shared without one: `pulsar-conformance replay docs/histories/DEDUP-16-on-4.0.8.json --known none --times 120`, in which two consumers are cut off at once, breaks DEDUP-16 in 8 of 400 replays on 4.0.8, 12 of 120 on 3.3.6, 20 of 120 on 2.8.1, and 6 of 120 each on 2.11.0, 2.10.5 and 2.6.0; in 0 of 560 on 4.2.4, and there in 3 of 16 with the failpoint `read-slow`.",
    shadow=Shadow(
        name="test_a_skipped_rewind_excuses_nothing_without_a_replay_read_or_after_a_new_message",
        by="small history",
        statement="The next consumer receives nothing although nothing was being replayed, or although a new message was sent.",
        missed_before=True,
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence:
        case Undispatched(topic=topic) as missing if topic.drains or missing.outcome is None:
            return explained(broken, missing.left if _waits(state, missing) else ())
        case Starving(consumers=names) if any(_may_starve(state, name) for name in names):
            return broken.passing()
        case StarvingAlone(subscription) if _may_starve_alone(state, subscription):
            return broken.passing()
        case ApplicationSubscription(may_wait_before_rewind=True) if _is_any_left(step):
            return broken.passing()
        case _:
            return None


def _waits(state: Example, missing: Undispatched) -> bool:
    """Whether the broker waits before the rewind, or has waited since an earlier look at which entries were missing: it
    reads nothing until the next new message."""
    subscription = missing.subscription
    if may_wait_before_rewind(state, subscription):
        return True
    for past in since_reset(state, subscription) if not missing.has_dispatched else ():
        if (earlier := undispatched_at(past, subscription)) is None:
            continue
        if not earlier.owed or earlier.topic.log.last != missing.topic.log.last:
            return False
        if may_wait_before_rewind(past.before, subscription):
            return True
        if earlier.has_dispatched:
            return False
    return False


def _may_starve(state: Example, name: str) -> bool:
    consumer = state.consumption.consumers.get(name)
    if consumer is None or consumer.kind not in SHARED:
        return False
    return any(may_wait_before_rewind(state, one) for one in consumer.subscriptions)


def _may_starve_alone(state: Example, subscription: SubscriptionId) -> bool:
    """The replay read may also be that of the consumers that were disconnected."""
    if subscription not in state.consumption.cursors:
        return False
    return leaves_replay_read(state.consumption, subscription) or may_wait_before_rewind(state, subscription)


def _is_any_left(step: Step) -> bool:
    match step.operation, step.outcome:
        case ((Consume(kind=kind) | Drain(kind=kind)), Stuck(undelivered=undelivered)):
            return bool(undelivered) and kind not in IN_ORDER
        case _:
            return False
