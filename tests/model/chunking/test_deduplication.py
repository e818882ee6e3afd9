"""Deduplication of chunks: what is stored of messages that are resent in part or whole."""

from __future__ import annotations

from model.chunking.chunks import Chunk, split
from model.chunking.deduplication import ChunkJudgement, Known, Memory, judge, known_of, recovered, remember
from model.chunking.variants import ChunksVariant

NEW, DUPLICATE, REFUSED = ChunkJudgement.STORED, ChunkJudgement.DUPLICATE, ChunkJudgement.REFUSED


def chunks_of(sequence_id: int, uuid: str = "u") -> tuple[Chunk, ...]:
    """The three chunks of a message."""
    return split(uuid=uuid, sequence_id=sequence_id, payload_bytes=3, room_bytes=1)


def sent(
    *chunks: Chunk, memory: Memory = (), variant: ChunksVariant | None = None
) -> tuple[list[ChunkJudgement], Memory]:
    """The judgements of chunks that producer P sends, and the memory afterwards."""
    judgements = []
    for chunk in chunks:
        judgement = judge(known_of(memory, "P"), chunk, variant=variant or ChunksVariant())
        if judgement is NEW:
            memory = remember(memory, "P", chunk)
        judgements.append(judgement)
    return judgements, memory


def test_all_chunks_of_a_message_are_stored_although_they_share_a_sequence_id() -> None:
    judgements, memory = sent(*chunks_of(5))
    assert judgements == [NEW] * 3
    assert memory == (Known("P", 5),)


def test_stored_chunks_are_duplicates_and_the_others_are_stored() -> None:
    first, second, third = chunks_of(5)
    judgements, memory = sent(first, second, first, second, third)
    assert judgements == [NEW, NEW, DUPLICATE, DUPLICATE, NEW]
    assert memory == (Known("P", 5),)


def test_every_chunk_of_a_complete_message_is_a_duplicate() -> None:
    chunks = chunks_of(5)
    assert sent(*chunks, *chunks)[0] == [NEW] * 3 + [DUPLICATE] * 3
    _, memory = sent(*chunks)
    assert sent(*chunks_of(5, "other"), memory=memory)[0] == [DUPLICATE] * 3


def test_an_incomplete_message_resent_with_another_uuid_is_stored() -> None:
    assert sent(*chunks_of(5)[:2], *chunks_of(5, "other"))[0] == [NEW] * 5


def test_a_chunk_without_its_predecessor_is_refused() -> None:
    assert sent(chunks_of(5)[1])[0] == [REFUSED]
    assert sent(chunks_of(5)[0], chunks_of(5)[2])[0] == [NEW, REFUSED]


def test_an_incomplete_message_does_not_count() -> None:
    _, memory = sent(*chunks_of(5)[:2])
    assert known_of(memory, "P").whole == -1
    assert sent(*chunks_of(6), memory=memory)[0] == [NEW] * 3


def test_recovery_from_the_log_gives_the_same_memory() -> None:
    log = [*chunks_of(5), *chunks_of(6)[:2]]
    _, memory = sent(*log)
    assert recovered(("P", chunk) for chunk in log) == memory == (Known("P", 5, (6, "u", 2)),)


def test_release_2_11_0_stores_only_the_first_chunk() -> None:
    assert sent(*chunks_of(5), variant=ChunksVariant(each_deduplicated=True))[0] == [NEW, DUPLICATE, DUPLICATE]


def test_release_4_0_8_treats_only_the_last_chunk_as_a_duplicate() -> None:
    chunks = chunks_of(5)
    judgements, _ = sent(*chunks[:2], *chunks, *chunks, variant=ChunksVariant(only_last_deduplicated=True))
    assert judgements == [NEW] * 7 + [DUPLICATE]


def test_release_4_0_8_counts_an_incomplete_message_after_a_reload() -> None:
    memory = recovered([("P", chunks_of(5)[0])], variant=ChunksVariant(recovery_counts_unfinished=True))
    assert sent(*chunks_of(5), memory=memory)[0] == [DUPLICATE] * 3
