"""Compares the log with the chunks that the broker received, producer by producer.

The entries of a producer are in the order of its sends, and confirmed entries are at their positions. When a connection
ended, sends in flight may be missing from some send on. With deduplication, :mod:`model.chunking.deduplication` decides
which chunks are stored and which are duplicates, by the document or by a known deviation that explains the log.

There are few possible states: how much of the log is explained, and the broker's knowledge of the producer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from model.chunking.chunks import Chunk
from model.chunking.deduplication import ChunkJudgement, Known, judge, recovered_known, remember
from model.chunking.state import Act, ChunkingProducer, ChunkTopic, Reloaded
from model.chunking.variants import DOCUMENT, ChunksVariant
from model.excuses import DEVIATIONS
from model.excuses.chunking import (
    CHUNK_EACH_DEDUPLICATED,
    CHUNK_ONLY_LAST_DEDUPLICATED,
    CHUNK_RECOVERY_COUNTS_UNFINISHED,
)
from model.judgement import Broken
from model.log import Position
from model.rules.catalogue import carries
from model.traffic import Life, LoggedPart, Part

BROKER_HYPOTHESES: tuple[tuple[tuple[str, ...], ChunksVariant], ...] = (
    ((), DOCUMENT),
    ((CHUNK_ONLY_LAST_DEDUPLICATED,), ChunksVariant(only_last_deduplicated=True)),
    (
        (CHUNK_RECOVERY_COUNTS_UNFINISHED, CHUNK_ONLY_LAST_DEDUPLICATED),
        ChunksVariant(only_last_deduplicated=True, recovery_counts_unfinished=True),
    ),
    ((CHUNK_EACH_DEDUPLICATED,), ChunksVariant(each_deduplicated=True)),
)
"""The hypotheses on a broker with deduplication: the document first, then known deviations."""

NEVER = ChunksVariant(never_judged=True)
"""A broker without deduplication."""


@dataclass(frozen=True, slots=True)
class LogProgress:
    """How much of the log is explained, and the broker's knowledge of the producer."""

    explained: int
    known: Known


def explanation(
    topic: ChunkTopic, name: str, producer: ChunkingProducer, entries: Sequence[LoggedPart], known: frozenset[str]
) -> tuple[str, ...] | Broken:
    """The deviations that explain this producer's entries in the log by its sends; none if it follows the document."""
    hypotheses = BROKER_HYPOTHESES if topic.deduplication else (((), NEVER),)
    for deviations, variant in sorted(hypotheses, key=lambda one: len(set(one[0]) - known)):
        if _is_explained(name, producer.acts, entries, variant):
            return deviations
    return _diagnose(topic, name, producer, entries)


def maybe_lost(deviations: Collection[str], acts: Sequence[Act]) -> frozenset[int]:
    """The messages that a broker with these deviations may confirm without all their chunks, by sequence id."""
    unfinished = set[int]()
    if CHUNK_EACH_DEDUPLICATED in deviations:
        unfinished |= _split(acts)
    if CHUNK_RECOVERY_COUNTS_UNFINISHED in deviations:
        last = max((number for number, act in enumerate(acts) if isinstance(act, Reloaded)), default=0)
        unfinished |= _split(acts[:last])
    return frozenset(unfinished)


def _split(acts: Sequence[Act]) -> set[int]:
    """The messages of which a chunk before the last one was sent."""
    return {send.sequence_id for act in acts if isinstance(act, Life) for send in act.sends if not send.is_last}


def broken_by(deviations: tuple[str, ...], what: str) -> Broken:
    """The violation if the first of these deviations is not known."""
    return DEVIATIONS[deviations[0]].broken(what)


@carries("CHUNK-03", "CHUNK-13")
def _is_explained(name: str, acts: Sequence[Act], entries: Sequence[LoggedPart], variant: ChunksVariant) -> bool:
    states = {LogProgress(0, Known(name))}
    for act in acts:
        if isinstance(act, Reloaded):
            # The replay begins after the snapshot, so only unfinished messages after it are counted.
            states |= {LogProgress(one.explained, recovered_known(one.known, variant=variant)) for one in states}
        else:
            states = {after for one in states for after in _lived(one, act, entries, variant)}
    return any(one.explained == len(entries) for one in states)


def _lived(
    before: LogProgress, life: Life, entries: Sequence[LoggedPart], variant: ChunksVariant
) -> Iterator[LogProgress]:
    """The possible states after a connection of a producer: all its sends arrived, or all up to some send."""
    all_answered = not life.has_unanswered
    at, known = before.explained, before.known
    duplicates: Counter[int] = Counter()
    for send in life.sends:
        chunk = chunk_of(send)
        judgement = judge(known, chunk, variant=variant)
        if not all_answered or life.refused:
            yield from _if_confirmed(LogProgress(at, known), before.explained, life, entries, duplicates, is_all=False)
        match judgement:
            case ChunkJudgement.DUPLICATE:
                duplicates[send.sequence_id] += 1
            case ChunkJudgement.STORED:
                if at >= len(entries) or entries[at].part != send:
                    return
                at += 1
                known = remember((known,), known.producer, chunk)[0]
            case ChunkJudgement.REFUSED:
                pass
    yield from _if_confirmed(LogProgress(at, known), before.explained, life, entries, duplicates, is_all=all_answered)


def _if_confirmed(
    after: LogProgress,
    explained: int,
    life: Life,
    entries: Sequence[LoggedPart],
    duplicates: Counter[int],
    *,
    is_all: bool,
) -> Iterator[LogProgress]:
    """This state, if it agrees with the send receipts of the connection."""
    stored = {entry.position for entry in entries[explained : after.explained]}
    confirmed = {position for _, position in life.receipts if position is not None}
    confirmed_ids = Counter(sequence_id for sequence_id, position in life.receipts if position is None)
    if not confirmed <= stored or any(confirmed_ids[n] > duplicates[n] for n in confirmed_ids):
        return
    if is_all and not life.refused and confirmed != stored:
        return
    yield after


def chunk_of(part: Part) -> Chunk:
    """A part as a chunk of the reference."""
    return Chunk(part.uuid or "", part.sequence_id, part.chunk_id, part.chunks, part.total_bytes, 0, 0)


def wholes(entries: Sequence[LoggedPart]) -> Iterator[tuple[LoggedPart, ...]]:
    """The complete messages of a log, each from the latest first chunk of its uuid to its last chunk."""
    begun: dict[str, list[LoggedPart]] = {}
    for entry in entries:
        part = entry.part
        if part.uuid is None or part.chunks == 1:
            yield (entry,)
            continue
        if part.chunk_id == 0:
            begun[part.uuid] = []
        so_far = begun.get(part.uuid)
        if so_far is None or part.chunk_id < len(so_far):
            continue
        if part.chunk_id > len(so_far):
            del begun[part.uuid]
            continue
        so_far.append(entry)
        if part.is_last:
            yield tuple(begun.pop(part.uuid))


def in_part_or_twice(entries: Sequence[LoggedPart]) -> frozenset[int]:
    """The messages that a producer's log does not have completely, or with a chunk twice, by sequence id."""
    copies = Counter(entry.part for entry in entries if entry.part.is_chunk)
    complete = {whole[0].part.sequence_id for whole in wholes(entries)}
    return frozenset(part.sequence_id for part, n in copies.items() if n > 1 or part.sequence_id not in complete)


def _diagnose(topic: ChunkTopic, name: str, producer: ChunkingProducer, entries: Sequence[LoggedPart]) -> Broken:
    lives = [act for act in producer.acts if isinstance(act, Life)]
    sends = [send for life in lives for send in life.sends]
    has_again = max(Counter(sends).values(), default=0) > 1 or any(isinstance(act, Reloaded) for act in producer.acts)
    rule = "CHUNK-13" if topic.deduplication and has_again else "CHUNK-03"
    return Broken(rule, _why(name, lives, sends, entries), None, "broker")


def _why(name: str, lives: Sequence[Life], sends: Sequence[Part], entries: Sequence[LoggedPart]) -> str:
    stored: dict[Position, LoggedPart] = {entry.position: entry for entry in entries}
    for life in lives:
        for sequence_id, position in life.receipts:
            if position is not None and (position not in stored or stored[position].part.sequence_id != sequence_id):
                return f"the log does not have message {sequence_id} of {name} at {position}, where it was confirmed"
    for entry in entries:
        if entry.part not in sends:
            return f"the log has {entry.part} of {name} at {entry.position}, which the broker did not receive"
    listed = ", ".join(str(entry.part) for entry in entries)
    return f"what the broker received from {name} does not explain its entries in the log: {listed}"
