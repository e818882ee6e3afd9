"""How a message becomes chunks: at the limit, one byte under and over it, and what each chunk carries."""

from __future__ import annotations

import pytest

from model.chunking.splitting import Chunk, TooLarge, room, split

ROOM = room(limit_bytes=10_240, metadata_bytes=40)


def chunks_of(payload_bytes: int) -> tuple[Chunk, ...]:
    return split(uuid="u", sequence_id=7, payload_bytes=payload_bytes, room_bytes=ROOM)


def test_the_limit_is_what_the_metadata_leaves() -> None:
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
def test_a_payload_is_split_when_it_does_not_fit_and_only_then(payload_bytes: int, sizes: list[int]) -> None:
    assert [chunk.end - chunk.start for chunk in chunks_of(payload_bytes)] == sizes


def test_each_chunk_carries_the_uuid_its_number_their_count_and_the_size_of_all() -> None:
    assert [(c.uuid, c.sequence_id, c.chunk_id, c.chunks, c.total_bytes) for c in chunks_of(2 * ROOM + 1)] == [
        ("u", 7, number, 3, 2 * ROOM + 1) for number in range(3)
    ]


def test_the_parts_are_the_payload() -> None:
    payload = bytes(range(256)) * 100
    assert b"".join(payload[chunk.start : chunk.end] for chunk in chunks_of(len(payload))) == payload


def test_what_fits_has_no_uuid() -> None:
    assert chunks_of(ROOM) == (Chunk("", 7, 0, 1, ROOM, 0, ROOM),)


def test_without_chunking_what_does_not_fit_is_refused() -> None:
    with pytest.raises(TooLarge, match="a payload of 10201 bytes does not fit into 10200, and is not to be split"):
        split(uuid="u", sequence_id=7, payload_bytes=ROOM + 1, room_bytes=ROOM, is_chunking=False)
