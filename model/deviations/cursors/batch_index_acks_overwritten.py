from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from model.cursors.acked import Acked, acknowledge_all, overwritten
from model.cursors.cursor import Ack, Cursor, Moment, with_all
from model.cursors.log import TopicLog
from model.deviation import Deviation, Shadow
from model.deviations.subscriptions import before, with_cursor
from model.events import Acknowledged
from model.example.state import Example
from model.example.step import Step
from model.log import Position
from model.subscription_operations import AckById, Acknowledge, CloseConsumer, CutDuring
from model.subscriptions.acks import by_subscription
from model.subscriptions.consumers import Consumer
from model.vocabulary import SubscriptionId

ENTRY = Deviation(
    name="batch-index-acks-overwritten",
    aliases=("batch-acks-overwritten",),
    rule="ACK-04",
    statement="A cumulative ack that ends within a batch undoes the individual acks of the rest of this batch, and the broker dispatches these messages again.",
    cause="ManagedCursorImpl.asyncMarkDelete (ackBatchPosition) replaces the bit set of the entry if the first message left is a later one than before. An individual ack combines both bit sets (4.0.8, line 2194; before apache/pulsar#18042 it always replaced them). It needs two consumers of a Failover subscription, or a client that does not combine the acks itself. 2.11.0, 3.0.7, 3.3.6, 4.2.4 and 5.0.0-M1 have the same code.",
    side="broker",
    releases=(">=2.11,<=5.0.0-M1",),
    seen=("4.0.8", "5.0.0-M1"),
    gone=("5.0.1",),
    shadow=Shadow(name="cumulative-one-too-few", statement="A cumulative ack leaves out its own position."),
)


def alternatives(state: Example, step: Step) -> Iterator[Example]:
    is_cut_off = isinstance(step.operation, CutDuring)
    match step.operation.doing if isinstance(step.operation, CutDuring) else step.operation, step.outcome:
        case (Acknowledge(name) | AckById(name)) as doing, Acknowledged(messages=messages, receipt=receipt):
            consumer = before(state).consumption.consumers.get(name)
            every = {} if consumer is None else by_subscription(before(state).consumption, consumer, messages)
            for subscription, places in every.items():
                ack, is_sent = Ack(places, doing.cumulative), receipt or is_cut_off
                for cursor, acks in _sent(state, subscription, name, ack, is_sent=is_sent):
                    yield from _overwriting(state, step, subscription, name, cursor, acks)
        case CloseConsumer(name), _:
            for subscription in state.consumption.cursors:
                then = before(state).consumption.cursors.get(subscription)
                acks = () if then is None else then.grouped.get(name, ())
                if then is not None and acks and before(state).consumption.consumers[name].never_disconnected:
                    yield from _overwriting(state, step, subscription, name, then, acks)
        case _:
            pass


def _sent(
    state: Example, subscription: SubscriptionId, name: str, ack: Ack, *, is_sent: bool
) -> Iterator[tuple[Cursor, Sequence[Ack]]]:
    """The cursor before an ack, and the acks that the broker handles then. A client that groups acks may send them
    with it, and the clients of other consumers may have sent some of theirs before."""
    then, log = before(state).consumption.cursors[subscription], state.consumption.log(subscription.topic)
    if is_sent:
        yield then, [ack]
        return
    own, alone = [*then.grouped.get(name, ()), ack], replace(then, grouped=then.grouped.set(name, ()))
    yield alone, own
    for other, acks in then.grouped.items():
        for count in range(1, 1 + len(acks)) if other != name else ():
            earlier = frozenset(with_all(acks[:count], one, log) for one in then.possible)
            yield replace(alone, possible=earlier, grouped=alone.grouped.set(other, acks[count:])), own


def _overwriting(
    state: Example, step: Step, subscription: SubscriptionId, name: str, then: Cursor, acks: Sequence[Ack]
) -> Iterator[Example]:
    """The state if the broker overwrites what a batch has acknowledged when it handles these acks of a consumer.

    ``then``: the cursor before. The entry stays a pending ack of the consumer.
    """
    if (after := state.consumption.cursors.get(subscription)) is None:
        return  # not durable, and gone with its connection
    log = state.consumption.log(subscription.topic)
    remembered = _remembered(before(state).consumption.consumers[name], subscription)
    lost = frozenset(_handled(one, acks, log, remembered) for one in then.possible)
    if lost == frozenset(with_all(acks, one, log) for one in then.possible):
        return
    moment = Moment(step.at, lost, is_individual=not acks[-1].cumulative)
    past = after.past.with_last(moment) if len(after.past) > len(then.past) else after.past.then(moment)
    grouped = after.grouped if isinstance(step.operation, CloseConsumer) else then.grouped
    state = with_cursor(state, subscription, replace(after, possible=lost, past=past, grouped=grouped))
    if (consumer := state.consumption.consumers.get(name)) is not None:
        taken_back = [
            (subscription.topic, place)
            for position in {place.position for ack in acks for place in ack.places}
            for place in log.places_at(position)
            if all(one.has_message(place) for one in then.possible)
            if not any(one.has_message(place) for one in lost)
        ]
        pending = consumer.unacknowledged.updated(dict.fromkeys(taken_back))
        requested_twice = consumer.requested_twice.union(taken_back)
        consumer = replace(consumer, unacknowledged=pending, requested_twice=requested_twice)
        state = replace(state, consumption=state.consumption.with_consumer(name, consumer))
    yield state


def _remembered(consumer: Consumer, subscription: SubscriptionId) -> frozenset[Position]:
    """The batches of which acks were taken back. The client has them in its acks of other parts."""
    taken_back = (message for message in consumer.requested_twice if message in consumer.unacknowledged)
    return frozenset(place.position for topic, place in taken_back if topic == subscription.topic)


def _handled(state: Acked, acks: Sequence[Ack], log: TopicLog, remembered: Collection[Position]) -> Acked:
    """The state after these acks."""
    for ack in acks:
        if ack.cumulative and ack.places[0].batch_index >= 0:
            state = overwritten(state, log, ack.places[0])
        else:
            rest = [place for one in ack.places if one.position in remembered for place in log.places_at(one.position)]
            state = acknowledge_all(ack.on(state, log), log, rest)
    return state
