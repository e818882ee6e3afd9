"""The observer of document 003: each operation with its outcome gives the next state, or the rule that it breaks.

:mod:`model.example` reports what happens to topics, producers and the broker. Operations of consumers and
administrators on subscriptions are judged here. Topics that were not created for this document are not tracked.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial

from model.cursors import cursor
from model.cursors.cursor import Cursor, Persisting
from model.cursors.ledger import Interval
from model.cursors.log import TopicLog
from model.events import (
    Acknowledged,
    CursorReset,
    Delivery,
    DueReceived,
    ReceivedMessages,
    RedeliveryRequested,
    RedeliveryTimes,
    Starved,
    Subscribed,
)
from model.failpoints import FailpointKind
from model.immutable.map import Map
from model.judgement import Allowed, Broken, in_turn
from model.operations import OnSubscriptions, Terminate, Trim
from model.rules.catalogue import carries
from model.subscription_operations import (
    AckById,
    Acknowledge,
    CloseConsumer,
    CrashConsumer,
    CutConnection,
    CutDuring,
    Nack,
    NackRepeatedly,
    Permit,
    ReadCursor,
    Receive,
    ReceiveDue,
    Seek,
    Subscribe,
    Unsubscribe,
)
from model.subscriptions import acks, backoff, chunks, deliveries, due, membership, starts, written
from model.subscriptions.administration import administered, disconnected, set_to, terminated_or_trimmed
from model.subscriptions.claims import claims_of
from model.subscriptions.consumers import SHARED, Consumer, Message
from model.subscriptions.state import NO_LIMITS_ON_CONSUMERS, Consumption, TrackedTopic, messages_at
from model.vocabulary import IN_ORDER, NO_LIMITS, Limits, LookAhead, Outcome, SubscriptionId, partition_name

Judged = Allowed[Consumption] | Broken

# ------------------------------------------------------------------------------------------------ topics and the broker


def topic_created(
    state: Consumption,
    topic: str,
    *,
    partitions: int,
    room: int | None,
    persisting: Persisting,
    is_trimmed: bool,
    drains: bool = True,
    look_ahead: LookAhead = NO_LIMITS,
    limits: Limits = NO_LIMITS_ON_CONSUMERS,
    has_markers: bool = False,
    delay_tick_ms: float | None = None,
    is_watched: bool = False,
) -> Consumption:
    """A topic was created for this document. ``has_markers``: clusters may write markers into its log."""
    log = TopicLog(room, has_markers=has_markers)
    names = tuple(partition_name(topic, number) for number in range(partitions)) or (topic,)
    tracked = TrackedTopic(
        log,
        persisting,
        is_trimmed,
        drains=drains,
        look_ahead=look_ahead,
        limits=limits,
        delay_tick_ms=delay_tick_ms,
        is_watched=is_watched,
    )
    for name in names:
        state = state.with_topic(name, tracked)
    return replace(state, partitions=state.partitions.set(topic, names))


def unloaded(state: Consumption, topics: Collection[str], at: Interval, *, classic: bool | None = None) -> Consumption:
    """Topics were unloaded gracefully, which disconnects their consumers.

    ``classic``: whether their Key_Shared subscriptions have the classic implementation from now on; None: as before.
    """
    state = _reopened(state, topics).may_be_read(topics)
    for topic in topics:
        tracked = state.topics.get(topic)
        if tracked is not None and classic is not None:
            state = state.with_topic(topic, replace(tracked, drains=not classic))
    for subscription, one in list(state.cursors.items()):
        if subscription.topic in topics:
            tracked = state.topics[subscription.topic]
            before = cursor.cut_off(one) if tracked.is_watched else one
            after = cursor.unloaded(before, at, tracked.persisting.persisted_ranges)
            state = _recovered(state, subscription, after)
    return state


def killed(state: Consumption, topics: Collection[str], at: Interval) -> Consumption:
    """The owner of these topics was killed."""
    state = _reopened(state, topics).may_be_read(topics)
    for subscription, one in list(state.cursors.items()):
        if subscription.topic in topics:
            after = cursor.killed(one, at, state.topics[subscription.topic].persisting)
            state = _recovered(state, subscription, after).without_due(subscription)
    return state


@carries("SERVE-06")
def _recovered(state: Consumption, subscription: SubscriptionId, after: Cursor) -> Consumption:
    """Another process recovered a subscription. A non-durable one is gone. A former owner that continued since must
    not have changed it."""
    state = _without_consumers(state, subscription)
    if not after.durable:
        return state.without_cursor(subscription)
    if state.former.get(subscription, False):
        after = replace(after, since=after.since | {"SERVE-06"})
        state = replace(state, former=state.former.delete(subscription))
    return state.with_cursor(subscription, after)


def frozen(state: Consumption, topics: Collection[str], at: Interval) -> Consumption:
    """The owner of these topics was frozen, and another one has loaded them."""
    owned = dict.fromkeys((one for one in state.cursors if one.topic in topics), False)
    after = killed(state, topics, at)
    return replace(after, former=after.former.updated(owned))


def thawed(state: Consumption) -> Consumption:
    """The frozen brokers continued."""
    return replace(state, former=Map(dict.fromkeys((one for one in state.former if one in state.cursors), True)))


def _reopened(state: Consumption, topics: Collection[str]) -> Consumption:
    for topic in topics:
        tracked = state.topics.get(topic)
        if tracked is not None:
            state = state.with_topic(topic, tracked.reloaded())
    return state


def _without_consumers(state: Consumption, subscription: SubscriptionId) -> Consumption:
    unacknowledged = [
        m for _, one in state.consumers_of(subscription) for m in one.unacknowledged if m[0] == subscription.topic
    ]
    state = state.free(subscription, [*unacknowledged, *state.due(subscription)], "unloaded")
    state = disconnected(state.without_keyed(subscription), subscription)
    return state.without_assignment(subscription)


# ------------------------------------------------------------------------------------------------------------ consumers


def judge(
    state: Consumption,
    operation: OnSubscriptions,
    outcome: Outcome,
    at: Interval,
    failpoints: Collection[tuple[str, FailpointKind]] = (),
) -> Judged:
    """The states that are possible after this operation and outcome. ``failpoints``: the active ones, by topic."""
    state = _prepared(state, operation, outcome, at)
    match operation:
        case Permit(name):
            return Allowed(due.permitted(state, name))
        case ReceiveDue(topic):
            slowed = frozenset(kind for name, kind in failpoints if name == topic)
            return due.received(state, operation, outcome, slowed)
        case Subscribe():
            after = _subscribed(state, operation, at) if isinstance(outcome, Subscribed) else state
            return Allowed(starts.created_again(after, operation.topic, operation.subscription))
        case CloseConsumer(name) | CrashConsumer(name):
            # The consumer is gone, whatever the broker answered.
            return Allowed(_left(state, name, at, is_graceful=isinstance(operation, CloseConsumer)))
        case CutDuring(doing):
            return _cut_off(state, doing, outcome, at)
        case CutConnection(name):
            return Allowed(_reconnected(state, name))
        case Receive(name, count):
            return _received(state, name, count, outcome)
        case Acknowledge(name, cumulative=cumulative) | AckById(name, cumulative=cumulative):
            if name not in state.consumers or not isinstance(outcome, Acknowledged):
                return Allowed(state)
            return Allowed(acks.acknowledged(state, name, outcome, at, cumulative=cumulative))
        case Nack(name):
            if name not in state.consumers or not isinstance(outcome, RedeliveryRequested):
                return Allowed(state)
            state = _had(state, name, outcome.messages)
            return Allowed(_nacked(state, name, None if operation.nth is None else outcome.messages))
        case NackRepeatedly():
            return backoff.redelivered(state, outcome) if isinstance(outcome, RedeliveryTimes) else Allowed(state)
        case Seek(name):
            if name not in state.consumers or not isinstance(outcome, CursorReset):
                return Allowed(state)
            return Allowed(set_to(state, state.consumers[name].subscriptions, outcome.to, at))
        case Unsubscribe(name):
            return Allowed(starts.unsubscribed(state, name, outcome))
        case Terminate() | Trim():
            return terminated_or_trimmed(state, operation, outcome)
        case _:
            return administered(state, operation, outcome, at)


def _prepared(state: Consumption, operation: OnSubscriptions, outcome: Outcome, at: Interval) -> Consumption:
    """What time, and the mere attempt, change: delayed messages become due, and an unsure log ends the tracking."""
    # A performer waits for what is due when it looks. What is still missing at its deadline is due then.
    state = written.time_passed(state, at.completed_ms if isinstance(outcome, Starved) else at.invoked_ms)
    for topic in _topics_of(state, operation):
        tracked = state.topics[topic]
        is_of_log = isinstance(operation, Terminate) or (isinstance(operation, Trim) and not tracked.is_trimmed)
        if not tracked.is_sure and not is_of_log:
            state = written.lost(state, topic)
    if not isinstance(operation, Receive | ReceiveDue | Permit | ReadCursor):
        state = state.may_be_read(_topics_of(state, operation))
    if isinstance(outcome, Subscribed | DueReceived) and outcome.drains is not None:
        state = state.with_dispatcher(_topics_of(state, operation), drains=outcome.drains)
    return state


def _topics_of(state: Consumption, operation: OnSubscriptions) -> tuple[str, ...]:
    """The topics whose subscriptions an operation affects."""
    if operation.topic is not None:
        return state.parts_of(operation.topic)
    consumer = state.consumers.get(operation.actor or "")
    return () if consumer is None else consumer.topics


def _subscribed(state: Consumption, operation: Subscribe, at: Interval) -> Consumption:
    """A consumer subscribed, which creates the subscription if it does not exist."""
    subscriptions = tuple(SubscriptionId(topic, operation.subscription) for topic in state.parts_of(operation.topic))
    if _may_be_untracked(state, operation):
        for subscription in subscriptions:
            state = state.without_cursor(subscription)
        parts = state.partitions.get(operation.topic, (operation.topic,))
        every = (SubscriptionId(part, operation.subscription) for part in parts)
        return state.with_untracked_consumer(operation.consumer, operation.client, every)
    if not subscriptions:
        return state
    for subscription in subscriptions:
        if subscription not in state.cursors:
            new = starts.created(state, subscription, operation.start, at, durable=operation.durable)
            state = state.with_cursor(subscription, new)
    first = next((one for subscription in subscriptions for _, one in state.consumers_of(subscription)), None)
    consumer = Consumer(
        subscriptions=subscriptions,
        kind=operation.kind,
        client=operation.client,
        seen=Map({one.topic: state.cursors[one].possible for one in subscriptions}),
        is_settled=operation.client == "wire" and not operation.queue,
        had_permits_left=operation.client != "wire" or operation.queue > 0,
        # If a release accepts consumers with different policies, the first consumer's policy applies.
        keeps_keys=not operation.out_of_order if first is None else first.keeps_keys,
        claims=claims_of(operation.sticky) if first is None or first.claims else (),
    )
    for subscription in subscriptions:
        state = membership.joined(state, subscription, operation.consumer)
    state = state.without_untracked_consumer(operation.consumer)
    return _may_rewind(state.with_consumer(operation.consumer, consumer), consumer)


def _may_be_untracked(state: Consumption, operation: Subscribe) -> bool:
    """Whether an untracked subscription of this name may exist on one of the partitions."""
    parts = [part for part in state.partitions.get(operation.topic, (operation.topic,)) if part in state.topics]
    return any(
        state.topics[part].is_lost or state.may_be_untracked(SubscriptionId(part, operation.subscription))
        for part in parts
    )


def _may_rewind(state: Consumption, changed: Consumer) -> Consumption:
    """A consumer joined or left. Another consumer of a Failover subscription may become the active one."""
    if changed.kind == "Failover":
        for subscription in changed.subscriptions:
            for name, consumer in list(state.consumers_of(subscription)):
                state = state.with_consumer(name, replace(consumer, rewinds=consumer.rewinds + 1))
    return state


def _left(state: Consumption, name: str, at: Interval, *, is_graceful: bool) -> Consumption:
    """A consumer is gone. Its pending messages are due to the others."""
    consumer = state.consumers.get(name)
    if consumer is None:
        return state.without_untracked_consumer(name)
    state = state.without_consumer(name)
    for subscription in consumer.subscriptions:
        before = state.cursors[subscription]
        flushes = is_graceful and consumer.never_disconnected
        after = (
            cursor.closed(before, name, state.log(subscription.topic), at) if flushes else cursor.crashed(before, name)
        )
        had = [message for message in consumer.unacknowledged if message[0] == subscription.topic]
        if had:  # the next read of the subscription shows that these are unacknowledged
            after = replace(after, since=after.since | {"ACK-12" if consumer.kind in SHARED else "ACK-01"})
        state = state.with_cursor(subscription, after)
        state = membership.left(state.free(subscription, had, "left"), subscription, name, had)
        if not any(state.consumers_of(subscription)):
            # The redelivery counts end with the last consumer.
            state = (
                state.free(subscription, state.due(subscription), "left")
                if before.durable
                else state.without_cursor(subscription)
            )
    return _may_rewind(state, consumer)


def _reconnected(state: Consumption, name: str) -> Consumption:
    """A consumer was disconnected and reconnected. Its pending messages are due, to it or to others."""
    consumer = state.consumers.get(name)
    if consumer is None:
        return state
    back = replace(consumer, unacknowledged=Map(), is_settled=False, may_repeat=True, never_disconnected=False)
    state = state.with_consumer(name, back)
    for subscription in consumer.subscriptions:
        state = state.free(
            subscription, [message for message in consumer.unacknowledged if message[0] == subscription.topic], "left"
        )
        if [other for other, _ in state.consumers_of(subscription)] == [name]:
            state = state.free(subscription, state.due(subscription), "left")  # meanwhile there was none, as in _left
    return _may_rewind(state, consumer)


def _received(state: Consumption, name: str, count: int, outcome: Outcome) -> Judged:
    if name not in state.consumers or not isinstance(outcome, ReceivedMessages | Starved):
        return Allowed(state)
    is_settled = isinstance(outcome, ReceivedMessages) and outcome.settled
    is_short, had_permits_left = len(outcome.messages) < count, state.consumers[name].had_permits_left
    may_run_out = had_permits_left or any(one.batch_index >= 0 for one in outcome.messages)
    stats = outcome.withheld if isinstance(outcome, ReceivedMessages) else None
    is_blocked = isinstance(outcome, ReceivedMessages) and (outcome.blocked or stats is not None)

    def settled(after: Consumption) -> Judged:
        consumer = after.consumers[name]
        consumer = replace(consumer, is_settled=is_settled, had_permits_left=may_run_out or is_short)
        return Allowed(after.with_consumer(name, consumer))

    def limited(after: Consumption) -> Judged:
        return deliveries.limited(state, after, name, outcome).then(lambda _: Allowed(after))

    def missed(after: Consumption) -> Judged:
        judged = deliveries.missed(after, name) if is_short and not is_blocked else Allowed(None)
        if isinstance(judged, Broken):
            return chunks.unless_waiting(after, judged.then(lambda _: Allowed(after)), name)
        starved = _starved(after, name, outcome) if isinstance(outcome, Starved) else Allowed(after)
        return starved.after(judged) if isinstance(starved, Allowed) else starved.counting(judged)

    subscriptions = state.consumers[name].subscriptions
    steps: list[Callable[[Consumption], Judged]] = [
        partial(deliveries.received, name=name, messages=outcome.messages, is_all=is_settled),
        settled,
        limited,
    ]
    for one in subscriptions:
        steps.append(partial(deliveries.not_withheld, subscription=one, name=name, messages=outcome.messages))
    for one in subscriptions:
        steps.append(partial(deliveries.withheld, subscription=one, stats=stats))
    return in_turn(state, [*steps, missed])


def _cut_off(state: Consumption, doing: Receive | Acknowledge, outcome: Outcome, at: Interval) -> Judged:
    """A consumer lost its connection during an operation. The received part of the outcome holds, the rest may not."""
    name = doing.consumer
    if name not in state.consumers:
        return Allowed(state)
    judged: Judged = Allowed(state)
    if isinstance(outcome, ReceivedMessages):
        taking = state.with_consumer(name, replace(state.consumers[name], is_settled=False))
        judged = deliveries.received(taking, name, outcome.messages, is_all=False)
    elif isinstance(outcome, Acknowledged):
        cumulative = isinstance(doing, Acknowledge) and doing.cumulative
        after = acks.acknowledged(state, name, outcome, at, cumulative=cumulative, is_cut_off=True)
        judged = Allowed(_seen_by_others(state, after, name))
    return judged.then(lambda after: Allowed(_left(after, name, at, is_graceful=False)))


def _seen_by_others(before: Consumption, after: Consumption, name: str) -> Consumption:
    """Others receive the messages of a consumer that was cut off only after its acks took effect.

    So consumers with nothing in flight before have seen those acks.
    """
    for subscription in before.consumers[name].subscriptions:
        for other, consumer in list(after.consumers_of(subscription)):
            if other != name and (consumer.is_settled or is_gathered(before, consumer)):
                seen = consumer.seen.set(subscription.topic, after.cursors[subscription].possible)
                after = after.with_consumer(other, replace(consumer, seen=seen))
    return after


@carries("SERVE-03")
def _starved(state: Consumption, name: str, outcome: Starved) -> Judged:
    """Due messages do not arrive."""
    consumer = state.consumers[name]
    because = f"the broker dispatches nothing to {name} despite the backlog: {outcome.why}"
    return chunks.unless_waiting(state, due.starved(state, consumer.subscriptions, because), name)


def _had(state: Consumption, name: str, messages: Sequence[Delivery]) -> Consumption:
    """A consumer had these messages, received or not. So the broker had sent it their chunks."""
    consumer = state.consumers[name]
    for one in messages:
        if (message := state.place_of(consumer, one)) is not None:
            state = chunks.sent(state, SubscriptionId(message[0], consumer.subscription), name, message)
    return state


def _nacked(state: Consumption, name: str, messages: Sequence[Delivery] | None) -> Consumption:
    """A consumer nacked messages (None: all its pending ones). They are due for redelivery to any consumer."""
    consumer = state.consumers[name]
    mine: list[Message] = []
    named = [found for one in messages or () if (found := state.place_of(consumer, one)) is not None]
    is_all = messages is None or consumer.kind in IN_ORDER
    if messages is None:
        mine = list(consumer.unacknowledged)
    elif consumer.kind in IN_ORDER:
        topics = {topic for topic, _ in named}  # a single active consumer receives all of the topic again, in order
        mine = [message for message in consumer.unacknowledged if message[0] in topics]
    else:
        for topic, place in named:
            mine += messages_at(topic, state.log(topic), place.position)  # the broker redelivers whole entries
    due = [message for message in mine if message in consumer.unacknowledged]
    is_quiet = consumer.is_settled or is_gathered(state, consumer)
    twice = frozenset[Message]() if is_quiet else _in_flight(state, consumer).intersection(mine)
    consumer = consumer.without(due)
    if consumer.kind in SHARED:  # what was acknowledged elsewhere is not pending any more, either
        consumer = consumer if is_all else consumer.acknowledging(mine)
    consumer = replace(
        consumer,
        rewinds=consumer.rewinds + (consumer.kind in IN_ORDER),
        may_repeat=consumer.client == "official" or (is_all and not is_quiet),
        requested_twice=consumer.requested_twice | twice,
    )
    state = state.with_consumer(name, consumer)
    for subscription in consumer.subscriptions:
        state = membership.acked_by_others(
            state, subscription, name, [place.position for topic, place in twice if topic == subscription.topic]
        )
        again = [message for message in due if message[0] == subscription.topic]
        state = membership.nacked(state.free(subscription, again, "nacked"), subscription, again)
    return state


def _in_flight(state: Consumption, consumer: Consumer) -> set[Message]:
    """The messages of a consumer's subscriptions that are possibly unacknowledged, and that it has not received."""
    left = (message for subscription in consumer.subscriptions for message in state.all_left(subscription))
    return set(left).difference(consumer.unacknowledged)


def is_gathered(state: Consumption, consumer: Consumer) -> bool:
    """Whether everything in flight to a consumer was received, and no operation followed."""
    return all(state.keyed_of(subscription).is_gathered for subscription in consumer.subscriptions)
