"""Document 002, followed from outside: what each operation with its outcome leaves possible, rule by rule.

The wire is watched, so that each side is judged by what passed: a producing client by what it was asked to send
(:mod:`model.chunking.sending`), the broker by what it was sent (:mod:`model.chunking.storing`) and what it sends on
(:mod:`model.chunking.dispatching`), a consuming client by what it was sent (:mod:`model.chunking.receiving`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import assert_never

from model.chunking import acknowledging, consuming, producing
from model.chunking.receiving import fresh_lanes
from model.chunking.state import Chunking, Consumer, Key, Producer, Session, Subscription, Topic
from model.chunking.vocabulary import (
    AcknowledgeChunked,
    ChunkedAsked,
    ChunkedBacklog,
    ChunkedGathered,
    ChunkedLeft,
    ChunkedLog,
    ChunkedSubscribed,
    ChunkedTopic,
    ChunkOperation,
    ChunkRate,
    CreateChunkedTopic,
    GatherChunked,
    GiveBack,
    LeaveChunked,
    LeaveChunking,
    Life,
    MoveSubscription,
    OpenChunking,
    PayloadsInterleaved,
    PayloadsSent,
    ReadChunkedBacklog,
    ReadChunkedLog,
    ReadChunkRate,
    SendCrafted,
    SendInterleaved,
    SendPayloads,
    SubscribeChunked,
    SubscriptionMoved,
)
from model.judgement import Allowed, Broken
from model.vocabulary import Outcome

Judged = Allowed[Chunking] | Broken


def judge(state: Chunking, operation: ChunkOperation, outcome: Outcome, known: frozenset[str]) -> Judged:
    """What this operation with this outcome leaves possible; a deviation that is not known breaks its rule."""
    match operation:
        case CreateChunkedTopic(topic):
            if not isinstance(outcome, ChunkedTopic):
                return Allowed(state)
            return Allowed(state.with_topic(topic, Topic(outcome.limit_bytes, outcome.deduplication)))
        case OpenChunking():
            return _opened(state, operation)
        case SendPayloads() | SendCrafted():
            return producing.sent(state, operation, outcome) if isinstance(outcome, PayloadsSent) else Allowed(state)
        case SendInterleaved(session, payloads, _, other, others):
            if not isinstance(outcome, PayloadsInterleaved):
                return Allowed(state)
            judged = producing.sent(state, SendPayloads(session, payloads), outcome.sent)
            return _then(judged, lambda now: producing.sent(now, SendPayloads(other, others), outcome.other))
        case LeaveChunking():
            return Allowed(state)
        case ReadChunkRate():
            return producing.rate_read(state, operation, outcome) if isinstance(outcome, ChunkRate) else Allowed(state)
        case ReadChunkedLog(topic):
            if not isinstance(outcome, ChunkedLog):
                return Allowed(state)
            return producing.log_read(state, topic, outcome.entries, known)
        case _:
            return _of_subscription(state, operation, outcome, known)


def _of_subscription(
    state: Chunking,
    operation: SubscribeChunked
    | GatherChunked
    | AcknowledgeChunked
    | GiveBack
    | LeaveChunked
    | MoveSubscription
    | ReadChunkedBacklog,
    outcome: Outcome,
    known: frozenset[str],
) -> Judged:
    match operation:
        case SubscribeChunked():
            return _subscribed(state, operation) if isinstance(outcome, ChunkedSubscribed) else Allowed(state)
        case GatherChunked(topic, subscription):
            if not isinstance(outcome, ChunkedGathered):
                return Allowed(state)
            logged = producing.log_read(state, topic, outcome.log, known)
            return _then(logged, lambda now: consuming.gathered(now, (topic, subscription), outcome, known))
        case AcknowledgeChunked() | GiveBack():
            if not isinstance(outcome, ChunkedAsked):
                return Allowed(state)
            return acknowledging.asked(state, operation, outcome, known)
        case LeaveChunked(name):
            if not isinstance(outcome, ChunkedLeft):
                return Allowed(state)
            return consuming.left(state, name, outcome.stream, known)
        case MoveSubscription(topic, subscription):
            if not isinstance(outcome, SubscriptionMoved):
                return Allowed(state)
            return acknowledging.subscription_moved(state, (topic, subscription), outcome, known)
        case ReadChunkedBacklog(topic, subscription):
            if not isinstance(outcome, ChunkedBacklog):
                return Allowed(state)
            return acknowledging.backlog_read(state, (topic, subscription), outcome, known)
        case _:
            assert_never(operation)


def _then(judged: Judged, then: Callable[[Chunking], Judged]) -> Judged:
    if isinstance(judged, Broken):
        return judged
    after = then(judged.state)
    if isinstance(after, Broken):
        return after
    return Allowed(after.state, judged.exercised + after.exercised, judged.deviations + after.deviations)


def _opened(state: Chunking, operation: OpenChunking) -> Judged:
    session = Session(
        operation.topic, operation.producer, operation.client, operation.is_chunking, operation.compression
    )
    state = replace(state, sessions={**state.sessions, operation.session: session})
    topic = state.topics.get(operation.topic)
    if topic is None or operation.producer in topic.producers:
        return Allowed(state)
    return Allowed(state.with_producer(operation.topic, operation.producer, Producer()))


def _subscribed(state: Chunking, operation: SubscribeChunked) -> Judged:
    key = (operation.topic, operation.subscription)
    lanes = fresh_lanes(pending=operation.pending, acks_discarded=operation.acks_discarded)
    consumer = Consumer(topic=key[0], subscription=key[1], kind=operation.kind, lanes=lanes)
    state = state.with_consumer(operation.consumer, consumer)
    if key in state.subscriptions:
        return Allowed(state)
    return Allowed(state.with_subscription(key, Subscription()))


def moved(state: Chunking, topic: str | None = None) -> Chunking:
    """A topic (None: every topic) was closed and is loaded again."""
    for name, view in state.topics.items():
        if topic in (None, name):
            producers = {one: replace(producer, is_moved=True) for one, producer in view.producers.items()}
            state = state.with_topic(name, replace(view, producers=producers))
    for key, subscription in state.subscriptions.items():
        if topic in (None, key[0]):
            fresh = replace(subscription, is_stalled=False, was_left_with_chunks=False, was_moved=True)
            state = state.with_subscription(key, fresh)
    return state


def finishing(state: Callable[[], Chunking], topic: str) -> Iterator[ChunkOperation]:
    """The operations that end an example: whatever is left is received by a consumer that begins, and acknowledged.

    Each producer of which something is open lives once more, so that the log is all there will ever be.
    """
    for name, session in list(state().sessions.items()):
        if session.topic == topic:
            yield LeaveChunking(name)
    for name, producer in list(state().topics[topic].producers.items()):
        if any(isinstance(act, Life) and act.is_open for act in producer.acts):
            yield OpenChunking(f"again-{name}", topic, name, "wire")
            yield LeaveChunking(f"again-{name}")
    yield ReadChunkedLog(topic)
    for key in [key for key in state().subscriptions if key[0] == topic]:
        yield from _finishing_subscription(state, key)


def _finishing_subscription(state: Callable[[], Chunking], key: Key) -> Iterator[ChunkOperation]:
    for name, _ in list(state().of_subscription(key)):
        yield LeaveChunked(name)
    kind = next(one.kind for one in state().consumers.values() if (one.topic, one.subscription) == key)
    last = f"last-{key[1]}"
    yield SubscribeChunked(last, *key, kind=kind, pending=0)
    yield GatherChunked(*key)
    yield AcknowledgeChunked(last, tuple(range(len(state().topics[key[0]].log))))
    yield ReadChunkedBacklog(*key)
