from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.deviations.looks import last_of, pending_read, since_reset
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.log import Position
from model.subscriptions.evidence import OvertakesInLog
from model.vocabulary import SubscriptionId

ENTRY = Deviation(
    name="pending-read-outlives-consumers",
    aliases=("read-outlives-consumers",),
    rule="KEY-02",
    statement="If the last consumer of a Key_Shared subscription leaves during a read, the next consumer receives the result of that read besides what is read again. Messages of a key are out of order, and some are dispatched twice.",
    cause="PersistentDispatcherMultipleConsumers.clearComponentsAfterRemovedAllConsumers cancels a read that waits for a new entry (cancelPendingRead), but cannot cancel one that has started. When that completes, trySendMessagesToConsumers rewinds and drops its result only if there is no consumer at that moment. If the next one has joined, it receives the result, although addConsumer has rewound the cursor for it.",
    side="broker",
    releases=(">=3.0.7,<=4.0.8", "==5.0.0-M1"),
    seen=("4.0.8", "4.0.7", "4.0.4", "3.3.6", "3.0.7", "5.0.0-M1"),
    occurrence="With the failpoint `read-slow`. On 3.3.6 in 5 of 7 plays: `pulsar-conformance replay docs/histories/KEY-02-on-3.3.6.json --broker 3.3.6` (the history of 4.0.8 in 0 of 5).",
    shadow=Shadow(
        name="test_a_pending_read_has_no_message_that_was_sent_after_the_last_consumer_left",
        by="small history",
        statement="A message that was sent after the last consumer left is dispatched first, or messages are out of order although nothing was being read.",
        missed_before=True,
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence:
        case OvertakesInLog() as one if _is_read(state, one.subscription, one.position):
            return broken.passing()
        case OvertakesInLog() as one if _was_read_ahead(state, one):
            return broken.passing()
        case _:
            return None


def _is_read(state: Example, subscription: SubscriptionId, position: Position) -> bool:
    """Whether an entry may have been read when the last consumer left."""
    past = pending_read(state, subscription)
    return past is not None and position <= last_of(past.before, subscription)


def _was_read_ahead(state: Example, one: OvertakesInLog) -> bool:
    """Whether an entry was delivered by such a read before, and the earlier ones were not. Its consumer may have left,
    so that it is replayed."""
    got = one.state.keyed_of(one.subscription).got
    if any(place.position in got for _, place in one.earlier):
        return False
    for past in since_reset(state, one.subscription):
        got_before, got_after = (
            example.consumption.keyed_of(one.subscription).got for example in (past.before, past.after)
        )
        if one.position in got_after and one.position not in got_before:
            return _is_read(past.before, one.subscription, one.position)
    return False
