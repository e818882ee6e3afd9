"""Consumers of chunked topics: judges the broker's dispatch and the client's delivery separately."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from model.chunking import deliveries, dispatch
from model.chunking.evidence import ByClient, ChunksUndispatched, DeliveredLate, DiscardedNotRequested
from model.chunking.state import (
    AssembledMessage,
    Chunking,
    ChunkSubscription,
    ChunkTopic,
    TrackedConsumer,
)
from model.chunking.stored_chunks import wholes
from model.judgement import HOLDS, Allowed, Broken, in_turn
from model.rules.catalogue import carries
from model.traffic import CommandAck, CommandMessage, Delivery, Traffic
from model.vocabulary import IN_ORDER, SubscriptionId

Judged = Allowed[Chunking] | Broken
Pairs = list[tuple[Delivery, AssembledMessage]]


def passed(state: Chunking, traffic: Traffic, *, is_read: bool = False) -> Judged:
    """Judges the commands between the broker and a consumer; deliveries to the application are judged separately."""
    judged = dispatch.met(state, traffic.consumer, traffic.commands, is_read=is_read)
    return judged.then(lambda after: Allowed(_with_client(after, traffic)))


def _with_client(state: Chunking, traffic: Traffic) -> Chunking:
    consumer = state.consumers[traffic.consumer]
    client = deliveries.met(consumer.client, traffic.commands)
    return state.with_consumer(traffic.consumer, replace(consumer, client=client))


def all_passed(state: Chunking, traffic: Sequence[Traffic]) -> Judged:
    """The same for several consumers."""
    there = [one for one in traffic if one.consumer in state.consumers]
    return in_turn(state, [partial(passed, traffic=one) for one in there])


def gathered(
    state: Chunking, subscription_id: SubscriptionId, traffic: Sequence[Traffic], *, is_slowed: bool = False
) -> Judged:
    """Everything due was received, and the log was read after that. ``is_slowed``: a failpoint makes calls race."""
    there = [one for one in traffic if one.consumer in state.consumers]
    received = in_turn(state, [partial(_received, subscription_id=subscription_id, traffic=one) for one in there])
    return received.then(lambda after: _all_came(after, subscription_id, is_slowed=is_slowed))


def _received(state: Chunking, subscription_id: SubscriptionId, traffic: Traffic) -> Judged:
    before = state.subscriptions[subscription_id]
    return passed(state, traffic, is_read=True).then(
        lambda after: _delivered(_caught_up(after, traffic), subscription_id, before, traffic)
    )


def _caught_up(state: Chunking, traffic: Traffic) -> Chunking:
    """An ordered consumer was sent everything, unless the last entry that it was sent is not the next one."""
    consumer = state.consumers[traffic.consumer]
    sent = [one.position for one in traffic.commands if isinstance(one, CommandMessage)]
    if consumer.kind not in IN_ORDER or sent[-1:] not in ([], [consumer.last]):
        return state
    return state.with_consumer(traffic.consumer, replace(consumer, last=max(consumer.holds, default=consumer.last)))


def _delivered(state: Chunking, subscription_id: SubscriptionId, before: ChunkSubscription, traffic: Traffic) -> Judged:
    """What the client delivered and acknowledged. ``before``: the subscription before that."""
    name = traffic.consumer
    consumer = state.consumers[name]
    if (unasked := _acknowledged_unasked(consumer, before, traffic)) is not None:
        return unasked
    compared = deliveries.compared(name, consumer, traffic.received)
    if isinstance(compared, Broken):
        return compared
    after, pairs = compared
    exercised = tuple(sorted({*consumer.client.rules, *_exercised_by(after, pairs)}))
    ordered = _in_order(state.with_consumer(name, after), subscription_id, name, pairs)
    payloads = deliveries.have_payloads(name, pairs, _digests(state.topics[subscription_id.topic]))
    return Allowed(None, exercised).then(lambda _: payloads).then(lambda _: ordered)


@carries("CHUNK-08")
def _acknowledged_unasked(
    consumer: TrackedConsumer, subscription: ChunkSubscription, traffic: Traffic
) -> Broken | None:
    """Without its application, a consumer acknowledges only what it discards, and only if so configured, and entries
    whose chunk it has from another entry."""
    allowed = subscription.acknowledged | consumer.client.acknowledged | consumer.client.superseded
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
    """Whether a message may arrive late, because its chunks were delayed."""
    return not state.subscriptions[subscription_id].delayed.isdisjoint(message.positions)


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


def _all_came(state: Chunking, subscription_id: SubscriptionId, *, is_slowed: bool) -> Judged:
    """No due entry is missing, and discarded entries were requested again."""
    there = dict(state.consumers_of(subscription_id))
    if not there:
        return Allowed(state)
    is_ordered = next(iter(there.values())).kind in IN_ORDER
    together = HOLDS if is_ordered else dispatch.together(state, subscription_id)
    for name, consumer in there.items():
        state = state.with_consumer(name, replace(consumer, is_returning=False))
    return together.then(lambda _: _dispatched(state, subscription_id, is_slowed=is_slowed)).then(
        lambda after: in_turn(
            after, [partial(_discarded_requested, subscription_id=subscription_id, name=name) for name in there]
        )
    )


def _dispatched(state: Chunking, subscription_id: SubscriptionId, *, is_slowed: bool) -> Judged:
    """No due entry is missing."""
    there = dict(state.consumers_of(subscription_id))
    kind, left = next(iter(there.values())).kind, state.left(subscription_id)
    owed = tuple(dispatch.due(kind, left, [one.holds for one in there.values()]))
    look = ChunksUndispatched(state, subscription_id, owed, is_slowed)
    if owed:
        return dispatch.starved(look)
    is_exercised = kind not in IN_ORDER and len(there) > 1 and any(len(whole) > 1 for whole in wholes(left))
    return Allowed(state, (*(("CHUNK-14",) if is_exercised else ()), *(("CHUNK-15",) if dispatch.tests(look) else ())))


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
    evidence = DiscardedNotRequested(name, client.requests_discarded)
    return Broken("CHUNK-08", because, None, "client", evidence=evidence).passing_to(after)


def left(state: Chunking, name: str, traffic: Sequence[Traffic]) -> Judged:
    """A consumer is gone; its pending entries return to the broker."""
    return all_passed(state, traffic).then(lambda after: Allowed(_gone(after, name)))


def _gone(state: Chunking, name: str) -> Chunking:
    consumer = state.consumers[name]
    subscription = state.subscriptions[consumer.subscription]
    had = replace(subscription, of_leavers=subscription.of_leavers | consumer.holds)
    gone = replace(consumer, is_there=False, holds=frozenset(), unacknowledged=())
    return state.with_consumer(name, gone).with_subscription(consumer.subscription, had)
