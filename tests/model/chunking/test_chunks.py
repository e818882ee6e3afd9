"""How a message becomes chunks: at the limit, one byte under and over it, and what each chunk carries."""

from __future__ import annotations

import pytest

from model.chunking.chunks import Chunk, TooLarge, room, split

ROOM = room(limit_bytes=10_240, metadata_bytes=40)


def chunks_of(payload_bytes: int) -> tuple[Chunk, ...]:
    return split(uuid="u", sequence_id=7, payload_bytes=payload_bytes, room_bytes=ROOM)


def test_the_room_for_a_payload_is_the_limit_minus_the_metadata() -> None:
    assert ROOM == 10_200
    with pytest.raises(ValueError, match="40 bytes of metadata leave no room for a payload within 40"):
        room(limit_bytes=40, metadata_bytes=40)


@pytest.mark.parametrize(
    ("payload_bytes", "sizes"),
    [
        (0, [0]),
        (ROOM - 1, [ROOM - 1]),
        (ROOM, [ROOM]),
        (ROOM + 1, [ROOM, 1]),
        (2 * ROOM, [ROOM, ROOM]),
        (2 * ROOM + 1, [ROOM, ROOM, 1]),
    ],
)
def test_a_payload_is_split_only_if_it_does_not_fit(payload_bytes: int, sizes: list[int]) -> None:
    assert [chunk.end - chunk.start for chunk in chunks_of(payload_bytes)] == sizes


def test_each_chunk_has_the_uuid_its_number_the_count_and_the_total_size() -> None:
    assert [(c.uuid, c.sequence_id, c.chunk_id, c.chunks, c.total_bytes) for c in chunks_of(2 * ROOM + 1)] == [
        ("u", 7, number, 3, 2 * ROOM + 1) for number in range(3)
    ]


def test_the_chunks_make_up_the_payload() -> None:
    payload = bytes(range(256)) * 100
    assert b"".join(payload[chunk.start : chunk.end] for chunk in chunks_of(len(payload))) == payload


def test_a_message_that_fits_has_no_uuid() -> None:
    assert chunks_of(ROOM) == (Chunk("", 7, 0, 1, ROOM, 0, ROOM),)


def test_a_payload_that_does_not_fit_is_refused_without_chunking() -> None:
    with pytest.raises(TooLarge, match="a payload of 10201 bytes does not fit into 10200, and is not to be split"):
        split(uuid="u", sequence_id=7, payload_bytes=ROOM + 1, room_bytes=ROOM, is_chunking=False)
