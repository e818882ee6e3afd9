"""Producers of chunked topics: judges the client's sends and the broker's log separately."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from msgspec import structs

from model.chunking import sends, stored_chunks
from model.chunking.sends import TOO_LARGE
from model.chunking.state import Act, Chunking, ChunkingProducer, ChunkTopic, Reloaded, SentMessage
from model.events import Answer, ChunkRate, Duplicate, Refused, Sent, Stored
from model.judgement import HOLDS, Allowed, Broken, all_of
from model.operations import ReadChunkRate
from model.payloads import digest_of, payload_of
from model.rules.catalogue import carries
from model.sessions import Session
from model.traffic import Life, LoggedPart, Part
from model.vocabulary import Entry, Message

Judged = Allowed[Chunking] | Broken


def sent(state: Chunking, session: Session, entries: Sequence[Entry], outcome: Sent) -> Judged:
    """Messages or chunks were sent. The next read of the log is judged by them."""
    asked = tuple(_asked(session, entries, outcome.answers))
    topic = state.topics[session.topic]
    before = topic.producers[session.producer]
    producer = replace(
        before, asked=_joined(before.asked, asked), acts=(*before.acts, *_acts(before, outcome)), is_unloaded=False
    )
    if not outcome.lives and before.is_unloaded:
        producer = replace(producer, is_unloaded=True)
    state = state.with_producer(session.topic, session.producer, producer)
    if outcome.unloaded_after:
        state = _others_unloaded(state, session)
    if session.client == "wire":
        return Allowed(state)
    lives = [act for act in producer.acts if isinstance(act, Life)]
    exercised = ("CHUNK-01",) if any(one.error == TOO_LARGE for one in asked) else ()
    answered = sends.answered(session.producer, asked, lives, limit_bytes=topic.limit_bytes)
    return answered.then(lambda _: sends.passed(session.producer, lives) or Allowed(state, exercised))


def _asked(session: Session, entries: Sequence[Entry], answers: Sequence[Answer]) -> Iterator[SentMessage]:
    for entry, answer in zip(entries, answers, strict=True):
        message = entry.messages[0]
        is_crafted = session.client == "wire"
        yield SentMessage(
            sequence_id=message.sequence_id,
            digest=digest_of(message),
            size_bytes=len(payload_of(message)) if message.content == "text" else message.size_bytes,
            is_split_allowed=session.is_chunking or is_crafted,
            is_confirmed=isinstance(answer, Stored | Duplicate),
            error=answer.code if isinstance(answer, Refused) else "",
            compression=session.compression,
            is_crafted=is_crafted,
            sticky_key=entry.sticky_key,
        )


def _joined(before: tuple[SentMessage, ...], now: tuple[SentMessage, ...]) -> tuple[SentMessage, ...]:
    """The sent messages, each sequence id once. A confirmed message stays confirmed."""
    by_id = {one.sequence_id: one for one in before}
    for one in now:
        earlier = by_id.get(one.sequence_id)
        was = earlier is not None and earlier.is_confirmed
        by_id[one.sequence_id] = replace(one, is_confirmed=one.is_confirmed or was)
    return tuple(by_id[number] for number in sorted(by_id))


def _acts(before: ChunkingProducer, outcome: Sent) -> Iterator[Act]:
    """The events of a producer at the broker, in order."""
    for number, life in enumerate(outcome.lives):
        if (number == 0 and before.is_unloaded) or number == outcome.unloaded_after != 0:
            yield Reloaded()
        yield life
    if len(outcome.lives) == outcome.unloaded_after != 0:
        yield Reloaded()


def _others_unloaded(state: Chunking, session: Session) -> Chunking:
    """An unload affects the other producers of the topic too."""
    topic = state.topics[session.topic]
    producers = {
        name: producer if name == session.producer else replace(producer, is_unloaded=True)
        for name, producer in topic.producers.items()
    }
    return state.with_topic(session.topic, replace(topic, producers=producers)).without_leavers(session.topic)


# -------------------------------------------------------------------------------------------------------------- the log


def log_read(state: Chunking, name: str, entries: Sequence[LoggedPart]) -> Judged:
    """The log follows from the commands that the broker received, and has every confirmed message completely."""
    topic = state.topics[name]
    for producer_name in sorted({entry.producer for entry in entries} - topic.producers.keys()):
        return Broken("CHUNK-03", f"the log has entries of producer {producer_name}, which sent none", None, "broker")
    of_each = {one: [entry for entry in entries if entry.producer == one] for one in topic.producers}
    exercised = set().union(*(exercised_by(topic, topic.producers[one], own) for one, own in of_each.items()))
    exercised |= {"CHUNK-03"} if _is_interleaved(entries) else set()
    judged = all_of(_of_producer(topic, one, own) for one, own in of_each.items())
    after = state.with_topic(name, replace(topic, log=tuple(entries)))
    return judged.then(lambda _: Allowed(after, tuple(sorted(exercised))))


def _of_producer(topic: ChunkTopic, name: str, own: Sequence[LoggedPart]) -> Allowed[None] | Broken:
    stored = sends.stored(topic, name, topic.producers[name], own) or HOLDS
    followed = stored_chunks.judged(topic, name, own)
    return followed.then(lambda _: stored).then(lambda _: sends.confirmed_are_whole(topic, name, own))


def exercised_by(topic: ChunkTopic, producer: ChunkingProducer, own: Sequence[LoggedPart]) -> set[str]:
    """The rules that a producer's entries in the log exercise."""
    has_chunks = any(entry.part.is_chunk for entry in own)
    if not has_chunks:
        return set()
    rules = {"CHUNK-01", "CHUNK-02"} if any(not one.is_crafted for one in producer.asked) else set()
    lives = [act for act in producer.acts if isinstance(act, Life)]
    sent_parts: Counter[Part] = Counter(send for life in lives for send in life.sends if send.is_chunk)
    if topic.deduplication and max(sent_parts.values(), default=0) > 1:
        rules.add("CHUNK-13")
    return rules


def _is_interleaved(entries: Sequence[LoggedPart]) -> bool:
    """Whether another entry is between two chunks of a message."""
    return any(
        entry.part.is_chunk and entry.part.chunk_id > 0 and before.part.uuid != entry.part.uuid
        for before, entry in pairwise(entries)
    )


def rate_read(state: Chunking, session: Session, operation: ReadChunkRate, outcome: ChunkRate) -> Judged:
    """The stats show a rate of chunks exactly if chunks are published."""
    entries = [numbered(operation.message, n) for n in range(len(outcome.sent.answers))]
    return sent(state, session, entries, outcome.sent).then(lambda after: _rate_shown(after, operation, outcome))


@carries("CHUNK-10")
def _rate_shown(state: Chunking, operation: ReadChunkRate, outcome: ChunkRate) -> Judged:
    topic = state.topics[operation.topic]
    acts = [act for producer in topic.producers.values() for act in producer.acts if isinstance(act, Life)]
    were_any = any(send.is_chunk for act in acts for send in act.sends)
    are_now = any(send.is_chunk for life in outcome.sent.lives for send in life.sends)
    what = f"the stats of {operation.topic} show {outcome.rate:g} chunks per second"
    if are_now and (outcome.rate <= 0 or not outcome.is_chunked):
        return Broken("CHUNK-10", f"{what} while chunks are published", None, "broker")
    if not were_any and (outcome.rate > 0 or outcome.is_chunked):
        return Broken("CHUNK-10", f"{what}, although no chunk was ever published", None, "broker")
    return Allowed(state, ("CHUNK-10",) if are_now else ())


def numbered(message: Message, number: int) -> Entry:
    """An entry of the same message with a later sequence id."""
    return Entry((structs.replace(message, sequence_id=message.sequence_id + number),))
