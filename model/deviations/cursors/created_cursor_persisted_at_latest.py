from __future__ import annotations

from collections.abc import Iterable, Iterator

from model.applications.subscriptions import NotRedelivered
from model.chunking.evidence import ChunksUndispatched, OutOfOrder
from model.cursors.acked import Acked, everything, with_entries
from model.deviation import Deviation, Shadow
from model.deviations.facts import is_reloaded_by
from model.deviations.subscriptions import before, created_at, is_graceful, persisting, recovering, reloaded_by
from model.events import Consumed
from model.example.judge import judge_step
from model.example.state import Example, Judgement, Past
from model.example.step import Step
from model.judgement import Broken
from model.log import Position
from model.operations import Consume, Drain
from model.vocabulary import SubscriptionId

ENTRY = Deviation(
    name="created-cursor-persisted-at-latest",
    rule="ACK-10",
    also=("ACK-09", "ACK-16", "CHUNK-03", "CHUNK-07", "CHUNK-09", "CHUNK-15", "DEDUP-16"),
    statement="A subscription that is created at the earliest message is persisted at the end of the topic. If the topic is unloaded, or the broker killed, before the next ack is persisted, the messages from before it was created are not delivered.",
    cause="ManagedLedgerImpl.asyncOpenCursor persists the new cursor at the last position, and moves it to the first one in memory only (2.6.0, lines 741 to 748). From 2.7.4 on it persists the first one. Read in the byte code of 2.5.1 and 2.7.4, too.",
    upstream=("apache/pulsar#11547",),
    side="broker",
    releases=(">=2.5.1,<2.7.4", "==2.5.0"),
    seen=("2.6.0", "2.5.1", "2.7.0", "2.7.1", "2.7.2", "2.6.2", "2.6.1", "2.5.0"),
    gone=("4.0.8",),
    occurrence="Every time.",
    shadow=Shadow(
        name="test_a_created_cursor_is_persisted_at_the_latest_message_until_the_next_ack",
        by="small history",
        statement="A later message is acknowledged, too, or the same is lost after an ack was persisted.",
    ),
)


def alternatives(state: Example, step: Step) -> Iterator[Example]:
    """Closing a cursor persists nothing if there was no ack since it was created."""
    if state.past is not None:
        for subscription in sorted(state.consumption.cursors.keys() - before(state).consumption.cursors.keys()):
            latest = frozenset({_latest(state.past, subscription.topic)})
            yield from persisting(state, subscription, latest)
    for subscription in reloaded_by(state.past) if is_graceful(step) else ():
        cursor, created = before(state).consumption.cursors[subscription], created_at(before(state), subscription)
        if created is not None and len(cursor.past) == 1:
            placed = created.after.consumption.cursors[subscription].past[0]
            if placed.at == cursor.past[0].at:
                yield from recovering(state, subscription, [_latest(created, subscription.topic)])


def _latest(created: Past, topic: str) -> Acked:
    """The state at the end of the log when a subscription was created."""
    return everything(created.after.consumption.log(topic))


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    """Messages from before a subscription was created are not redelivered to an application, nor chunks dispatched."""
    match step.operation, broken.evidence:
        case Drain(topic, name), NotRedelivered(missing, first):
            is_before = first is None or missing[-1].position < first
            return broken.passing() if is_before and _is_as_created(state, topic, name) else None
        case _, OutOfOrder() as out:
            consumer = out.state.consumers[out.consumer]
            begins = consumer.last is None and bool(out.left_out)
            return _skipping(state, step, consumer.subscription, out.left_out) if begins else None
        case _, ChunksUndispatched(subscription=subscription, owed=owed) as undispatched:
            up_to = tuple(one.position for one in undispatched.topic.log if one.position <= owed[-1])
            return _skipping(state, step, subscription, owed) if up_to == owed else None
        case _:
            return None


def _skipping(
    state: Example, step: Step, subscription: SubscriptionId, skipped: Iterable[Position]
) -> Judgement | None:
    """What a step comes to if the first entries of a chunked topic are acknowledged, which was reloaded before an ack.

    Which entries it had when the subscription was created is known only from what came later.
    """
    topic = subscription.topic
    reloads = [past.before.chunking for past in state.trace if is_reloaded_by(past, topic)]
    at_reloads = [one.subscriptions[subscription] for one in reloads if subscription in one.subscriptions]
    if all(one.acknowledged for one in at_reloads):
        return None
    log, cursor = state.consumption.log(topic), state.consumption.cursors[subscription]
    acked = [with_entries(one, log, skipped) for one in cursor.possible]
    return next((judge_step(changed, step) for changed in recovering(state, subscription, acked)), None)


def _is_as_created(state: Example, topic: str, name: str) -> bool:
    """Whether a topic was reloaded before an ack of a subscription surely arrived. A client sends its acks at once, or
    when it closes."""
    is_there = False
    for past in reversed(list(state.trace)):
        match past.step.operation, past.step.outcome:
            case Consume(topic=on, subscription=one) as consumes, outcome if (on, one) == (topic, name):
                is_there, is_sent = True, consumes.client == "wire" or consumes.then == "closes"
                if isinstance(outcome, Consumed) and outcome.acknowledged and is_sent:
                    return False
            case _ if is_there and is_reloaded_by(past, topic):
                return True
            case _:
                pass
    return False
