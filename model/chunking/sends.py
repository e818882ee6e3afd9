"""Judges how a client splits messages, by its commands and the stored entries: the producer's side of the wire.

A chunk that was already wrong at the proxy is the client's fault. The room for a payload follows from the metadata of
each entry (:func:`model.chunking.chunks.room`). Of compressed payloads only the sizes are judged here; a consumer
that assembles them verifies the bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from model.chunking.chunks import room, split
from model.chunking.evidence import NotRefused, NotWhole
from model.chunking.state import ChunkingProducer, ChunkTopic, SentMessage
from model.chunking.stored_chunks import wholes
from model.judgement import HOLDS, Allowed, Broken, all_of
from model.rules.catalogue import carries
from model.traffic import Life, LoggedPart, Part

TOO_LARGE = "MessageTooBig"


def _by_client(rule: str, because: str) -> Broken:
    return Broken(rule, because, None, "client")


def answered(
    name: str, asked: Sequence[SentMessage], lives: Sequence[Life], *, limit_bytes: int
) -> Allowed[None] | Broken:
    """A message that the client refused for its size is above the limit, may not be split, and was not sent."""
    sent = {send.sequence_id for life in lives for send in life.sends}
    return all_of(
        _refused_if_too_large(name, NotRefused(one, asked[:number]), limit_bytes, is_sent=one.sequence_id in sent)
        for number, one in enumerate(asked)
    )


@carries("CHUNK-01")
def _refused_if_too_large(name: str, found: NotRefused, limit_bytes: int, *, is_sent: bool) -> Allowed[None] | Broken:
    one = found.message
    if one.error == TOO_LARGE:
        refused = f"the client of {name} refused message {one.sequence_id} as too large"
        if one.is_split_allowed:
            return _by_client("CHUNK-01", f"{refused} despite chunking")
        if one.size_bytes < limit_bytes // 2 or is_sent:
            return _by_client("CHUNK-01", f"{refused}, but it fits, or was sent")
    elif not one.is_split_allowed and one.compression == "none" and one.size_bytes >= limit_bytes:
        what = f"the client of {name} did not refuse message {one.sequence_id} ({one.size_bytes} bytes)"
        because = f"{what}, above the limit of {limit_bytes} and without chunking"
        return replace(_by_client("CHUNK-01", because), evidence=found).passing_to(None)
    return HOLDS


@carries("CHUNK-02", "CHUNK-03")
def passed(name: str, lives: Iterable[Life]) -> Broken | None:
    """The chunks of a message are sent in order, from the first on, or from a later one after a reconnect."""
    of_uuid: dict[str, Part] = {}
    for life in lives:
        before: Part | None = None
        for send in life.sends:
            if send.uuid is not None:
                first = of_uuid.setdefault(send.uuid, send)
                if (first.sequence_id, first.chunks, first.total_bytes) != (
                    send.sequence_id,
                    send.chunks,
                    send.total_bytes,
                ):
                    return _by_client(
                        "CHUNK-02", f"the metadata of {send} of {name} contradicts that of other chunks with its uuid"
                    )
                if not 0 <= send.chunk_id < send.chunks:
                    return _by_client(
                        "CHUNK-02",
                        f"the client of {name} sent {send}, whose chunk id is not below its number of chunks",
                    )
            if before is not None and not _follows(before, send):
                return _by_client("CHUNK-03", f"the client of {name} sent {send} right after {before}")
            before = send
    return None


def _follows(before: Part, send: Part) -> bool:
    """Whether a send may follow another one on the same connection."""
    if before.is_last or not before.is_chunk:
        return send.chunk_id == 0 and send.sequence_id > before.sequence_id
    return send.uuid == before.uuid and send.chunk_id == before.chunk_id + 1


@carries("CHUNK-01", "CHUNK-02")
def stored(topic: ChunkTopic, name: str, producer: ChunkingProducer, entries: Sequence[LoggedPart]) -> Broken | None:
    """Each complete message in the log is split exactly as its size requires."""
    for whole in wholes(entries):
        asked = producer.of(whole[0].part.sequence_id)
        if asked is None or asked.is_crafted:
            continue
        broken = _as_it_should_be(topic, name, asked, whole)
        if broken is not None:
            return broken
    return None


def _as_it_should_be(topic: ChunkTopic, name: str, asked: SentMessage, whole: Sequence[LoggedPart]) -> Broken | None:
    what = f"message {asked.sequence_id} of {name}"
    is_split = whole[0].part.is_chunk
    sizes = [entry.size_bytes for entry in whole]
    room_bytes = room(limit_bytes=topic.limit_bytes, metadata_bytes=whole[0].metadata_bytes)
    if is_split and not asked.is_split_allowed:
        return _by_client("CHUNK-01", f"the client split {what}, although chunking is disabled")
    total = sum(sizes)
    if asked.compression == "none" and total != asked.size_bytes:
        return _by_client(
            "CHUNK-02", f"the chunks of {what} have {total} bytes, but its payload has {asked.size_bytes}"
        )
    should = split(uuid="", sequence_id=asked.sequence_id, payload_bytes=total, room_bytes=room_bytes)
    if is_split and len(should) == 1:
        return _by_client("CHUNK-01", f"the client split {what}, although its {total} bytes fit into {room_bytes}")
    if not is_split and len(should) > 1:
        return _by_client(
            "CHUNK-01", f"the client did not split {what}, although its {total} bytes do not fit into {room_bytes}"
        )
    if [chunk.end - chunk.start for chunk in should] != sizes:
        return _by_client(
            "CHUNK-02", f"the client split {what} into chunks of {sizes} bytes, but {room_bytes} fit into one"
        )
    if is_split and any(entry.part.total_bytes != total for entry in whole):
        return _by_client(
            "CHUNK-02", f"the chunks of {what} have {total} bytes, but their metadata says {whole[0].part.total_bytes}"
        )
    if not is_split and asked.compression == "none" and whole[0].part.digest != asked.digest:
        return _by_client("CHUNK-03", f"the stored payload of {what} differs from the one that was sent")
    return None


@carries("CHUNK-03", "CHUNK-13")
def confirmed_are_whole(topic: ChunkTopic, name: str, entries: Sequence[LoggedPart]) -> Allowed[None] | Broken:
    """Every confirmed message is complete in the log."""
    there = {whole[0].part.sequence_id for whole in wholes(entries)}
    rule = "CHUNK-13" if topic.deduplication else "CHUNK-03"
    found = []
    for asked in topic.producers[name].asked:
        if asked.is_confirmed and not asked.is_crafted and asked.sequence_id not in there:
            what = f"the client of {name} confirmed message {asked.sequence_id} without all of its chunks in the log"
            broken = _by_client(rule, f"{what}, although the broker stored every chunk that it received")
            evidence = NotWhole(topic, name, entries, asked.sequence_id)
            found.append(replace(broken, evidence=evidence).passing_to(None))
    return all_of(found)
