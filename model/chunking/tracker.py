"""The observer of document 002: each operation with its outcome gives the next state, or the rule that it breaks.

The proxy records the commands, so each side is judged by its own: a producer's client by its sends
(:mod:`model.chunking.sends`), the broker by what it stores (:mod:`model.chunking.stored_chunks`) and dispatches
(:mod:`model.chunking.dispatch`), a consumer's client by what it delivers (:mod:`model.chunking.deliveries`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial

from model.chunking import acks, consumers, producers
from model.chunking.deliveries import fresh
from model.chunking.state import Chunking, ChunkingProducer, ChunkSubscription, ChunkTopic, TrackedConsumer
from model.events import (
    Acknowledged,
    AnyOutcome,
    ChunkRate,
    Created,
    CursorMoved,
    Done,
    DueReceived,
    LogRead,
    Opened,
    RedeliveryRequested,
    Sent,
    Subscribed,
    UnacknowledgedRead,
)
from model.judgement import Allowed, Broken
from model.operations import (
    AnyOperation,
    CloseProducer,
    CreateTopic,
    HoldAfterSends,
    OpenProducer,
    ReadChunkRate,
    ReadLog,
    Send,
)
from model.sessions import Session
from model.subscription_operations import (
    Acknowledge,
    CloseConsumer,
    CrashConsumer,
    Expire,
    Nack,
    ReadCursor,
    ReceiveDue,
    ResetCursor,
    Skip,
    Subscribe,
)
from model.traffic import Life
from model.vocabulary import LookAhead, SubscriptionId

Judged = Allowed[Chunking] | Broken
Sessions = Mapping[str, Session]


def judge(
    state: Chunking,
    sessions: Sessions,
    operation: AnyOperation,
    outcome: AnyOutcome,
    slowed: Collection[str] = (),
) -> Judged:
    """The possible states after this operation and outcome. ``slowed``: the topics where calls are slow."""
    match operation, outcome:
        case CreateTopic(topic), Created(limit_bytes=int() as limit_bytes):
            made = ChunkTopic(
                limit_bytes,
                outcome.deduplication,
                look_ahead=LookAhead(*outcome.look_ahead),
                drains=outcome.has_draining_hashes,
            )
            return Allowed(state.with_topic(topic, made))
        case OpenProducer(_, topic, producer), Opened():
            is_new = producer not in state.topics[topic].producers
            return Allowed(state.with_producer(topic, producer, ChunkingProducer()) if is_new else state)
        case Send(), Sent():
            return _sent(state, sessions, operation, outcome)
        case ReadChunkRate(session=session), ChunkRate():
            return producers.rate_read(state, sessions[session], operation, outcome)
        case ReadLog(topic), LogRead(parts=parts):
            return producers.log_read(state, topic, parts)
        case _:
            return _of_subscription(state, operation, outcome, slowed)


def _of_subscription(state: Chunking, operation: AnyOperation, outcome: AnyOutcome, slowed: Collection[str]) -> Judged:
    if isinstance(outcome, Subscribed | DueReceived) and outcome.drains is not None and operation.topic is not None:
        topic = operation.topic
        state = state.with_topic(topic, replace(state.topics[topic], drains=outcome.drains))
    match operation, outcome:
        case Subscribe(), Subscribed():
            return Allowed(_subscribed(state, operation))
        case ReceiveDue(topic, subscription), DueReceived(traffic=traffic, log=log):
            logged = producers.log_read(state, topic, log)
            received = partial(consumers.gathered, traffic=traffic, is_slowed=topic in slowed)
            return logged.then(lambda now: received(now, SubscriptionId(topic, subscription)))
        case Acknowledge() | Nack(), Acknowledged() | RedeliveryRequested():
            return acks.requested(state, operation, outcome)
        case CloseConsumer(name) | CrashConsumer(name), Done(traffic):
            return consumers.left(state, name, traffic)
        case Skip() | Expire() | ResetCursor(), CursorMoved():
            return acks.cursor_moved(state, SubscriptionId(operation.topic, operation.subscription), outcome)
        case ReadCursor(), UnacknowledgedRead(traffic=traffic):
            return consumers.all_passed(state, traffic)
        case _:
            return Allowed(state)


def _sent(state: Chunking, sessions: Sessions, operation: Send, outcome: Sent) -> Judged:
    judged = producers.sent(state, sessions[operation.session], operation.entries, outcome)
    match operation.interruption, outcome.other:
        case HoldAfterSends(_, session, entries), Sent() as other:
            return judged.then(lambda now: producers.sent(now, sessions[session], entries, other))
        case _:
            return judged


def _subscribed(state: Chunking, operation: Subscribe) -> Chunking:
    subscription_id = SubscriptionId(operation.topic, operation.subscription)
    client = fresh(pending=operation.max_pending_chunked, acks_discarded=operation.acks_oldest_chunked)
    consumer = TrackedConsumer(subscription=subscription_id, kind=operation.kind, client=client, queue=operation.queue)
    state = state.with_consumer(operation.consumer, consumer)
    return (
        state
        if subscription_id in state.subscriptions
        else state.with_subscription(subscription_id, ChunkSubscription())
    )


def unloaded(state: Chunking, topic: str | None = None) -> Chunking:
    """A topic (None: every topic) was reloaded after an unload or a kill."""
    for name, view in state.topics.items():
        if topic in (None, name):
            unloaded = {one: replace(producer, is_unloaded=True) for one, producer in view.producers.items()}
            state = state.with_topic(name, replace(view, producers=unloaded))
    for name, consumer in state.consumers.items():
        if topic in (None, consumer.subscription.topic):
            away = replace(consumer, holds=frozenset(), unsure=frozenset(), is_returning=True)
            state = state.with_consumer(name, away)
    return state.without_leavers(topic)


def finishing(state: Callable[[], Chunking], topic: str, sessions: Iterable[str]) -> Iterator[AnyOperation]:
    """The operations that end an example: a new consumer receives everything that is left, and acknowledges it.

    Each producer with unanswered sends is opened once more, so that the log is final.
    """
    for name in sessions:
        yield CloseProducer(name)
    for name, producer in list(state().topics[topic].producers.items()):
        if any(isinstance(act, Life) and act.has_unanswered for act in producer.acts):
            yield OpenProducer(f"again-{name}", topic, name)
            yield CloseProducer(f"again-{name}")
    yield ReadLog(topic)
    for subscription_id in [
        subscription_id for subscription_id in state().subscriptions if subscription_id.topic == topic
    ]:
        yield from _finishing_subscription(state, subscription_id)


def _finishing_subscription(state: Callable[[], Chunking], subscription_id: SubscriptionId) -> Iterator[AnyOperation]:
    for name, _ in list(state().consumers_of(subscription_id)):
        yield CloseConsumer(name)
    kind = next(one.kind for one in state().consumers.values() if one.subscription == subscription_id)
    last = f"last-{subscription_id.name}"
    yield Subscribe(last, *subscription_id, kind=kind, client="official", queue=1000, max_pending_chunked=0)
    yield ReceiveDue(*subscription_id)
    yield Acknowledge(last, tuple(range(len(state().topics[subscription_id.topic].log))))
    yield ReadCursor(*subscription_id)
