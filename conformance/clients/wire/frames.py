"""The frames of Pulsar's binary protocol, as bytes and as values.

A frame is ``[total size][command size][command]``, sizes as big-endian 32-bit numbers; SEND and MESSAGE go on with
``[0x0e01][CRC32C][metadata size][metadata][payload]``, the checksum being over all that follows it. A broker may put
its own metadata in front (``[0x0e02][size][...]``): it is skipped. Without ``0x0e01`` there is no checksum to verify.

It has no sockets and does not interpret commands; the wire client and the proxy share it.
Anything else than a frame raises :class:`MalformedFrame`, for any split of the stream; nothing else is raised.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeVar

import google_crc32c
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message
from msgspec import Struct

from conformance.clients import protocol_pb2 as pb
from conformance.harness_error import HarnessError

CHECKSUM_MAGIC: Final = b"\x0e\x01"
BROKER_ENTRY_METADATA_MAGIC: Final = b"\x0e\x02"

MAX_FRAME_SIZE_BYTES: Final = 5 * 1024 * 1024 + 10 * 1024
"""The largest frame by default: Pulsar's default ``maxMessageSize`` and its allowance for headers."""

_U32: Final = struct.Struct(">I")
_TWO_U32: Final = struct.Struct(">II")
CARRY_PAYLOAD: Final = frozenset({pb.BaseCommand.SEND, pb.BaseCommand.MESSAGE})
"""The commands that metadata and a payload follow."""


class _Body(Struct, frozen=True):
    """The body of a type of command: its field in BaseCommand, and whether it can have text."""

    name: str
    has_text: bool


def _can_hold_text(descriptor: Descriptor | None) -> bool:
    """Whether messages of this kind can have text, at any depth (a kind may contain itself)."""
    return descriptor is not None and any(
        field.type == FieldDescriptor.TYPE_STRING
        or (field.message_type != descriptor and _can_hold_text(field.message_type))
        for field in descriptor.fields
    )


_BODIES: Final = {
    field.number: _Body(field.name, _can_hold_text(field.message_type))
    for field in pb.BaseCommand.DESCRIPTOR.oneofs_by_name["body"].fields
}


class MalformedFrame(HarnessError):
    """Bytes that are not a frame of the protocol, with the reason."""


class Frame(Struct, frozen=True):
    """One frame as it was received.

    ``metadata`` is None and ``payload`` empty for all commands but SEND and MESSAGE. ``raw``: the whole frame with its
    sizes.
    """

    command: pb.BaseCommand
    metadata: pb.MessageMetadata | None
    payload: bytes
    raw: bytes


def encode_frame(command: pb.BaseCommand, metadata: pb.MessageMetadata | None = None, payload: bytes = b"") -> bytes:
    """A frame's bytes; with metadata, it has the checksum, the metadata and the payload."""
    command_bytes = command.SerializeToString()
    if metadata is None:
        return _framed(command_bytes)
    metadata_bytes = metadata.SerializeToString()
    summed = b"".join((_U32.pack(len(metadata_bytes)), metadata_bytes, payload))
    total = 4 + len(command_bytes) + 2 + 4 + len(summed)
    return b"".join(
        (
            _TWO_U32.pack(total, len(command_bytes)),
            command_bytes,
            CHECKSUM_MAGIC,
            _U32.pack(google_crc32c.value(summed)),
            summed,
        )
    )


def encode_changed(command: pb.BaseCommand) -> bytes:
    """The frame of a command that somebody else has sent, and that may lack required fields."""
    return _framed(command.SerializePartialToString())


def _framed(command_bytes: bytes) -> bytes:
    return _TWO_U32.pack(4 + len(command_bytes), len(command_bytes)) + command_bytes


class FrameSplitter:
    """Cuts a stream of bytes into frames by their sizes.

    It buffers at most one unfinished frame, of at most ``max_frame_size_bytes``. Frames are views of the received
    bytes: only a frame that arrived in parts is copied, once.
    """

    __slots__ = ("_buffer", "_max_frame_size_bytes", "_offset", "_parts", "_parts_size_bytes", "_view")

    def __init__(self, *, max_frame_size_bytes: int = MAX_FRAME_SIZE_BYTES) -> None:
        self._max_frame_size_bytes = max_frame_size_bytes
        self._buffer = b""
        self._view = memoryview(self._buffer)
        self._offset = 0
        self._parts: list[bytes] = []
        self._parts_size_bytes = 0

    @property
    def buffered_size_bytes(self) -> int:
        """How many bytes of an unfinished frame (or of frames not yet taken) are held; 0 at a frame's end."""
        return len(self._buffer) - self._offset + self._parts_size_bytes

    def feed(self, data: bytes) -> Iterator[memoryview]:
        """Take bytes in and give the frames, sizes included, that are complete with them.

        The bytes are taken in at once; frames that the caller leaves in the iterator come with the next call. Where a
        size is impossible :class:`MalformedFrame` is raised, and so it is ever after.
        """
        if data:
            self._parts.append(data)
            self._parts_size_bytes += len(data)
        return self._frames()

    def take_rest(self) -> bytes:
        """Stop framing: return all buffered bytes."""
        self._join_parts()
        rest = self._buffer[self._offset :]
        self._keep(b"")
        return rest

    def _frames(self) -> Iterator[memoryview]:
        while (size_bytes := self._size_of_next()) is not None and self.buffered_size_bytes >= size_bytes:
            self._join_parts()
            start = self._offset
            self._offset = start + size_bytes
            yield self._view[start : self._offset]

    def _size_of_next(self) -> int | None:
        """The next frame's whole size, once its first four bytes have arrived."""
        if self.buffered_size_bytes < 4:
            return None
        if len(self._buffer) - self._offset < 4:
            self._join_parts()
        (total,) = _U32.unpack_from(self._buffer, self._offset)
        if not 4 <= total <= self._max_frame_size_bytes:
            raise MalformedFrame(f"a frame says it has {total} bytes; 4 to {self._max_frame_size_bytes} are possible")
        return 4 + int(total)

    def _join_parts(self) -> None:
        """Join the parts once per frame, so that many small parts cost no more."""
        if self._parts:
            is_rest = self._offset < len(self._buffer)
            self._keep(b"".join((self._view[self._offset :], *self._parts)) if is_rest else b"".join(self._parts))

    def _keep(self, buffer: bytes) -> None:
        self._buffer = buffer
        self._view = memoryview(buffer)
        self._offset = 0
        self._parts.clear()
        self._parts_size_bytes = 0


class FrameDecoder:
    """Cuts a stream of bytes into frames, and decodes them.

    After a malformed frame the stream stays malformed: the beginning of the next frame is unknown.
    """

    __slots__ = ("_broken", "_splitter")

    def __init__(self, *, max_frame_size_bytes: int = MAX_FRAME_SIZE_BYTES) -> None:
        self._splitter = FrameSplitter(max_frame_size_bytes=max_frame_size_bytes)
        self._broken: str | None = None

    @property
    def buffered_size_bytes(self) -> int:
        """How many bytes of an unfinished frame (or of frames not yet taken) are held; 0 at a frame's end."""
        return self._splitter.buffered_size_bytes

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Take bytes in and give the frames that are complete with them.

        The bytes are taken in at once; frames that the caller leaves in the iterator come with the next call.
        :class:`MalformedFrame` comes where the malformed frame would have come, after all the good ones before it.
        """
        return self._read(self._splitter.feed(data))

    def _read(self, raws: Iterator[memoryview]) -> Iterator[Frame]:
        if self._broken is not None:
            raise MalformedFrame(self._broken)
        try:
            for raw in raws:
                yield decode_frame(bytes(raw))
        except MalformedFrame as malformed:
            self._broken = str(malformed)
            raise


class Bounds(Struct, frozen=True):
    """Where the metadata and the payload of a SEND or MESSAGE begin.

    ``summed``: the beginning of the bytes that the checksum covers, up to the frame's end; None without a checksum.
    """

    summed: int | None
    metadata: int
    payload: int


def command_end(raw: bytes | memoryview) -> int:
    """The end of a whole frame's command. Raises :class:`MalformedFrame` if it is not within the frame."""
    if len(raw) < 8:
        raise MalformedFrame(f"a frame of {len(raw)} bytes has no room for a command's size")
    total, command_size = _TWO_U32.unpack_from(raw)
    if total != len(raw) - 4:
        raise MalformedFrame(f"a frame of {len(raw)} bytes says that {total} follow its first four")
    end = 8 + int(command_size)
    if end > len(raw):
        raise MalformedFrame(f"a command of {command_size} bytes does not fit a frame of {len(raw)}")
    return end


def bounds_of(raw: bytes | memoryview, headers: int, *, is_verified: bool = False) -> Bounds:
    """The bounds of the parts of a SEND or MESSAGE whose command ends at ``headers``.

    Raises :class:`MalformedFrame`; with ``is_verified`` also where the checksum is wrong.
    """
    at = _skip_broker_entry_metadata(raw, headers)
    summed = None
    if raw[at : at + 2] == CHECKSUM_MAGIC:
        (checksum,) = _unpack_u32(raw, at + 2, "checksum")
        summed = at = at + 6
        if is_verified and google_crc32c.value(bytes(raw[at:])) != checksum:
            raise MalformedFrame("a frame's checksum is wrong")
    (size,) = _unpack_u32(raw, at, "metadata's size")
    if at + 4 + size > len(raw):
        raise MalformedFrame(f"metadata of {size} bytes does not fit its frame")
    return Bounds(summed, at + 4, at + 4 + size)


def decode_frame(raw: bytes) -> Frame:
    """Decode one whole frame with its sizes. Raises :class:`MalformedFrame`."""
    end = command_end(raw)
    command = _decode_command(raw[8:end])
    if command.type in CARRY_PAYLOAD:
        metadata, payload = _decode_headers_and_payload(raw, end)
        return Frame(command, metadata, payload, raw)
    if end != len(raw):
        raise MalformedFrame(f"{len(raw) - end} bytes follow a command that carries no payload")
    return Frame(command, None, b"", raw)


def _decode_command(data: bytes) -> pb.BaseCommand:
    command = _parse(pb.BaseCommand, data, "command", has_text=False)
    body = _BODIES.get(command.type)
    if body is not None:
        if command.WhichOneof("body") != body.name:
            raise MalformedFrame(f"a command of type {command.type} has not the body that belongs to it")
        if body.has_text:
            _refuse_broken_text(command, "command")
    return command


def _decode_headers_and_payload(raw: bytes, start: int) -> tuple[pb.MessageMetadata, bytes]:
    """Decode the metadata and payload of a SEND or MESSAGE."""
    bounds = bounds_of(raw, start, is_verified=True)
    metadata = _parse(pb.MessageMetadata, raw[bounds.metadata : bounds.payload], "message metadata")
    return metadata, raw[bounds.payload :]


def _skip_broker_entry_metadata(raw: bytes | memoryview, at: int) -> int:
    if raw[at : at + 2] != BROKER_ENTRY_METADATA_MAGIC:
        return at
    (size,) = _unpack_u32(raw, at + 2, "broker entry metadata's size")
    return at + 6 + size


def _unpack_u32(raw: bytes | memoryview, at: int, what: str) -> tuple[int]:
    if at + 4 > len(raw):
        raise MalformedFrame(f"a frame ends before its {what}")
    return _U32.unpack_from(raw, at)


def encode_batch(messages: Iterable[tuple[pb.SingleMessageMetadata, bytes]]) -> bytes:
    """The payload of a batch; sets each message's ``payload_size`` in the given metadata."""
    parts: list[bytes] = []
    for metadata, payload in messages:
        metadata.payload_size = len(payload)
        metadata_bytes = metadata.SerializeToString()
        parts += (_U32.pack(len(metadata_bytes)), metadata_bytes, payload)
    return b"".join(parts)


def decode_batch(payload: bytes, count: int) -> Sequence[tuple[pb.SingleMessageMetadata, bytes]]:
    """Split a batch of ``count`` messages. Raises :class:`MalformedFrame` unless it has exactly these."""
    if count < 0:
        raise MalformedFrame(f"a batch says it has {count} messages")
    messages = []
    at = 0
    for index in range(count):
        (size,) = _unpack_u32(payload, at, f"batch's message {index}")
        start = at + 4 + size
        if start > len(payload):
            raise MalformedFrame(f"message {index} of a batch: metadata of {size} bytes does not fit")
        metadata = _parse(pb.SingleMessageMetadata, payload[at + 4 : start], "a batched message's metadata")
        at = start + metadata.payload_size
        if not start <= at <= len(payload):
            raise MalformedFrame(
                f"message {index} of a batch: a payload of {metadata.payload_size} bytes is impossible"
            )
        messages.append((metadata, payload[start:at]))
    if at != len(payload):
        raise MalformedFrame(f"{len(payload) - at} bytes follow the last message of a batch of {count}")
    return messages


_M = TypeVar("_M", bound=Message)


def _parse(kind: type[_M], data: bytes, what: str, *, has_text: bool = True) -> _M:
    """Parse strictly: the fast protobuf runtime accepts missing required fields and invalid UTF-8."""
    try:
        message = kind.FromString(data)
    except DecodeError:
        raise MalformedFrame(f"{len(data)} bytes are no valid {what}") from None
    if not message.IsInitialized():
        raise MalformedFrame(f"a {what} lacks a required field, or names a type that is not known")
    if has_text:
        _refuse_broken_text(message, what)
    return message


def _refuse_broken_text(message: Message, what: str) -> None:
    """Check all text, at any depth: the runtime returns invalid UTF-8 as bytes."""
    for field, value in message.ListFields():
        values = value if field.is_repeated else (value,)
        if field.type == FieldDescriptor.TYPE_STRING:
            if not all(isinstance(text, str) for text in values):
                raise MalformedFrame(f"a text in a {what} is not UTF-8")
        elif field.type == FieldDescriptor.TYPE_MESSAGE:
            for inner in values:
                _refuse_broken_text(inner, what)
