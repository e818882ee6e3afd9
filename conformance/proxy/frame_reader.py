"""Reads the identifying fields of a frame; it reads the payload only for a digest.

A reader belongs to one connection and stores the names of its producers and consumers, because most commands have only
their ids. An unreadable frame is no error, but a command of the kind ``UNREADABLE``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from google.protobuf.message import DecodeError

from conformance.clients import protocol_pb2 as pb
from conformance.clients.outcomes import error_name, position_of
from conformance.clients.wire.frames import MalformedFrame, bounds_of, command_end
from conformance.proxy.events import UNREADABLE, ChunkFields
from model.log import Position

Facts = dict[str, Any]
"""Fields of a :class:`~conformance.proxy.events.Command` by their names."""

_Type = pb.BaseCommand
_NAMES: Final[Mapping[int, str]] = {number: name for name, number in pb.BaseCommand.Type.items()}
_BODIES: Final = {
    field.number: (field.name, frozenset(inner.name for inner in field.message_type.fields))
    for field in pb.BaseCommand.DESCRIPTOR.oneofs_by_name["body"].fields
    if field.message_type is not None
}
_DIGEST_SIZE_BYTES: Final = 8


def payload_digest(payload: bytes | memoryview) -> str:
    """The digest of a payload on the wire, for commands."""
    return hashlib.blake2b(payload, digest_size=_DIGEST_SIZE_BYTES).hexdigest()


class Reader:
    """Reads the frames of one connection, in both directions."""

    def __init__(self, *, with_digests: bool) -> None:
        self._with_digests = with_digests
        self._producers: dict[int, Facts] = {}
        self._opening: dict[int, int] = {}
        self._consumers: dict[int, Facts] = {}
        self._special: Mapping[int, Callable[[pb.BaseCommand, memoryview], Facts]] = {
            _Type.SEND: self._send,
            _Type.SEND_RECEIPT: self._receipt,
            _Type.MESSAGE: self._message,
            _Type.PRODUCER: self._producer,
            _Type.PRODUCER_SUCCESS: self._producer_success,
            _Type.SUBSCRIBE: self._subscribe,
        }

    def read(self, raw: memoryview) -> tuple[str, Facts]:
        """The kind of a whole frame and its fields."""
        try:
            command = pb.BaseCommand.FromString(bytes(raw[8 : command_end(raw)]))
            if not command.HasField("type"):
                return UNREADABLE, {}
            read = self._special.get(command.type, self._common)
            return _NAMES[command.type], read(command, raw)
        except (DecodeError, MalformedFrame):
            return UNREADABLE, {}

    def _send(self, command: pb.BaseCommand, raw: memoryview) -> Facts:
        send = command.send
        facts = {
            **self._producers.get(send.producer_id, {}),
            "producer_id": send.producer_id,
            "sequence_id": send.sequence_id,
        }
        if send.HasField("highest_sequence_id"):
            facts["highest_sequence_id"] = send.highest_sequence_id
        self._entry(raw, facts)
        return facts

    def _receipt(self, command: pb.BaseCommand, _raw: memoryview) -> Facts:
        receipt = command.send_receipt
        facts = {
            **self._producers.get(receipt.producer_id, {}),
            "producer_id": receipt.producer_id,
            "sequence_id": receipt.sequence_id,
            "positions": (position_of(receipt.message_id),),
        }
        if receipt.HasField("highest_sequence_id"):
            facts["highest_sequence_id"] = receipt.highest_sequence_id
        return facts

    def _message(self, command: pb.BaseCommand, raw: memoryview) -> Facts:
        message = command.message
        facts = {
            **self._consumers.get(message.consumer_id, {}),
            "consumer_id": message.consumer_id,
            "positions": (position_of(message.message_id),),
            "redelivery_count": message.redelivery_count,
        }
        metadata = self._entry(raw, facts)
        facts["producer"] = _text(metadata.producer_name)
        facts["sequence_id"] = metadata.sequence_id
        if metadata.HasField("highest_sequence_id"):
            facts["highest_sequence_id"] = metadata.highest_sequence_id
        return facts

    def _entry(self, raw: memoryview, facts: Facts) -> pb.MessageMetadata:
        bounds = bounds_of(raw, command_end(raw))
        metadata = pb.MessageMetadata.FromString(bytes(raw[bounds.metadata : bounds.payload]))
        if metadata.HasField("chunk_id"):
            facts["chunk"] = ChunkFields(
                _text(metadata.uuid), metadata.chunk_id, metadata.num_chunks_from_msg, metadata.total_chunk_msg_size
            )
        if self._with_digests:
            facts["digest"] = payload_digest(raw[bounds.payload :])
        return metadata

    def _producer(self, command: pb.BaseCommand, _raw: memoryview) -> Facts:
        producer = command.producer
        named: Facts = {"topic": _text(producer.topic)}
        if producer.HasField("producer_name"):
            named["producer"] = _text(producer.producer_name)
        self._producers[producer.producer_id] = named
        self._opening[producer.request_id] = producer.producer_id
        return {**named, "producer_id": producer.producer_id, "request_id": producer.request_id}

    def _producer_success(self, command: pb.BaseCommand, _raw: memoryview) -> Facts:
        success = command.producer_success
        facts: Facts = {"request_id": success.request_id, "sequence_id": success.last_sequence_id}
        producer_id = self._opening.get(success.request_id)
        if producer_id is not None:
            named = self._producers[producer_id]
            named["producer"] = _text(success.producer_name)
            facts |= {**named, "producer_id": producer_id}
        return facts

    def _subscribe(self, command: pb.BaseCommand, _raw: memoryview) -> Facts:
        subscribe = command.subscribe
        named: Facts = {"topic": _text(subscribe.topic)}
        if subscribe.HasField("consumer_name"):
            named["consumer"] = _text(subscribe.consumer_name)
        self._consumers[subscribe.consumer_id] = named
        return {**named, "consumer_id": subscribe.consumer_id, "request_id": subscribe.request_id}

    def _common(self, command: pb.BaseCommand, _raw: memoryview) -> Facts:
        """The common fields of a command that has no reader of its own."""
        if command.type not in _BODIES:
            return {}
        name, fields = _BODIES[command.type]
        body = getattr(command, name)
        facts: Facts = {}
        if "producer_id" in fields:
            facts |= {**self._producers.get(body.producer_id, {}), "producer_id": body.producer_id}
        if "consumer_id" in fields:
            facts |= {**self._consumers.get(body.consumer_id, {}), "consumer_id": body.consumer_id}
        if "topic" in fields:  # of a look-up
            facts["topic"] = _text(body.topic)
        for field in ("request_id", "sequence_id"):
            if field in fields and body.HasField(field):
                facts[field] = getattr(body, field)
        if "error" in fields and body.HasField("error"):
            facts["error"] = error_name(body.error)
        if "message_permits" in fields:
            facts["permits"] = body.message_permits
        if "ack_type" in fields:
            facts["is_cumulative"] = body.ack_type == pb.CommandAck.Cumulative
        if ids := fields & {"message_id", "message_ids"}:
            facts["positions"] = _positions(getattr(body, *ids))
        return facts


def _positions(ids: pb.MessageIdData | Sequence[pb.MessageIdData]) -> tuple[Position | None, ...]:
    many = (ids,) if isinstance(ids, pb.MessageIdData) else ids
    return tuple(position_of(one) for one in many)


def _text(value: str | bytes) -> str:
    """The protobuf runtime returns invalid UTF-8 as bytes."""
    return value if isinstance(value, str) else value.decode(errors="replace")
