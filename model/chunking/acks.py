"""Acks, redelivery requests, skips and resets of chunked messages: CHUNK-07 for the client and the broker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from model.chunking.consumers import all_passed
from model.chunking.evidence import ByClient, LeftOut, NotRequested
from model.chunking.state import AssembledMessage, Chunking, TrackedConsumer
from model.events import Acknowledged, CursorMoved, RedeliveryRequested
from model.judgement import Allowed, Broken, all_of
from model.rules.catalogue import carries
from model.subscription_operations import Acknowledge, Nack
from model.traffic import CommandAck, CommandRedeliver, CommandSubscribe, ConsumerCommand, Delivery
from model.vocabulary import IN_ORDER, SubscriptionId

Judged = Allowed[Chunking] | Broken
Pair = tuple[Delivery, AssembledMessage]


def requested(
    state: Chunking,
    operation: Acknowledge | Nack,
    outcome: Acknowledged | RedeliveryRequested,
) -> Judged:
    """An application acknowledged or nacked messages. The proxy recorded the commands of its client."""
    name = operation.consumer
    consumer = state.consumers[name]
    chosen = [pair for pair in consumer.unacknowledged if operation.nth is None or pair[0] in outcome.messages]
    messages = [message for _, message in chosen]
    commands = [command for traffic in outcome.traffic for command in traffic.commands]
    if isinstance(operation, Nack):
        asked = all_of(_nacked(name, consumer, messages, commands))
        rest = consumer.unacknowledged if consumer.kind in IN_ORDER else _without(consumer, chosen)
    else:
        asked = all_of(_acknowledged(name, state, messages, commands, is_cumulative=operation.cumulative))
        rest = _without(consumer, chosen)
    exercised = ("CHUNK-07",) if any(message.is_split for message in messages) else ()

    def unacknowledged(after: Chunking) -> Judged:
        return Allowed(after.with_consumer(name, replace(after.consumers[name], unacknowledged=rest)), exercised)

    return asked.then(lambda _: all_passed(state, outcome.traffic)).then(unacknowledged)


def _without(consumer: TrackedConsumer, chosen: list[Pair]) -> tuple[Pair, ...]:
    return tuple(pair for pair in consumer.unacknowledged if pair not in chosen)


@carries("CHUNK-07")
def _acknowledged(
    name: str,
    state: Chunking,
    messages: list[AssembledMessage],
    commands: Sequence[ConsumerCommand],
    *,
    is_cumulative: bool,
) -> Iterator[Allowed[None] | Broken]:
    """All chunks of a message are acknowledged with it, those that are stored twice too, and nothing else is."""
    consumer = state.consumers[name]
    acking = [one for one in commands if isinstance(one, CommandAck)]
    named = frozenset(position for one in acking for position in one.positions)
    done = named | state.subscriptions[consumer.subscription].acknowledged
    for one in acking:
        if one.is_cumulative:
            log = state.topics[consumer.subscription.topic].log
            done |= {entry.position for entry in log if entry.position <= max(one.positions)}
    copies = named.difference(*(message.positions for message in messages))
    for message in messages:
        lacking = tuple(position for position in message.positions if position not in done)
        repeated = tuple(position for position in message.repeated if position not in done)
        if lacking or repeated:
            left_out = LeftOut(message, lacking, repeated, copies, is_cumulative=is_cumulative)
            yield _left_out(name, "acknowledged", left_out)
    wanted = {position for message in messages for position in (*message.positions, *message.repeated)}
    own = consumer.client.acknowledged | consumer.client.superseded
    if not is_cumulative and (extra := named - wanted - own):
        listed = ", ".join(map(str, sorted(extra)))
        because = f"the client of {name} acknowledged {listed}, which its application did not acknowledge"
        yield replace(_of_client(because), evidence=ByClient(name, extra))


@carries("CHUNK-07")
def _nacked(
    name: str, consumer: TrackedConsumer, messages: list[AssembledMessage], commands: Sequence[ConsumerCommand]
) -> Iterator[Allowed[None] | Broken]:
    """A redelivery request includes all chunks of a message. An ordered consumer receives everything again anyway."""
    asking = [one for one in commands if isinstance(one, CommandRedeliver)]
    if any(isinstance(one, CommandSubscribe) for one in commands):
        return  # it subscribed again, so it receives everything
    if not asking and messages:
        because = f"{name} nacked messages, but its client sent no redelivery request"
        nacked = frozenset(position for message in messages for position in message.positions)
        yield replace(_of_client(because), evidence=NotRequested(nacked)).passing_to(None)
        return
    if consumer.kind in IN_ORDER or any(not one.positions for one in asking):
        return
    named = frozenset(position for one in asking for position in one.positions)
    for message in messages:
        if lacking := tuple(position for position in message.positions if position not in named):
            yield _left_out(name, "nacked", LeftOut(message, lacking))


def _left_out(name: str, what: str, left_out: LeftOut) -> Broken:
    listed = ", ".join(map(str, (*left_out.chunks, *left_out.repeated)))
    what = f"{name} {what} message {left_out.message.sequence_id} of {left_out.message.producer}"
    because = f"{what}, but its client left out the chunks at {listed}"
    return replace(_of_client(because), evidence=left_out).passing_to(None)


def _of_client(because: str) -> Broken:
    return Broken("CHUNK-07", because, None, "client")


def cursor_moved(state: Chunking, subscription_id: SubscriptionId, outcome: CursorMoved) -> Judged:
    """An administrator moved a cursor. Document 003 judges that; here it is taken as it is."""
    return all_passed(state, outcome.traffic).then(
        lambda after: Allowed(_cursor_moved(after, subscription_id, outcome))
    )


def _cursor_moved(state: Chunking, subscription_id: SubscriptionId, outcome: CursorMoved) -> Chunking:
    state = state.with_subscription(subscription_id, replace(state.subscriptions[subscription_id], delivered={}))
    unacknowledged = frozenset(outcome.after)
    for name, consumer in state.consumers_of(subscription_id):
        state = state.with_consumer(name, replace(consumer, holds=consumer.holds & unacknowledged))
    return state
