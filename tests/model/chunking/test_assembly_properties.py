"""For any interleaving and resending, a consumer delivers the complete messages and nothing else."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from model.chunking.assembly import Buffers, Whole, arrive
from model.chunking.chunks import Chunk, split


@st.composite
def attempts(draw: st.DrawFn, uuid: str) -> list[Chunk]:
    """What one producer sends of a message: some incomplete attempts, and then, perhaps, the whole message."""
    chunks = split(uuid=uuid, sequence_id=1, payload_bytes=draw(st.integers(2, 5)), room_bytes=1)
    beginnings = draw(st.lists(st.integers(1, len(chunks) - 1), max_size=2))
    whole = chunks if draw(st.booleans()) else ()
    return [chunk for length in beginnings for chunk in chunks[:length]] + list(whole)


@st.composite
def logs(draw: st.DrawFn) -> list[Chunk]:
    """The entries of several producers, interleaved in any way."""
    left = [draw(attempts(uuid)) for uuid in "uvw"]
    log = []
    while any(left):
        one = draw(st.sampled_from([chunks for chunks in left if chunks]))
        log.append(one.pop(0))
    return log


def put_together(log: list[Chunk]) -> tuple[Buffers, list[Whole]]:
    """What a consumer without a limit has in the end, and what it delivered."""
    buffers, found = Buffers(), []
    for position, chunk in enumerate(log):
        buffers, came = arrive(buffers, chunk, position)
        if came.whole is not None:
            found.append(came.whole)
    return buffers, found


@given(logs())
def test_complete_messages_are_delivered_once_with_all_entries_and_the_rest_is_kept(log: list[Chunk]) -> None:
    buffers, found = put_together(log)
    finished = [chunk.uuid for chunk in log if chunk.is_last]
    assert [whole.uuid for whole in found] == finished
    entries = {uuid: [n for n, chunk in enumerate(log) if chunk.uuid == uuid] for uuid in "uvw"}
    for whole in found:
        assert [log[position].chunk_id for position in whole.positions] == list(range(log[whole.positions[0]].chunks))
        assert sorted(whole.entries) == entries[whole.uuid]
    assert {buffer.uuid for buffer in buffers.kept} == {chunk.uuid for chunk in log} - set(finished)
    assert buffers.awaiting_redelivery == frozenset()


@given(logs(), st.integers(1, 2))
def test_with_a_limit_only_complete_messages_are_delivered_and_no_entry_is_lost(log: list[Chunk], limit: int) -> None:
    buffers, delivered = Buffers(limit), set[int]()
    for position, chunk in enumerate(log):
        buffers, came = arrive(buffers, chunk, position)
        assert len(buffers.kept) <= limit
        if came.whole is not None:
            delivered |= set(came.whole.entries)
    kept = {position for buffer in buffers.kept for position in buffer.entries}
    assert delivered | kept | buffers.awaiting_redelivery == set(range(len(log)))
