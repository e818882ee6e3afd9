from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.deviations.consumers import deliveries
from model.deviations.facts import is_reloaded_by
from model.deviations.looks import replay_read_in
from model.events import AllReceived, CursorRead
from model.example.state import Example, Judgement, Past
from model.example.step import Step
from model.judgement import Broken
from model.subscription_operations import ReadCursor, ReceiveAll
from model.subscriptions.consumers import Message
from model.subscriptions.counts import SentAgain, SentOnceMore, TakenTwice
from model.vocabulary import SubscriptionId

ENTRY = Deviation(
    name="replay-read-outlives-consumers",
    aliases=("replay-outlives-consumers",),
    rule="ACK-12",
    also=("ACK-01",),
    statement="If the last consumer of a Shared or Key_Shared subscription leaves during a replay read, or while what was read waits to be dispatched, the next consumers receive these messages twice, or once if a reset has acknowledged them meanwhile.",
    cause="For the first consumer of an empty dispatcher, PersistentDispatcherMultipleConsumers.addConsumer clears the replay queue and rewinds the cursor, or does so after a pending read. readEntriesComplete (4.0.8, line 695) drops the result and rewinds only for a normal read. The result of a replay read goes to the new consumer, who receives the same messages again from the cursor. So does that of a normal read that waits for the dispatcher's thread: it counts as complete (havePendingRead) before. apache/pulsar#10662 proposed a fix in 2021 and was not merged; apache/pulsar#23803 is about the same race in Key_Shared. 2.11.0, 3.3.6 and 4.2.4 have the same code.",
    upstream=("apache/pulsar#10662", "apache/pulsar#23803"),
    side="broker",
    releases=(">=2.11,<=5.0.1",),
    seen=("4.0.8", "5.0.0-M1", "5.0.1"),
    occurrence="Rare; every time with the failpoint `read-slow`. Delayed messages are replayed when their time comes: with the failpoint, a reset then leaves one to the next consumer.",
    shadow=Shadow(
        name="leaver-given-twice",
        statement="Messages that were pending at the last consumer that left, and not in the replay queue, are dispatched twice.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence:
        case SentAgain(subscription=subscription, message=message) | SentOnceMore(subscription, message):
            messages, since = _replay_read(state, subscription)
            steps = [*((past.before, past.step) for past in since), (state, step)]
            times = sum(_times_again(before, one, subscription, message) for before, one in steps)
            return broken.passing() if message in messages and times <= 1 else None
        case TakenTwice(subscription, twice):
            now = replay_read_in(Past(state, step, state), subscription)
            messages = _replay_read(state, subscription)[0] if now is None else now
            return broken.passing() if twice <= messages else None
        case _:
            return None


def _replay_read(state: Example, subscription: SubscriptionId) -> tuple[frozenset[Message], list[Past]]:
    """What may have been in a replay read when all consumers left last, and the steps since. The result of that read is
    dispatched once a read of the stats finds that nothing is in flight."""
    since: list[Past] = []
    for past in state.trace:
        if is_reloaded_by(past, subscription.topic) or _has_settled(past, subscription):
            break
        if (messages := replay_read_in(past, subscription)) is not None:
            return messages, since
        since.append(past)
    return frozenset(), []


def _has_settled(past: Past, subscription: SubscriptionId) -> bool:
    match past.step.operation, past.step.outcome:
        case ReadCursor(topic, name), CursorRead(arrived=arrived):
            return bool(arrived) and SubscriptionId(topic, name) == subscription
        case ReceiveAll(topic, name), AllReceived():
            return SubscriptionId(topic, name) == subscription
        case _:
            return subscription not in past.before.consumption.cursors


def _times_again(state: Example, step: Step, subscription: SubscriptionId, message: Message) -> int:
    """How often a step delivered a message that was not due, or a copy besides the redelivery that was requested."""
    before = state.consumption
    came = [
        one
        for name, consumer in before.consumers_of(subscription)
        for one in deliveries(step.operation, step.outcome, name)
        if before.place_of(consumer, one) == message
    ]
    is_pending = any(message in consumer.unacknowledged for _, consumer in before.consumers_of(subscription))
    is_acknowledged = all(one.has_message(message[1]) for one in before.cursors[subscription].possible)
    in_flight = before.acked_in_flight.get(subscription, frozenset())
    is_copy = before.due(subscription).get(message) == "nacked" and any(one.redeliveries == 0 for one in came)
    was_due = not (is_pending or is_copy or (is_acknowledged and message not in in_flight))
    return max(0, len(came) - was_due)
