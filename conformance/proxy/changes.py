"""Changes a frame for a fault, and corrects its sizes and, if wanted, its checksum."""

from __future__ import annotations

import struct
from typing import Final, assert_never

import google_crc32c
from google.protobuf.message import DecodeError

from conformance.clients import protocol_pb2 as pb
from conformance.clients.wire.frames import CARRY_PAYLOAD, MalformedFrame, bounds_of, command_end, encode_changed
from conformance.proxy.faults import Change, Corrupt, FewerIds, LowerLimit, OtherChunkId, OtherUuid, PayloadByte

_U32: Final = struct.Struct(">I")


def changed(raw: memoryview, fault: Corrupt) -> bytes | None:
    """The changed frame; None for one without anything to change, and for an unreadable one."""
    try:
        return _changed(raw, fault)
    except (DecodeError, MalformedFrame):
        return None


def _changed(raw: memoryview, fault: Corrupt) -> bytes | None:
    command = pb.BaseCommand.FromString(bytes(raw[8 : command_end(raw)]))
    if isinstance(fault.change, FewerIds):
        return _with_fewer_ids(command, fault.change) if command.type not in CARRY_PAYLOAD else None
    if isinstance(fault.change, LowerLimit):
        return _with_lower_limit(command, fault.change)
    if command.type not in CARRY_PAYLOAD:
        return None
    bounds = bounds_of(raw, command_end(raw))
    metadata = pb.MessageMetadata.FromString(bytes(raw[bounds.metadata : bounds.payload]))
    inside = _with_change(metadata, bytes(raw[bounds.payload :]), fault.change)
    if inside is None:
        return None
    front = bytes(raw[4 : bounds.metadata - 4])  # from the command's size up to the checksum, if there is one
    summed = inside
    if bounds.summed is not None and fault.mended:
        front = front[:-4] + _U32.pack(google_crc32c.value(summed))
    return _U32.pack(len(front) + len(summed)) + front + summed


def _with_change(metadata: pb.MessageMetadata, payload: bytes, change: Change) -> bytes | None:
    """The metadata with its size, and the payload, with the change."""
    match change:
        case PayloadByte(at=at, flipped=flipped):
            if not payload:
                return None
            at %= len(payload)
            payload = payload[:at] + bytes([payload[at] ^ flipped % 256]) + payload[at + 1 :]
        case OtherChunkId(chunk_id=chunk_id):
            if not metadata.HasField("chunk_id"):
                return None
            metadata.chunk_id = chunk_id
        case OtherUuid(uuid=uuid):
            if not metadata.HasField("uuid"):
                return None
            metadata.uuid = uuid
        case FewerIds() | LowerLimit():
            return None
        case _:
            assert_never(change)
    written = metadata.SerializePartialToString()
    return _U32.pack(len(written)) + written + payload


def _with_fewer_ids(command: pb.BaseCommand, change: FewerIds) -> bytes | None:
    """An ACK without some of its ids; empty if none is left."""
    if command.type != pb.BaseCommand.ACK or len(command.ack.message_id) < change.of_at_least:
        return None
    if len(command.ack.message_id) <= change.count:
        return b""
    del command.ack.message_id[-change.count :]
    return encode_changed(command)


def _with_lower_limit(command: pb.BaseCommand, change: LowerLimit) -> bytes | None:
    """CONNECTED with a lower limit."""
    if command.type != pb.BaseCommand.CONNECTED or command.connected.max_message_size <= change.max_message_bytes:
        return None
    command.connected.max_message_size = change.max_message_bytes
    return encode_changed(command)
