"""The table of a chunk buffer: every state with every input, and the functions that implement it."""

from __future__ import annotations

from itertools import product

import pytest

from model.chunking.assembly import (
    TABLE,
    Arrival,
    Buffer,
    BufferEffect,
    BufferInput,
    Buffers,
    BufferState,
    Whole,
    acknowledged_with,
    arrive,
    expire,
    forget,
    input_of,
    transition,
)
from model.chunking.chunks import Chunk

CHUNKS = 4
KEPT = Buffer("u", (10, 12))
"""What is kept in the state FILLING: the first two chunks of four."""

ARRIVALS: dict[BufferInput, tuple[BufferState, int, int]] = {
    BufferInput.FIRST: (BufferState.NOTHING, 0, 20),
    BufferInput.NEXT: (BufferState.FILLING, 2, 20),
    BufferInput.FIRST_AGAIN: (BufferState.FILLING, 0, 20),
    BufferInput.REPEATED: (BufferState.FILLING, 1, 20),
    BufferInput.BEYOND: (BufferState.FILLING, 3, 20),
}
"""For each input that is an arrival a state in which it can be, the chunk's number, and its entry."""

IMPOSSIBLE = {
    (BufferState.NOTHING, BufferInput.NEXT),
    (BufferState.NOTHING, BufferInput.LAST),
    (BufferState.NOTHING, BufferInput.FIRST_AGAIN),
    (BufferState.NOTHING, BufferInput.REPEATED),
    (BufferState.NOTHING, BufferInput.CROWDED_OUT),
    (BufferState.NOTHING, BufferInput.EXPIRED),
    (BufferState.FILLING, BufferInput.FIRST),
}


def chunk(chunk_id: int, *, uuid: str = "u", chunks: int = CHUNKS) -> Chunk:
    return Chunk(uuid, 1, chunk_id, chunks, chunks, chunk_id, chunk_id + 1)


def arrive_all(buffers: Buffers, *arriving: str) -> tuple[Buffers, list[Arrival]]:
    """The result of entries that arrive, written as ``u1/3@7``: chunk 1 of 3 of u from entry 7."""
    found = []
    for one in arriving:
        number, _, position = one[1:].partition("@")
        chunk_id, chunks = map(int, number.split("/"))
        buffers, arrival = arrive(buffers, chunk(chunk_id, uuid=one[0], chunks=chunks), int(position))
        found.append(arrival)
    return buffers, found


def effects(*arriving: str, limit: int = 0) -> list[BufferEffect]:
    return [arrival.effect for arrival in arrive_all(Buffers(limit), *arriving)[1]]


@pytest.mark.parametrize(("state", "happens"), list(product(BufferState, BufferInput)), ids=lambda one: one.name)
def test_every_state_and_input_is_either_in_the_table_or_impossible(state: BufferState, happens: BufferInput) -> None:
    buffer = KEPT if state is BufferState.FILLING else None
    if (state, happens) in IMPOSSIBLE:
        with pytest.raises(ValueError, match="it cannot be that "):
            transition(buffer, happens)
    else:
        assert transition(buffer, happens) == TABLE[state, happens]


@pytest.mark.parametrize("happens", ARRIVALS, ids=lambda one: one.name)
def test_an_arrival_does_what_the_table_says(happens: BufferInput) -> None:
    state, chunk_id, position = ARRIVALS[happens]
    before = Buffers(kept=(KEPT,)) if state is BufferState.FILLING else Buffers()
    assert input_of(before.of("u"), chunk(chunk_id)) is happens
    after, arrival = arrive(before, chunk(chunk_id), position)
    assert arrival.effect is TABLE[state, happens].effect
    assert (after.of("u") is not None) is (TABLE[state, happens].after is BufferState.FILLING)


def test_a_message_is_delivered_once_all_its_chunks_arrived() -> None:
    buffers, arrivals = arrive_all(Buffers(), "u0/3@4", "u1/3@6", "u2/3@9")
    assert [one.whole for one in arrivals] == [None, None, Whole("u", (4, 6, 9))]
    assert buffers == Buffers()


def test_interleaved_messages_have_a_buffer_each() -> None:
    buffers, _ = arrive_all(Buffers(), "u0/2@0", "v0/2@1")
    assert [buffer.uuid for buffer in buffers.kept] == ["u", "v"]
    _, arrivals = arrive_all(buffers, "u1/2@2", "v1/2@3")
    assert [one.whole for one in arrivals] == [Whole("u", (0, 2)), Whole("v", (1, 3))]


def test_a_chunk_that_was_stored_twice_is_acknowledged_with_its_message() -> None:
    _, arrivals = arrive_all(Buffers(), "u0/3@0", "u1/3@1", "u1/3@2", "u2/3@3")
    whole = arrivals[-1].whole
    assert whole == Whole("u", (0, 1, 3), (2,))
    assert sorted(acknowledged_with(whole)) == [0, 1, 2, 3]


def test_a_message_resent_from_its_first_chunk_gets_a_new_buffer() -> None:
    _, arrivals = arrive_all(Buffers(), "u0/2@0", "u0/2@1", "u1/2@2")
    assert arrivals[-1].whole == Whole("u", (1, 2), (0,))


def test_an_entry_that_arrives_twice_counts_once() -> None:
    _, arrivals = arrive_all(Buffers(), "u0/3@0", "u1/3@1", "u1/3@1", "u2/3@2")
    assert arrivals[-1].whole == Whole("u", (0, 1, 2))


def test_a_redelivery_from_the_first_chunk_sets_no_entry_aside() -> None:
    _, arrivals = arrive_all(Buffers(), "u0/3@0", "u1/3@1", "u0/3@0", "u1/3@1", "u2/3@2")
    assert arrivals[-1].whole == Whole("u", (0, 1, 2))


def test_a_chunk_without_its_predecessors_is_set_aside_for_redelivery() -> None:
    buffers, arrivals = arrive_all(Buffers(), "u0/3@0", "u2/3@2")
    assert [one.effect for one in arrivals] == [BufferEffect.OPEN, BufferEffect.DROP]
    assert buffers == Buffers(awaiting_redelivery=frozenset({0, 2}))
    assert effects("u1/3@1") == [BufferEffect.SET_ASIDE]


def test_beyond_the_pending_limit_the_oldest_message_is_discarded_and_redelivered() -> None:
    buffers, arrivals = arrive_all(Buffers(1), "u0/2@0", "v0/2@1")
    assert arrivals[-1] == Arrival(BufferEffect.OPEN, None, (), (Buffer("u", (0,)),))
    assert (buffers.kept, buffers.awaiting_redelivery) == ((Buffer("v", (1,)),), frozenset({0}))


def test_discarded_chunks_are_acknowledged_if_so_configured() -> None:
    buffers, arrivals = arrive_all(Buffers(1, acks_discarded=True), "u0/2@0", "v0/2@1")
    assert arrivals[-1].acknowledged == (0,)
    assert buffers.awaiting_redelivery == frozenset()


def test_the_chunks_of_an_expired_message_are_acknowledged() -> None:
    buffers, _ = arrive_all(Buffers(), "u0/2@0", "v0/2@1")
    buffers, acknowledged = expire(buffers)
    assert (acknowledged, buffers.kept) == ((0,), (Buffer("v", (1,)),))
    with pytest.raises(ValueError, match="there is no buffer that could expire"):
        expire(Buffers())


def test_a_buffer_with_an_acknowledged_entry_is_forgotten() -> None:
    buffers, _ = arrive_all(Buffers(), "u0/2@0", "v0/2@1")
    assert forget(buffers, frozenset({0})).kept == (Buffer("v", (1,)),)
