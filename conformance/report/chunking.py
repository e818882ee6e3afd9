"""Document 002 in words: payloads that are split, what passed on the wire, what applications received."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from conformance.report.lists import count, ends, joined
from conformance.report.participants import CLIENTS, SUITE
from model.chunking.vocabulary import (
    Acking,
    AcknowledgeChunked,
    Asking,
    Came,
    ChunkedAsked,
    ChunkedBacklog,
    ChunkedGathered,
    ChunkedLeft,
    ChunkedLog,
    ChunkedSubscribed,
    ChunkedTopic,
    ChunkOperation,
    ChunkOutcome,
    ChunkRate,
    Crafted,
    CreateChunkedTopic,
    GatherChunked,
    GiveBack,
    Given,
    Joined,
    LeaveChunked,
    LeaveChunking,
    Life,
    LoggedPart,
    Meanwhile,
    MoveSubscription,
    Moving,
    OpenChunking,
    Passed,
    Payload,
    PayloadsInterleaved,
    PayloadsSent,
    ReadChunkedBacklog,
    ReadChunkedLog,
    ReadChunkRate,
    SendCrafted,
    SendInterleaved,
    SendPayloads,
    Stream,
    SubscribeChunked,
    SubscriptionMoved,
)
from model.log import Position

_MEANWHILE: dict[Meanwhile, str] = {
    "dies": "and it dies",
    "reconnects": "and it comes back",
    "unload": "the topic is unloaded, and it comes back",
}
_MOVING: dict[Moving, str] = {
    "skip": "skips {} entries of",
    "expire": "has everything up to entry {} of the log expire for",
    "reset": "sets to entry {} of the log",
}


def deed(operation: ChunkOperation) -> tuple[str, str, str]:
    """The actor's short name, the actor as the subject of a sentence, and the rest of that sentence."""
    match operation:
        case OpenChunking(session) | SendPayloads(session) | SendCrafted(session) | LeaveChunking(session):
            return session, f"session {session}", _of_producer(operation)
        case SendInterleaved(session):
            return session, f"session {session}", _of_producer(operation)
        case SubscribeChunked(name) | AcknowledgeChunked(name) | GiveBack(name) | LeaveChunked(name):
            return name, f"consumer {name}", _of_consumer(operation)
        case _:
            return SUITE, "the suite", _of_suite(operation)


def _of_producer(operation: OpenChunking | SendPayloads | SendInterleaved | SendCrafted | LeaveChunking) -> str:
    match operation:
        case OpenChunking(_, topic, producer, client, is_chunking, compression):
            how = "" if is_chunking else ", without chunking"
            packed = "" if compression == "none" else f", compressing with {compression}"
            return f"opens producer {producer} on topic {topic} ({CLIENTS[client]}{how}{packed})"
        case SendPayloads(_, payloads, cut_after, meanwhile):
            cut = f"; behind chunk {cut_after} it is cut off, {_MEANWHILE[meanwhile]}" if cut_after else ""
            return f"sends {joined([_payload(one) for one in payloads])}{cut}"
        case SendInterleaved(_, payloads, after, other, others):
            own, else_ = joined([_payload(one) for one in payloads]), joined([_payload(one) for one in others])
            return f"sends {own}; it is held up behind chunk {after} while session {other} sends {else_}"
        case SendCrafted(_, chunks):
            return f"sends {joined([_crafted(one) for one in chunks])}"
        case LeaveChunking(_, crashes):
            return "crashes" if crashes else "closes in good order"
        case _:
            assert_never(operation)


def _payload(payload: Payload) -> str:
    kind = ", compressible" if payload.is_compressible else ""
    key = f", key {payload.key}" if payload.key is not None else ""
    return f"{payload.sequence_id} ({payload.name}, {payload.size_bytes} bytes{kind}{key})"


def _crafted(chunk: Crafted) -> str:
    if not chunk.uuid:
        return f"{chunk.sequence_id}"
    return f"chunk {chunk.chunk_id} of {chunk.chunks} of {chunk.uuid}"


def _of_consumer(operation: SubscribeChunked | AcknowledgeChunked | GiveBack | LeaveChunked) -> str:
    match operation:
        case SubscribeChunked(_, topic, subscription, kind, queue, pending, acks_discarded):
            limit = f", at most {pending} pending" if pending else ""
            policy = ", what is discarded is acknowledged" if acks_discarded else ""
            where = f"subscription {subscription} of topic {topic}"
            return f"subscribes to {where} ({kind}, a queue of {queue}{limit}{policy})"
        case AcknowledgeChunked(_, nth, is_cumulative):
            how = " cumulatively" if is_cumulative else ""
            return f"acknowledges{how} {_numbered(nth)}"
        case GiveBack(_, nth):
            return "asks for everything again" if nth is None else f"fails with {_numbered(nth)}"
        case LeaveChunked(_, crashes):
            return "crashes" if crashes else "closes in good order"
        case _:
            assert_never(operation)


def _numbered(nth: Sequence[int]) -> str:
    return f"message {joined([str(n) for n in nth])} of what it has"


def _of_suite(
    operation: CreateChunkedTopic
    | GatherChunked
    | MoveSubscription
    | ReadChunkedLog
    | ReadChunkedBacklog
    | ReadChunkRate,
) -> str:
    match operation:
        case CreateChunkedTopic(topic, deduplication):
            return f"creates topic {topic}, deduplication {'on' if deduplication else 'off'}"
        case GatherChunked(topic, subscription):
            return f"has the consumers of subscription {subscription} of topic {topic} receive what must come"
        case MoveSubscription(topic, subscription, how, entries):
            return f"{_MOVING[how].format(entries)} subscription {subscription} of topic {topic}"
        case ReadChunkedLog(topic):
            return f"reads the log of topic {topic}"
        case ReadChunkedBacklog(topic, subscription):
            return f"reads what subscription {subscription} of topic {topic} has not acknowledged"
        case ReadChunkRate(topic, session, payload):
            sent = _payload(payload)
            return f"reads the rate of chunks of topic {topic} while session {session} sends {sent} again and again"
        case _:
            assert_never(operation)


def outcome_in_words(outcome: ChunkOutcome) -> str:
    """What came of an operation of document 002."""
    match outcome:
        case ChunkedTopic(limit, on):
            return f"an entry may have {limit} bytes, deduplication is {'on' if on else 'off'}"
        case PayloadsSent():
            return _sent(outcome)
        case PayloadsInterleaved(sent, other):
            return f"{_sent(sent)}; of the other one {_sent(other)}"
        case ChunkedSubscribed():
            return "it is subscribed"
        case ChunkedGathered(log, streams):
            return f"{'; '.join(map(_stream, streams))}; the log has {_log(log)}"
        case ChunkedAsked(_, stream) | ChunkedLeft(stream):
            return _stream(stream)
        case SubscriptionMoved(before, after):
            return f"of {count(len(before), 'entry', 'entries')} left, {_positions(after)} are left"
        case ChunkedLog(entries):
            return f"the log has {_log(entries)}"
        case ChunkedBacklog(left):
            return f"not acknowledged: {_positions(left)}"
        case ChunkRate(rate, is_chunked, sent):
            said = "were" if is_chunked else "were not"
            return f"{rate:g} chunks a second, and the broker says that chunks {said} published; {_sent(sent)}"
        case _:
            assert_never(outcome)


def _sent(outcome: PayloadsSent) -> str:
    confirmed = f"{sum(outcome.confirmed)} of {len(outcome.confirmed)} confirmed"
    errors = joined([error for error in outcome.errors if error])
    lives = "; then ".join(_life(life) for life in outcome.lives) or "nothing passed"
    return f"{confirmed}{f' ({errors})' if errors else ''}; on the wire: {lives}"


def _life(life: Life) -> str:
    told = f"told {life.told}, " if life.told is not None else ""
    receipts = joined([f"{n} at {at}" if at is not None else f"{n} a duplicate" for n, at in life.receipts])
    return f"{told}sent {joined([str(send) for send in life.sends]) or 'nothing'}, answered {receipts or 'nothing'}"


def _log(entries: Sequence[LoggedPart]) -> str:
    return joined([f"{entry.position} {entry.part} of {entry.producer}" for entry in entries]) or "nothing"


def _positions(positions: Sequence[Position]) -> str:
    return joined([str(position) for position in positions]) or "none"


def _stream(stream: Stream) -> str:
    passed = ", ".join(ends([_passed(one) for one in stream.passed], str)) or "nothing"
    return f"to and from {stream.consumer} passed: {passed}; it received {_given(stream.given)}"


def _passed(passed: Passed) -> str:
    match passed:
        case Came(position, producer, part):
            return f"{position} {part} of {producer}"
        case Acking(positions, is_cumulative):
            return f"an acknowledgment{' up to' if is_cumulative else ' of'} {_positions(positions)}"
        case Asking(positions):
            return f"a request for {_positions(positions) if positions else 'everything'} again"
        case Joined():
            return "a subscription"
        case _:
            assert_never(passed)


def _given(given: Sequence[Given]) -> str:
    return joined([f"{one.position} ({one.size_bytes} bytes)" for one in given]) or "nothing"
