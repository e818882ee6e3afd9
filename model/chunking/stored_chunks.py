"""Compares the log with the chunks that the broker received, producer by producer.

The entries of a producer are in the order of its sends, and confirmed entries are at their positions. When a connection
ended, sends in flight may be missing from some send on. With deduplication, :mod:`model.chunking.deduplication` decides
which chunks are stored and which are duplicates.

There are few possible states: how much of the log is explained, and the broker's knowledge of the producer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from model.chunking.chunks import Chunk
from model.chunking.deduplication import ChunkJudgement, Known, judge, recovered_known, remember
from model.chunking.evidence import LogDiffers
from model.chunking.state import Act, ChunkTopic, Reloaded
from model.chunking.variants import DOCUMENT, ChunksVariant
from model.judgement import HOLDS, Allowed, Broken
from model.log import Position
from model.rules.catalogue import carries
from model.traffic import Life, LoggedPart, Part

NEVER = ChunksVariant(never_judged=True)
"""A broker without deduplication."""


@dataclass(frozen=True, slots=True)
class LogProgress:
    """How much of the log is explained, and the broker's knowledge of the producer."""

    explained: int
    known: Known


def judged(topic: ChunkTopic, name: str, entries: Sequence[LoggedPart]) -> Allowed[None] | Broken:
    """This producer's entries in the log follow from its sends."""
    variant = DOCUMENT if topic.deduplication else NEVER
    if is_explained(topic, name, entries, variant):
        return HOLDS
    return replace(_diagnose(topic, name, entries), evidence=LogDiffers(topic, name, entries)).passing_to(None)


def is_explained(topic: ChunkTopic, name: str, entries: Sequence[LoggedPart], variant: ChunksVariant) -> bool:
    """Whether a broker of this kind may have these entries of a producer."""
    return _is_explained(name, topic.producers[name].acts, entries, variant)


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


def _diagnose(topic: ChunkTopic, name: str, entries: Sequence[LoggedPart]) -> Broken:
    acts = topic.producers[name].acts
    lives = [act for act in acts if isinstance(act, Life)]
    sends = [send for life in lives for send in life.sends]
    has_again = max(Counter(sends).values(), default=0) > 1 or any(isinstance(act, Reloaded) for act in acts)
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
