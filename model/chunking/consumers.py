"""Consumers of chunked topics: judges the broker's dispatch and the client's delivery separately."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial

from model.chunking import deliveries, dispatch
from model.chunking.evidence import ByClient, DeliveredLate, DiscardedNotRequested
from model.chunking.state import (
    AssembledMessage,
    Chunking,
    ChunkSubscription,
    ChunkTopic,
    TrackedConsumer,
)
from model.chunking.stored_chunks import wholes
from model.excuses import DEVIATIONS
from model.excuses.chunking import CHUNK_ASSIGNED_BEYOND_PERMITS
from model.judgement import Allowed, Broken, in_turn, overdue
from model.log import Position
from model.rules.catalogue import carries
from model.traffic import CommandAck, CommandSubscribe, Delivery, LoggedPart, Traffic
from model.vocabulary import IN_ORDER, SubscriptionId

Judged = Allowed[Chunking] | Broken
Pairs = list[tuple[Delivery, AssembledMessage]]


def passed(state: Chunking, traffic: Traffic, known: frozenset[str], *, is_read: bool = False) -> Judged:
    """Judges the commands between the broker and a consumer; deliveries to the application are judged separately."""
    consumer = state.consumers[traffic.consumer]
    subscription_id = SubscriptionId(consumer.topic, consumer.subscription)
    met = dispatch.met(
        state.topics[subscription_id.topic],
        state.subscriptions[subscription_id],
        traffic.consumer,
        consumer,
        traffic.commands,
        known,
        is_read=is_read,
    )
    if isinstance(met, Broken):
        return met
    subscription, consumer, deviations = met
    consumer = replace(consumer, client=deliveries.met(consumer.client, traffic.commands))
    state = state.with_subscription(subscription_id, subscription).with_consumer(traffic.consumer, consumer)
    if any(isinstance(command, CommandSubscribe) for command in traffic.commands):
        state = state.with_reassigned_hashes(subscription_id)
    return Allowed(state, (), deviations)


def all_passed(state: Chunking, traffic: Sequence[Traffic], known: frozenset[str]) -> Judged:
    """The same for several consumers."""
    there = [one for one in traffic if one.consumer in state.consumers]
    return in_turn(state, [partial(passed, traffic=one, known=known) for one in there])


def gathered(
    state: Chunking, subscription_id: SubscriptionId, traffic: Sequence[Traffic], known: frozenset[str]
) -> Judged:
    """Everything due was received, and the log was read after that."""
    there = [one for one in traffic if one.consumer in state.consumers]
    received = in_turn(
        state, [partial(_received, subscription_id=subscription_id, traffic=one, known=known) for one in there]
    )
    return received.then(lambda after: _all_came(after, subscription_id, known))


def _received(state: Chunking, subscription_id: SubscriptionId, traffic: Traffic, known: frozenset[str]) -> Judged:
    name = traffic.consumer
    judged = passed(state, traffic, known, is_read=True)
    if isinstance(judged, Broken):
        return judged
    after = judged.state
    before = after.consumers[name]
    if state.consumers[name].asked_after is not None and not judged.deviations:
        # Both reads have ended: the next entry is the one after all that they sent.
        last = max(before.holds, default=before.last) if before.skipped else before.last
        before = replace(before, asked_after=None, last=last)
    if (unasked := _acknowledged_unasked(before, state.subscriptions[subscription_id], traffic)) is not None:
        return unasked
    compared = deliveries.compared(name, before, traffic.received, _digests(after.topics[subscription_id.topic]))
    if isinstance(compared, Broken):
        return compared
    consumer, pairs = compared
    exercised = tuple(sorted({*before.client.rules, *_exercised_by(consumer, pairs)}))
    ordered = _in_order(after.with_consumer(name, consumer), subscription_id, name, pairs)
    return Allowed(None, exercised).after(judged).then(lambda _: ordered)


@carries("CHUNK-08")
def _acknowledged_unasked(
    consumer: TrackedConsumer, subscription: ChunkSubscription, traffic: Traffic
) -> Broken | None:
    """Without its application, a consumer acknowledges only what it discards, and only if so configured."""
    allowed = subscription.acknowledged | consumer.client.acknowledged
    unasked = {at for one in traffic.commands if isinstance(one, CommandAck) for at in one.positions} - allowed
    if not unasked:
        return None
    what = f"the client of {traffic.consumer} acknowledged {', '.join(map(str, sorted(unasked)))}"
    because = f"{what}, which its application did not acknowledge and the client did not discard"
    return Broken("CHUNK-08", because, None, "client", evidence=ByClient(traffic.consumer, frozenset(unasked)))


def _digests(topic: ChunkTopic) -> dict[tuple[str, int], str]:
    return {
        (name, asked.sequence_id): asked.digest
        for name, producer in topic.producers.items()
        for asked in producer.asked
    }


def is_exempt(state: Chunking, subscription_id: SubscriptionId, message: AssembledMessage) -> bool:
    """Whether a message may arrive late.

    Its chunks were delayed, or by a known deviation the log lost some of them, or has some twice.
    """
    deviating = state.topics[subscription_id.topic].deviating
    is_delayed = not state.subscriptions[subscription_id].delayed.isdisjoint(message.positions)
    return is_delayed or (message.producer, message.sequence_id) in deviating


def _in_order(state: Chunking, subscription_id: SubscriptionId, name: str, pairs: Pairs) -> Judged:
    """The first deliveries of a producer's messages follow its order, except for delayed messages.

    After a consumer without ordering, the order starts over.
    """
    consumer = state.consumers[name]
    subscription = state.subscriptions[subscription_id]
    subscription = replace(subscription, delayed=subscription.delayed | consumer.client.delayed)
    if consumer.kind in IN_ORDER:
        steps = [partial(_next, subscription_id=subscription_id, name=name, message=one) for _, one in pairs]
        return in_turn(state.with_subscription(subscription_id, subscription), steps)
    here = frozenset((message.producer, message.sequence_id) for _, message in pairs)
    unordered = replace(subscription, delivered={}, seen=subscription.seen | here)
    return Allowed(state.with_subscription(subscription_id, unordered))


@carries("CHUNK-05")
def _next(state: Chunking, subscription_id: SubscriptionId, name: str, message: AssembledMessage) -> Judged:
    """The next message that an ordered consumer is given."""
    topic, subscription = state.topics[subscription_id.topic], state.subscriptions[subscription_id]
    if is_exempt(state, subscription_id, message):
        return Allowed(state, excused=("CHUNK-05",))
    this = (message.producer, message.sequence_id)
    asked = topic.producers[message.producer].of(message.sequence_id)
    if this in subscription.seen or asked is None or asked.is_crafted:
        return Allowed(state)
    highest = subscription.delivered.get(message.producer, 0)
    if message.sequence_id < highest and not _was_stored_later(topic, this, highest):
        what = f"the client of {name} delivered message {message.sequence_id} of {message.producer} after {highest}"
        late = DeliveredLate(state, subscription_id, message)
        return Broken("CHUNK-05", what, None, "client", evidence=late).passing_to(state)
    delivered = {**subscription.delivered, message.producer: max(highest, message.sequence_id)}
    after = replace(subscription, delivered=delivered, seen=subscription.seen | {this})
    return Allowed(state.with_subscription(subscription_id, after))


def _was_stored_later(topic: ChunkTopic, this: tuple[str, int], other: int) -> bool:
    """Whether a message's last chunk is after another message's in the log, because it was resent."""

    def last(sequence_id: int) -> int:
        found = [
            number
            for number, entry in enumerate(topic.log)
            if (entry.producer, entry.part.sequence_id) == (this[0], sequence_id) and entry.part.is_last
        ]
        return min(found, default=-1)

    return last(this[1]) > last(other)


def _exercised_by(consumer: TrackedConsumer, pairs: Pairs) -> set[str]:
    split = [message for _, message in pairs if message.is_split]
    rules = {"CHUNK-04"} if split else set()
    is_ordered = consumer.kind in IN_ORDER
    if is_ordered and any(a.producer == b.producer for a in split for _, b in pairs if a is not b):
        rules.add("CHUNK-05")
    earlier = {(message.producer, message.sequence_id) for _, message in consumer.unacknowledged[: -len(pairs) or None]}
    if any((message.producer, message.sequence_id) in earlier for message in split):
        rules.add("CHUNK-07")
    return rules


def _starved(
    state: Chunking,
    subscription_id: SubscriptionId,
    there: Mapping[str, TrackedConsumer],
    owed: Sequence[Position],
    known: frozenset[str],
    *,
    is_stuck: bool,
) -> tuple[ChunkSubscription, Broken]:
    """Due entries were not dispatched: the rule that this breaks, and what is known of the subscription then.

    ``is_stuck``: there is a chunk that the broker cannot assign.
    """
    topic, before = state.topics[subscription_id.topic], state.subscriptions[subscription_id]
    broken = dispatch.starved(subscription_id, topic, list(there.values()), owed, known, is_stuck=is_stuck)
    stalled, after = before.beyond_permits, replace(before, beyond_permits=None)
    continues = stalled is not None and stalled[0] == owed[0] and stalled[1] <= there.keys()
    if continues and _is_better(CHUNK_ASSIGNED_BEYOND_PERMITS, broken, known):
        # Permits do not end the stall.
        broken = overdue(DEVIATIONS[CHUNK_ASSIGNED_BEYOND_PERMITS].broken(broken.because))
    if broken.deviation == CHUNK_ASSIGNED_BEYOND_PERMITS:
        after = replace(after, beyond_permits=(owed[0], dispatch.holders(topic, there, owed[0])))
    is_all_up_to = [one.position for one in topic.log if one.position <= owed[-1]] == owed
    is_skipped = before.is_as_created and is_all_up_to
    if is_skipped and _is_better(dispatch.CREATED_CURSOR_PERSISTED_AT_LATEST, broken, known):
        broken = overdue(Broken(broken.rule, broken.because, dispatch.CREATED_CURSOR_PERSISTED_AT_LATEST, "broker"))
        after = replace(after, acknowledged=before.acknowledged.union(owed))
    return after, broken


def _is_better(deviation: str, broken: Broken, known: frozenset[str]) -> bool:
    """Whether a deviation explains a violation that has no name, or is known while that is not."""
    return broken.deviation is None or (deviation in known and broken.deviation not in known)


def _all_came(state: Chunking, subscription_id: SubscriptionId, known: frozenset[str]) -> Judged:
    """No due entry is missing, and discarded entries were requested again."""
    subscription = state.subscriptions[subscription_id]
    for name, consumer in state.consumers_of(subscription_id):
        if consumer.is_reassigning:
            reassigned = replace(consumer, is_reassigning=False, reassigned=consumer.holds)
            state = state.with_consumer(name, reassigned)
    there = dict(state.consumers_of(subscription_id))
    deviations: list[str] = []
    if not there:
        return Allowed(state)
    kind = next(iter(there.values())).kind
    left, holds = state.left(subscription_id), [one.holds for one in there.values()]
    together = dispatch.together(left, there, known) if kind not in IN_ORDER else Allowed(None)
    if isinstance(together, Broken):
        return together
    deviations.extend(together.deviations)
    for name, consumer in there.items():
        state = state.with_consumer(name, replace(consumer, is_returning=False))
    there = dict(state.consumers_of(subscription_id))
    skipped = {position for one in there.values() for position in one.skipped}
    owed = [position for position in dispatch.due(kind, left, holds) if position not in skipped]
    is_shared = kind not in IN_ORDER and len(there) > 1
    is_exercised = is_shared and not owed and any(len(whole) > 1 for whole in wholes(left))
    subscription = replace(subscription, beyond_permits=None)
    if owed:
        is_stuck = kind == "Shared" and _has_stuck_chunk(subscription, left, holds)
        subscription, broken = _starved(state, subscription_id, there, owed, known, is_stuck=is_stuck)
        if broken.deviation is None or broken.deviation not in known:
            return broken
        deviations.append(broken.deviation)
    state = state.with_subscription(subscription_id, subscription)
    requested = in_turn(
        state, [partial(_discarded_requested, subscription_id=subscription_id, name=name) for name in there]
    )
    return requested.then(lambda after: Allowed(after, ("CHUNK-14",) if is_exercised else (), tuple(deviations)))


@carries("CHUNK-08")
def _discarded_requested(state: Chunking, subscription_id: SubscriptionId, name: str) -> Judged:
    """A client requests redelivery of the entries that it discarded."""
    consumer = state.consumers[name]
    client = consumer.client
    discarded = client.discarded - state.subscriptions[subscription_id].acknowledged
    if not discarded:
        return Allowed(state)
    because = f"{name} discarded {', '.join(map(str, sorted(discarded)))} without a redelivery request"
    if client.requests_discarded:
        because = f"{because}, but requested others that it discarded"
    forgiving = replace(client, discarded=frozenset())
    after = state.with_consumer(name, replace(consumer, client=forgiving))
    evidence = DiscardedNotRequested(client.requests_discarded)
    return Broken("CHUNK-08", because, None, "client", evidence=evidence).passing_to(after)


def _has_stuck_chunk(
    subscription: ChunkSubscription, left: Sequence[LoggedPart], holds: Sequence[Collection[Position]]
) -> bool:
    """Whether an unacknowledged chunk is pending at no consumer, and the broker cannot assign it."""
    free = (one.part.chunk for one in left if not any(one.position in positions for positions in holds))
    return subscription.assignment.is_stuck(chunk for chunk in free if chunk is not None)


def left(state: Chunking, name: str, traffic: Sequence[Traffic], known: frozenset[str]) -> Judged:
    """A consumer is gone; its pending entries return to the broker."""
    judged = all_passed(state, traffic, known)
    if isinstance(judged, Broken):
        return judged
    after = judged.state
    consumer = after.consumers[name]
    subscription_id = SubscriptionId(consumer.topic, consumer.subscription)
    before = after.subscriptions[subscription_id]
    subscription = replace(before, assignment=before.assignment.without(name))
    gone = replace(consumer, is_there=False, holds=frozenset(), unacknowledged=())
    after = after.with_subscription(subscription_id, subscription).with_consumer(name, gone)
    return judged.of(after.with_reassigned_hashes(subscription_id))
