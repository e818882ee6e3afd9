"""The frame codec: decoding reverses encoding, however the stream is split, and malformed frames are one error."""

from __future__ import annotations

import struct

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.clients import protocol_pb2 as pb
from conformance.clients.wire.frames import (
    MAX_FRAME_SIZE_BYTES,
    Frame,
    FrameDecoder,
    MalformedFrame,
    decode_batch,
    decode_frame,
    encode_batch,
    encode_frame,
)
from tests.clients.wire.frame_strategies import Parts, frame_parts, metadata, single_metadata

PING = encode_frame(pb.BaseCommand(type=pb.BaseCommand.PING, ping=pb.CommandPing()))


def send_frame(*, sequence_id: int = 0, payload: bytes = b"hello") -> bytes:
    """A frame as a producer sends it."""
    send = pb.CommandSend(producer_id=1, sequence_id=sequence_id)
    entry = pb.MessageMetadata(producer_name="p", sequence_id=sequence_id, publish_time=1)
    return encode_frame(pb.BaseCommand(type=pb.BaseCommand.SEND, send=send), entry, payload)


def framed(command: bytes, rest: bytes = b"") -> bytes:
    """Any bytes in place of a command, and any after it, with matching sizes."""
    return struct.pack(">II", 4 + len(command) + len(rest), len(command)) + command + rest


def drain(chunks: list[bytes]) -> tuple[list[Frame], str | None]:
    """All frames of a stream that arrives in these chunks, and the error in the end."""
    decoder = FrameDecoder()
    frames: list[Frame] = []
    for chunk in chunks:
        try:
            frames.extend(decoder.feed(chunk))
        except MalformedFrame as malformed:
            return frames, str(malformed)
    return frames, None


@st.composite
def cut_up(draw: st.DrawFn, data: bytes) -> list[bytes]:
    """The same bytes, in chunks."""
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=8)))
    return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]


@st.composite
def mutated(draw: st.DrawFn, data: bytes) -> bytes:
    """Bytes with some of them changed, removed or inserted."""
    changed = bytearray(data)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(changed)))
        match draw(st.sampled_from(["change", "remove", "insert"])):
            case "change" if at < len(changed):
                changed[at] = draw(st.integers(0, 255))
            case "remove":
                del changed[at : at + draw(st.integers(1, 4))]
            case _:
                changed[at:at] = draw(st.binary(min_size=1, max_size=4))
    return bytes(changed)


@given(parts=frame_parts())
def test_an_encoded_frame_decodes_to_the_same(parts: Parts) -> None:
    command, entry, payload = parts
    raw = encode_frame(command, entry, payload)
    assert decode_frame(raw) == Frame(command, entry, payload, raw)


@given(data=st.data(), many=st.lists(frame_parts(), min_size=1, max_size=4))
def test_any_splitting_of_the_stream_gives_the_same_frames(data: st.DataObject, many: list[Parts]) -> None:
    raws = [encode_frame(*parts) for parts in many]
    frames, wrong = drain(data.draw(cut_up(b"".join(raws))))
    assert wrong is None
    assert [frame.raw for frame in frames] == raws


@given(data=st.data(), many=st.lists(frame_parts(), min_size=1, max_size=3))
def test_any_splitting_of_a_damaged_stream_gives_the_same_frames_and_error(
    data: st.DataObject, many: list[Parts]
) -> None:
    stream = data.draw(mutated(b"".join(encode_frame(*parts) for parts in many)))
    assert drain(data.draw(cut_up(stream))) == drain([stream])


@given(data=st.binary(max_size=200))
def test_arbitrary_bytes_give_frames_or_a_malformed_frame_error(data: bytes) -> None:
    frames, _ = drain([data])
    assert b"".join(frame.raw for frame in frames) == data[: sum(len(frame.raw) for frame in frames)]


@given(command=st.binary(max_size=60), rest=st.binary(max_size=60))
def test_arbitrary_bytes_in_a_well_sized_frame_give_a_frame_or_the_error(command: bytes, rest: bytes) -> None:
    frames, wrong = drain([framed(command, rest)])
    assert len(frames) + (wrong is not None) == 1


@given(data=st.data(), parts=frame_parts())
def test_a_damaged_frame_that_is_accepted_has_valid_text_fields(data: st.DataObject, parts: Parts) -> None:
    frames, _ = drain([data.draw(mutated(encode_frame(*parts)))])
    for frame in frames:
        str(frame.command).encode()
        if frame.metadata is not None:
            assert isinstance(frame.metadata.producer_name, str)
            assert all(isinstance(item.key, str) for item in frame.metadata.properties)


@given(data=st.data(), payload=st.binary(max_size=40))
def test_a_single_changed_bit_after_the_checksum_is_never_accepted(data: st.DataObject, payload: bytes) -> None:
    raw = bytearray(send_frame(payload=payload))
    summed_from = raw.index(b"\x0e\x01") + 6
    at = data.draw(st.integers(summed_from, len(raw) - 1))
    raw[at] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(MalformedFrame, match="checksum"):
        decode_frame(bytes(raw))


def test_sequence_id_zero_is_encoded_and_not_omitted_as_a_default() -> None:
    frame = decode_frame(send_frame(sequence_id=0))
    assert frame.metadata is not None
    assert frame.command.send.HasField("sequence_id")
    assert frame.metadata.HasField("sequence_id")
    assert not frame.metadata.HasField("highest_sequence_id")


def test_a_frame_has_the_layout_of_the_protocol() -> None:
    raw = send_frame(payload=b"hello")
    total, command_size = struct.unpack_from(">II", raw)
    magic, checksum, metadata_size = struct.unpack_from(">HII", raw, 8 + command_size)
    assert total == len(raw) - 4
    assert magic == 0x0E01
    assert checksum == google_crc32c.value(raw[8 + command_size + 6 :])
    assert raw[8 + command_size + 10 + metadata_size :] == b"hello"


def test_metadata_that_the_broker_prepends_is_skipped() -> None:
    raw = send_frame()
    at = raw.index(b"\x0e\x01")
    command = raw[8:at]
    extended = framed(command, b"\x0e\x02" + struct.pack(">I", 3) + b"\x08\x96\x01" + raw[at:])
    assert decode_frame(extended).payload == b"hello"


def test_a_frame_without_a_checksum_is_decoded() -> None:
    raw = send_frame()
    at = raw.index(b"\x0e\x01")
    assert decode_frame(framed(raw[8:at], raw[at + 6 :])).payload == b"hello"


def test_a_command_that_the_suite_only_forwards_is_a_frame() -> None:
    frame = decode_frame(framed(b"\x08\x22\x92\x02\x02\x08\x01"))
    assert frame.command.type == pb.BaseCommand.GET_SCHEMA
    assert frame.command.WhichOneof("body") is None


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"\x00\x00\x00\x00", "0 bytes"),
        (b"\xff\xff\xff\xff", "4294967295 bytes"),
        (struct.pack(">I", MAX_FRAME_SIZE_BYTES + 1), "are possible"),
        (struct.pack(">II", 4, 5), "does not fit"),
        (struct.pack(">II", 4, 0xFFFFFFFF), "does not fit"),
        (framed(b""), "lacks a required field"),
        (framed(b"\x08\x63"), "names a type that is not known"),
        (framed(b"\x08\x12"), "has not the body"),
        (framed(b"\x08\x12\x9a\x01\x00"), "has not the body"),
        (framed(b"\x08\x12\x92\x01\x05\x00"), "no valid command"),
        (framed(b"\x08\x0e\x72\x09\x08\x01\x10\x01\x1a\x03a\xff\xfe"), "not UTF-8"),
        (framed(PING[8:], b"x"), "carries no payload"),
    ],
)
def test_each_kind_of_malformed_frame_is_named(raw: bytes, says: str) -> None:
    with pytest.raises(MalformedFrame, match=says):
        list(FrameDecoder().feed(raw))


@pytest.mark.parametrize(
    ("rest", "says"),
    [
        (b"", "metadata's size"),
        (b"\x0e\x01\x00", "checksum"),
        (b"\x0e\x01\x00\x00\x00\x00\x00\x00\x00\x00", "checksum is wrong"),
        (b"\x0e\x02\x00\x00", "broker entry metadata's size"),
        (b"\x0e\x02\xff\xff\xff\xff", "metadata's size"),
        (b"\xff\xff\xff\xff", "does not fit"),
        (b"\x00\x00\x00\x02\x08", "does not fit"),
        (b"\x00\x00\x00\x00", "lacks a required field"),
        (b"\x00\x00\x00\x01\x08", "no valid message metadata"),
        (b"\x00\x00\x00\x08\x0a\x02p\xff\x10\x01\x18\x01", "not UTF-8"),
    ],
)
def test_each_kind_of_malformed_metadata_is_named(rest: bytes, says: str) -> None:
    send = pb.BaseCommand(type=pb.BaseCommand.SEND, send=pb.CommandSend(producer_id=1, sequence_id=1))
    with pytest.raises(MalformedFrame, match=says):
        decode_frame(framed(send.SerializeToString(), rest))


def test_frames_before_a_malformed_one_are_returned_and_none_after_it() -> None:
    decoder = FrameDecoder()
    frames = decoder.feed(PING + framed(b"") + PING)
    assert next(frames).command.type == pb.BaseCommand.PING
    with pytest.raises(MalformedFrame):
        next(frames)
    with pytest.raises(MalformedFrame):
        list(decoder.feed(PING))


def test_frames_left_in_the_iterator_are_returned_with_the_next_bytes() -> None:
    decoder = FrameDecoder()
    next(decoder.feed(PING + PING))
    assert decoder.buffered_size_bytes == len(PING)
    assert len(list(decoder.feed(PING))) == 2
    assert decoder.buffered_size_bytes == 0


def test_a_decoder_refuses_a_frame_larger_than_its_limit() -> None:
    raw = send_frame(payload=b"x" * 100)
    assert list(FrameDecoder(max_frame_size_bytes=len(raw) - 4).feed(raw))
    with pytest.raises(MalformedFrame, match="are possible"):
        list(FrameDecoder(max_frame_size_bytes=len(raw) - 5).feed(raw))


def test_decoding_a_large_frame_byte_by_byte_costs_no_more_than_its_size() -> None:
    raw = send_frame(payload=b"x" * 200_000)
    decoder = FrameDecoder()
    frames = [frame for at in range(len(raw)) for frame in decoder.feed(raw[at : at + 1])]
    assert [frame.raw for frame in frames] == [raw]


@given(messages=st.lists(st.tuples(single_metadata(), st.binary(max_size=16)), max_size=5))
def test_an_encoded_batch_decodes_to_the_same(messages: list[tuple[pb.SingleMessageMetadata, bytes]]) -> None:
    decoded = decode_batch(encode_batch(messages), len(messages))
    assert list(decoded) == messages
    assert all(single.payload_size == len(payload) for single, payload in decoded)


@given(data=st.data(), payload=st.binary(max_size=80), count=st.integers(-1, 5))
def test_arbitrary_bytes_as_a_batch_are_decoded_or_malformed(data: st.DataObject, payload: bytes, count: int) -> None:
    try:
        messages = decode_batch(payload, count)
    except MalformedFrame:
        return
    assert len(messages) == count


@pytest.mark.parametrize(
    ("payload", "count", "says"),
    [
        (b"", -1, "says it has -1 messages"),
        (b"", 1, "ends before"),
        (b"\x00\x00\x00\x05\x18\x01", 1, "does not fit"),
        (b"\x00\x00\x00\x02\x18\x05abc", 1, "impossible"),
        (b"\x00\x00\x00\x0b\x18" + b"\xff" * 9 + b"\x01", 1, "impossible"),
        (b"\x00\x00\x00\x02\x18\x01ab", 1, "follow the last message"),
        (b"\x00\x00\x00\x00", 1, "lacks a required field"),
        (b"\x00\x00\x00\x02\x18\x01a", 2, "ends before"),
    ],
)
def test_each_kind_of_malformed_batch_is_named(payload: bytes, count: int, says: str) -> None:
    with pytest.raises(MalformedFrame, match=says):
        decode_batch(payload, count)


@given(entry=metadata(), payload=st.binary(max_size=32))
def test_metadata_of_any_content_survives_next_to_any_payload(entry: pb.MessageMetadata, payload: bytes) -> None:
    message_id = pb.MessageIdData(ledger_id=1, entry_id=2)
    message = pb.CommandMessage(consumer_id=1, message_id=message_id)
    frame = decode_frame(encode_frame(pb.BaseCommand(type=pb.BaseCommand.MESSAGE, message=message), entry, payload))
    assert (frame.metadata, frame.payload) == (entry, payload)
