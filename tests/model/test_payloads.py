"""A chunk that pulsar-client made shows its name, wherever the payload was split."""

from __future__ import annotations

import pytest

from model.payloads import LIMIT_BYTES, business_id_of, is_whole, payload_of, payload_of_chunks
from model.vocabulary import ChunkNumber, Entry, Message


def chunks(name: str, count: int) -> tuple[Entry, ...]:
    return tuple(Entry((Message(7, f"{name}.{n}", chunk=ChunkNumber(n, count, "w-7")),)) for n in range(count))


@pytest.mark.parametrize("metadata_bytes", [1, 31, 32, 33, 97, 150, 200, 400])
@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize("name", ["w1", "aw1234"])
def test_a_chunk_shows_its_name_and_number(metadata_bytes: int, count: int, name: str) -> None:
    payload, room = payload_of_chunks(chunks(name, count)), LIMIT_BYTES - metadata_bytes
    split = [payload[start : start + room] for start in range(0, len(payload), room)]
    assert [business_id_of(one) for one in split] == [f"{name}.{n}" for n in range(count)]


@pytest.mark.parametrize("message", [Message(1, "b1"), Message(1, "h1", chunk=ChunkNumber(0, 2, "u1"))])
def test_another_payload_shows_the_business_id_that_it_was_made_of(message: Message) -> None:
    assert business_id_of(payload_of(message)) == message.business_id


def test_only_all_chunks_of_one_message_in_order_are_whole() -> None:
    first, second = chunks("w1", 2), chunks("w2", 2)
    assert is_whole(first)
    for entries in (first[:1], first[::-1], (*first, *second), (first[0], second[1])):
        assert not is_whole(entries)
