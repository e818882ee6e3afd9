"""Frames for Hypothesis: valid ones of every kind, as a command, metadata and payload."""

from __future__ import annotations

from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from hypothesis import strategies as st

from conformance.clients import protocol_pb2 as pb

_RANGES: Final = {
    FieldDescriptor.TYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.TYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.TYPE_UINT64: (0, 2**64 - 1),
}
_BODIES: Final = tuple(pb.BaseCommand.DESCRIPTOR.oneofs_by_name["body"].fields)
_WITH_PAYLOAD: Final = frozenset({pb.BaseCommand.SEND, pb.BaseCommand.MESSAGE})

Parts = tuple[pb.BaseCommand, pb.MessageMetadata | None, bytes]


def _values(field: FieldDescriptor, depth: int) -> st.SearchStrategy[Any]:
    if field.type in _RANGES:
        return st.integers(*_RANGES[field.type])
    if field.type == FieldDescriptor.TYPE_ENUM:
        assert field.enum_type is not None
        return st.sampled_from([value.number for value in field.enum_type.values])
    if field.type == FieldDescriptor.TYPE_BOOL:
        return st.booleans()
    if field.type == FieldDescriptor.TYPE_STRING:
        return st.text(st.sampled_from("ab:\0\x7fé€😀"), max_size=8)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return st.binary(max_size=8)
    assert field.message_type is not None
    return _fields_of(field.message_type, depth - 1)


def _fields_of(descriptor: Descriptor, depth: int = 3) -> st.SearchStrategy[dict[str, Any]]:
    """Values for a message's fields: all required ones, and any of the others while there is depth left."""
    required: dict[str, st.SearchStrategy[Any]] = {}
    optional: dict[str, st.SearchStrategy[Any]] = {}
    for field in descriptor.fields:
        if field.message_type is not None and depth == 0:
            continue
        values = _values(field, depth)
        if field.is_repeated:
            optional[field.name] = st.lists(values, max_size=3)
        else:
            (required if field.is_required else optional)[field.name] = values
    return st.fixed_dictionaries(required, optional=optional)


def metadata() -> st.SearchStrategy[pb.MessageMetadata]:
    """Metadata of an entry."""
    return _fields_of(pb.MessageMetadata.DESCRIPTOR).map(lambda fields: pb.MessageMetadata(**fields))


def single_metadata() -> st.SearchStrategy[pb.SingleMessageMetadata]:
    """Metadata of a message in a batch; the codec sets its payload size."""
    return _fields_of(pb.SingleMessageMetadata.DESCRIPTOR).map(lambda fields: pb.SingleMessageMetadata(**fields))


@st.composite
def frame_parts(draw: st.DrawFn) -> Parts:
    """The parts of a frame, for any command that has a body."""
    body = draw(st.sampled_from(_BODIES))
    assert body.message_type is not None
    command = pb.BaseCommand(type=body.number, **{body.name: draw(_fields_of(body.message_type))})  # type: ignore[arg-type]
    if body.number not in _WITH_PAYLOAD:
        return command, None, b""
    return command, draw(metadata()), draw(st.binary(max_size=64))
