"""Keys and their hashes."""

from __future__ import annotations

from itertools import islice

import pytest

from model.key_shared.hashes import (
    AUTO_SPLIT_HASHES,
    CLASSIC_HASHES,
    NO_KEY,
    STICKY_HASHES,
    key_of_message,
    keys_of,
    keys_that_share_a_hash,
    keys_with_hashes_apart,
    sticky_hash,
)
from model.vocabulary import HashRange


@pytest.mark.parametrize(
    ("key", "murmur3"),
    [
        (b"", 0x00000000),
        (b"\xff\xff\xff\xff", 0x76293B50),
        (b"\x21\x43\x65\x87", 0xF55B516B),
        (b"\x21\x43\x65", 0x7E4A8634),
        (b"\x21\x43", 0xA0F7B07A),
        (b"\x21", 0x72661CF4),
        (b"\x00\x00\x00\x00", 0x2362F9DE),
        (b"hello", 0x248BFA47),
        (b"hello, world", 0x149BBB7F),
        (b"The quick brown fox jumps over the lazy dog", 0x2E4FF723),
    ],
)
def test_the_hash_of_a_key_follows_from_the_published_value_of_murmur3(key: bytes, murmur3: int) -> None:
    assert sticky_hash(key) == max(1, (murmur3 & 0x7FFFFFFF) % 65535 + 1)
    assert sticky_hash(key, CLASSIC_HASHES) == (murmur3 & 0x7FFFFFFF) % 0x7FFFFFFE + 1


def test_every_key_hashes_into_the_auto_split_range() -> None:
    hashes = {sticky_hash(f"key-{n}".encode()) for n in range(5000)}
    assert all(hashed in AUTO_SPLIT_HASHES for hashed in hashes)
    assert len(hashes) > 4500


def test_no_key_has_the_hash_zero() -> None:
    of_zero = b""
    assert [sticky_hash(of_zero, hashes) for hashes in (STICKY_HASHES, AUTO_SPLIT_HASHES, CLASSIC_HASHES)] == [1, 1, 1]


def test_the_number_of_hashes_is_that_of_the_document() -> None:
    assert (len(AUTO_SPLIT_HASHES), len(STICKY_HASHES)) == (65535, 65536)


def test_an_ordering_key_precedes_the_key_and_a_message_without_keys_has_its_own() -> None:
    assert key_of_message(key=b"k", ordering_key=b"o") == b"o"
    assert key_of_message(key=b"k", producer="p", sequence_id=3) == b"k"
    assert key_of_message(key=b"", producer="p", sequence_id=3) == b""
    assert key_of_message(producer="p", sequence_id=3) == b"p-3" != NO_KEY


def test_keys_that_share_a_hash_are_found() -> None:
    keys = keys_that_share_a_hash(3)
    assert len(set(keys)) == 3
    assert len({sticky_hash(key.encode()) for key in keys}) == 1


def test_keys_with_hashes_apart_share_no_hash_with_each_other_or_the_avoided_ones() -> None:
    first, *_ = keys = keys_with_hashes_apart(1000)
    assert len({sticky_hash(key.encode()) for key in keys}) == 1000
    assert first not in keys_with_hashes_apart(10, avoid=[sticky_hash(first.encode())])


def test_keys_of_a_range_have_hashes_in_it() -> None:
    upper = HashRange(60000, 65535)
    assert all(sticky_hash(key.encode()) in upper for key in islice(keys_of(upper), 20))


def test_ranges_overlap_if_they_share_a_hash() -> None:
    assert HashRange(1, 5).overlaps(HashRange(5, 9))
    assert not HashRange(1, 5).overlaps(HashRange(6, 9))
    assert str(HashRange(1, 5)) == "1..5"
