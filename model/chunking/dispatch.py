"""Judges the dispatch of a chunked topic by its log and acks: the broker's side of the wire.

The broker sends unacknowledged entries to an ordered consumer (Exclusive, Failover) in the order of the log. After the
consumer subscribed or requested redelivery, it begins with the first. Of shared subscriptions the document describes
little that releases implement. The rules here are that the broker sends only stored entries, each for a permit, and
sends each complete message to a consumer (CHUNK-09, CHUNK-14), also when its accounts are put to a test (CHUNK-15).

The performer waits for :func:`due` too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import assert_never

from model.chunking.evidence import BeyondPermits, ChunksUndispatched, OutOfOrder, Scattered
from model.chunking.state import Chunking, ChunkSubscription, ChunkTopic, TrackedConsumer
from model.chunking.stored_chunks import wholes
from model.judgement import HOLDS, Allowed, Broken, all_of, in_turn, judges_waits
from model.log import Position
from model.rules.catalogue import carries
from model.traffic import (
    CommandAck,
    CommandFlow,
    CommandMessage,
    CommandRedeliver,
    CommandSubscribe,
    ConsumerCommand,
    LoggedPart,
)
from model.vocabulary import IN_ORDER, SubscriptionId, SubscriptionType

Judged = Allowed[Chunking] | Broken


def met(state: Chunking, name: str, passed: Sequence[ConsumerCommand], *, is_read: bool) -> Judged:
    """A subscription and one of its consumers after these commands. ``is_read``: the log was read after them."""
    each = enumerate(passed)
    steps = [partial(_met, name=name, one=one, number=number, is_read=is_read) for number, one in each]
    return in_turn(state, steps)


def _met(state: Chunking, name: str, one: ConsumerCommand, number: int, *, is_read: bool) -> Judged:
    consumer = state.consumers[name]
    topic, subscription = state.topics[consumer.subscription.topic], state.subscriptions[consumer.subscription]
    match one:
        case CommandMessage():
            is_stored = _is_of_the_log(name, one, topic) if is_read else HOLDS
            return is_stored.then(lambda _: _with_permit(state, name, one, number)).then(
                lambda after: _sent(after, name, one, number)
            )
        case CommandAck(positions, is_cumulative):
            acknowledged = _acknowledged(topic, positions, is_cumulative=is_cumulative)
            subscription = replace(subscription, acknowledged=subscription.acknowledged | acknowledged)
            after = replace(consumer, holds=consumer.holds - acknowledged)
            return Allowed(state.with_subscription(consumer.subscription, subscription).with_consumer(name, after))
        case CommandRedeliver(positions):
            return Allowed(state.with_consumer(name, _asked(consumer, positions)))
        case CommandSubscribe():
            fresh = replace(consumer, is_rewound=True, requests=0, last=None, holds=frozenset(), unsure=frozenset())
            fresh = replace(fresh, is_returning=False, permits=None, awaits_permits=True)
            return Allowed(state.with_consumer(name, fresh))
        case CommandFlow(permits):
            return Allowed(state.with_consumer(name, _with_permits(consumer, permits)))
        case _:
            assert_never(one)


def _acknowledged(topic: ChunkTopic, positions: tuple[Position, ...], *, is_cumulative: bool) -> frozenset[Position]:
    if not is_cumulative:
        return frozenset(positions)
    last = max(positions)
    return frozenset(entry.position for entry in topic.log if entry.position <= last)


def _asked(consumer: TrackedConsumer, positions: tuple[Position, ...]) -> TrackedConsumer:
    if consumer.kind in IN_ORDER:
        return replace(consumer, is_rewound=True, requests=consumer.requests + 1, holds=frozenset())
    if not positions:
        return replace(consumer, is_rewound=True, is_returning=True, holds=frozenset())
    return replace(consumer, holds=consumer.holds - frozenset(positions))


@carries("CHUNK-03")
def _is_of_the_log(name: str, came: CommandMessage, topic: ChunkTopic) -> Allowed[None] | Broken:
    entry = next((entry for entry in topic.log if entry.position == came.position), None)
    if entry is None:
        return _by_broker(
            "CHUNK-03", f"the broker dispatched {came.part} at {came.position} to {name}, but the log has no such entry"
        )
    if (entry.producer, entry.part) != (came.producer, came.part):
        what = f"the broker dispatched {came.part} of {came.producer} at {came.position} to {name}"
        return _by_broker("CHUNK-03", f"{what}, but the log has {entry.part} of {entry.producer} there, or other bytes")
    return HOLDS


def _with_permits(consumer: TrackedConsumer, permits: int) -> TrackedConsumer:
    """Permits count from the first ones after the subscribe on."""
    if consumer.permits is None and not consumer.awaits_permits:
        return consumer
    return replace(consumer, permits=(consumer.permits or 0) + permits, awaits_permits=False)


@carries("CHUNK-15")
def _with_permit(state: Chunking, name: str, came: CommandMessage, number: int) -> Judged:
    """An entry takes a permit, be it a chunk or not."""
    consumer = state.consumers[name]
    if consumer.permits is None:
        return Allowed(state.with_consumer(name, replace(consumer, awaits_permits=False)))
    after = state.with_consumer(name, replace(consumer, permits=max(0, consumer.permits - 1)))
    if consumer.permits:
        return Allowed(after)
    because = f"the broker dispatched {came.part} of {came.producer} at {came.position} to {name} without a permit"
    return replace(_by_broker("CHUNK-15", because), evidence=BeyondPermits(state, name, number)).passing_to(after)


@carries("CHUNK-05", "CHUNK-07")
def _sent(state: Chunking, name: str, came: CommandMessage, number: int) -> Judged:
    """An ordered consumer is sent the next unacknowledged entry, or the first one once for each redelivery request."""
    consumer = state.consumers[name]
    topic, subscription = state.topics[consumer.subscription.topic], state.subscriptions[consumer.subscription]
    at, last = came.position, consumer.last
    sent = replace(consumer, holds=consumer.holds | {at})
    if consumer.is_returning:
        sent = replace(sent, unsure=sent.unsure | {at})
    if consumer.kind not in IN_ORDER:
        return Allowed(state.with_consumer(name, sent))
    if (consumer.is_rewound or consumer.requests) and not _between(topic, subscription, None, at):
        left = max(0, consumer.requests - 1)
        first = replace(consumer, last=at, is_rewound=False, requests=left, holds=frozenset({at}))
        return Allowed(state.with_consumer(name, first))
    if last is not None and at > last and not _between(topic, subscription, last, at):
        after = consumer if consumer.is_rewound else sent
        return Allowed(state.with_consumer(name, replace(after, last=at)))
    rule = "CHUNK-07" if consumer.is_rewound else "CHUNK-05"
    after_what = f"after {last}" if last is not None else "first"
    left_out = _between(topic, subscription, last if last and at > last else None, at)
    listed = ", ".join(map(str, left_out))
    why = f"although {listed} is not acknowledged" if left_out else "although no redelivery was requested"
    because = f"the broker dispatched {came.part} of {came.producer} at {at} to {name} {after_what}, {why}"
    evidence = OutOfOrder(state, name, at, number, tuple(left_out))
    # What was left out may follow.
    return replace(_by_broker(rule, because), evidence=evidence).passing_to(state.with_consumer(name, sent))


def _between(
    topic: ChunkTopic, subscription: ChunkSubscription, after: Position | None, before: Position
) -> list[Position]:
    """The unacknowledged entries between two positions, or before one."""
    return [
        entry.position
        for entry in topic.log
        if entry.position < before
        and (after is None or entry.position > after)
        and entry.position not in subscription.acknowledged
    ]


def due(kind: SubscriptionType, left: Sequence[LoggedPart], holds: Sequence[Collection[Position]]) -> list[Position]:
    """The unacknowledged entries that are due and were not sent. ``holds``: the entries sent to each consumer.

    All entries are due to an ordered consumer. On shared subscriptions complete messages are due. With several
    consumers of a Key_Shared subscription, a message may wait until others of its hash are acknowledged. It is due only
    while no application has a message to acknowledge, because it would then wait forever.
    """
    if not holds:
        return []
    sent = frozenset().union(*holds)
    if kind in IN_ORDER:
        return [entry.position for entry in left if entry.position not in sent]
    there = [{entry.position for entry in whole} for whole in wholes(left)]
    if kind == "Key_Shared" and len(holds) > 1 and any(whole <= set(one) for whole in there for one in holds):
        return []
    return sorted(position for whole in there for position in whole if position not in sent)


@carries("CHUNK-14")
def together(state: Chunking, subscription_id: SubscriptionId) -> Allowed[None] | Broken:
    """All entries of a complete message are pending at one consumer of a shared subscription.

    A message that may have been sent twice, because of a redelivery request for everything, is not judged.
    """
    return all_of(_scattered(state, subscription_id))


def _scattered(state: Chunking, subscription_id: SubscriptionId) -> Iterator[Broken]:
    consumers = dict(state.consumers_of(subscription_id))
    unsure = frozenset[Position]().union(*(consumer.unsure for consumer in consumers.values()))
    for whole in wholes(state.left(subscription_id)):
        positions = frozenset(entry.position for entry in whole)
        having = tuple(name for name, consumer in consumers.items() if consumer.holds & positions)
        if len(having) > 1 and not positions & unsure:
            part = whole[-1].part
            what = f"message {part.sequence_id} of {whole[-1].producer}, whose last entry is at {max(positions)}"
            because = f"the broker dispatched entries of {what}, to {' and to '.join(having)}"
            evidence = Scattered(state, positions, having)
            yield replace(_by_broker("CHUNK-14", because), evidence=evidence).passing_to(None)


@judges_waits
def starved(undispatched: ChunksUndispatched) -> Judged:
    """Due entries were not dispatched. Those that a deviation explains may stay so."""
    if not undispatched.owed:
        return Allowed(undispatched.state)
    broken = _starved(undispatched)
    return replace(broken, evidence=undispatched, passed=lambda part: starved(undispatched.without(part)))


@carries("CHUNK-09", "CHUNK-14", "CHUNK-15")
def _starved(undispatched: ChunksUndispatched) -> Broken:
    where = f"subscription {undispatched.subscription.name} of {undispatched.subscription.topic}"
    owed = undispatched.owed
    what = f"the broker does not dispatch {len(owed)} entries from {owed[0]} on to {where}"
    if all(one.permits == 0 for one in undispatched.consumers.values()):
        return Broken("CHUNK-15", f"{what}: its consumers have given no more permits", None, "client")
    if tests := [test for whole in wholes(undispatched.topic.log) if (test := _tested(undispatched, whole))]:
        return _by_broker("CHUNK-15", f"{what}, {tests[0]}")
    if unfinished(undispatched.topic):
        return _by_broker("CHUNK-09", f"{what}, while the log has unfinished messages")
    return _by_broker("CHUNK-03" if len(undispatched.consumers) < 2 else "CHUNK-14", what)


def _tested(undispatched: ChunksUndispatched, whole: Sequence[LoggedPart]) -> str:
    """The test for the broker's accounts in a message with entries that are owed."""
    positions = [entry.position for entry in whole]
    return "" if set(positions).isdisjoint(undispatched.owed) else test_of(undispatched, positions)


def tests(look: ChunksUndispatched) -> bool:
    """Whether an unacknowledged message puts the broker's accounts to a test, so that its dispatch shows CHUNK-15."""
    left = wholes(look.state.left(look.subscription))
    return any(test_of(look, [entry.position for entry in whole]) for whole in left)


def test_of(look: ChunksUndispatched, whole: Sequence[Position]) -> str:
    """What makes it hard to dispatch all chunks of a message to one consumer: a slow read, a leave, few permits."""
    if len(whole) < 2:
        return ""
    if look.is_slowed:
        return "while its reads are slow"
    if not look.state.subscriptions[look.subscription].of_leavers.isdisjoint(whole):
        return "since a consumer left that had chunks of the same message"
    if any(is_pressed(one, whole) for one in look.consumers.values()):
        return f"where the {len(whole)} chunks of a message may take all permits of a consumer"
    return ""


def is_pressed(consumer: TrackedConsumer, whole: Collection[Position]) -> bool:
    """Whether the permits of a consumer may run out within a message. They are as many as its receiver queue has
    places, if any."""
    return 0 < consumer.queue <= max(len(whole) - 1, len(consumer.holds))


def unfinished(topic: ChunkTopic) -> frozenset[Position]:
    """The chunks of messages that are not complete in the log."""
    complete = {entry.position for whole in wholes(topic.log) for entry in whole}
    return frozenset(entry.position for entry in topic.log if entry.position not in complete)


def _by_broker(rule: str, because: str) -> Broken:
    return Broken(rule, because, None, "broker")
