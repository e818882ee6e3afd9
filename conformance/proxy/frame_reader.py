"""Reads the identifying fields of a frame; it reads the payload only for a digest.

A reader belongs to one connection and stores the names of its producers and consumers, because most commands have only
their ids. An unreadable frame is no error, but a command of the kind ``UNREADABLE``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from google.protobuf.message import DecodeError

from conformance.clients import protocol_pb2 as pb
from conformance.clients.outcomes import error_name, position_of
from conformance.clients.wire.entries import key_of, parts_of
from conformance.clients.wire.frames import MalformedFrame, bounds_of, command_end
from conformance.digest import digest, hasher, number_of
from conformance.harness_error import HarnessError
from conformance.proxy.events import UNREADABLE, ChunkFields, Contents, MessageFields
from model.log import Position

if TYPE_CHECKING:
    from hashlib import blake2b

Facts = dict[str, Any]
"""Fields of a :class:`~conformance.proxy.events.Command` by their names."""

_Type = pb.BaseCommand
_NAMES: Final[Mapping[int, str]] = {number: name for name, number in pb.BaseCommand.Type.items()}
_SUBSCRIPTION_TYPES: Final = {number: name for name, number in pb.CommandSubscribe.SubType.items()}
_BODIES: Final = {
    field.number: (field.name, frozenset(inner.name for inner in field.message_type.fields))
    for field in pb.BaseCommand.DESCRIPTOR.oneofs_by_name["body"].fields
    if field.message_type is not None
}
_DIGEST_SIZE_BYTES: Final = 8
MOST_UNFINISHED: Final = 10_000
"""How many unfinished chunked messages of a connection are followed; the digests of others are unknown."""


def payload_digest(payload: bytes | memoryview) -> str:
    """The digest of a payload on the wire, for commands."""
    return hashlib.blake2b(payload, digest_size=_DIGEST_SIZE_BYTES).hexdigest()


class Reader:
    """Reads the frames of one connection, in both directions."""

    def __init__(self, *, with_digests: bool, with_contents: bool = False) -> None:
        self._with_digests = with_digests
        self._with_contents = with_contents
        self._unfinished: dict[tuple[str, int, str], tuple[int, blake2b]] = {}
        self._is_too_much = False
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
        self._entry(raw, facts, ("send", send.producer_id))
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
        if message.ack_set:
            facts["ack_sets"] = (tuple(message.ack_set),)
        metadata = self._entry(raw, facts, ("message", message.consumer_id))
        facts["producer"] = _text(metadata.producer_name)
        facts["sequence_id"] = metadata.sequence_id
        if metadata.HasField("highest_sequence_id"):
            facts["highest_sequence_id"] = metadata.highest_sequence_id
        return facts

    def _entry(self, raw: memoryview, facts: Facts, handle: tuple[str, int]) -> pb.MessageMetadata:
        bounds = bounds_of(raw, command_end(raw))
        metadata = pb.MessageMetadata.FromString(bytes(raw[bounds.metadata : bounds.payload]))
        if metadata.HasField("chunk_id"):
            facts["chunk"] = ChunkFields(
                _text(metadata.uuid), metadata.chunk_id, metadata.num_chunks_from_msg, metadata.total_chunk_msg_size
            )
        if self._with_digests:
            facts["digest"] = payload_digest(raw[bounds.payload :])
        if self._with_contents:
            facts["contents"] = self._contents(metadata, raw[bounds.payload :], handle)
        return metadata

    def _contents(self, metadata: pb.MessageMetadata, payload: memoryview, handle: tuple[str, int]) -> Contents | None:
        """The messages of an entry; None if they cannot be read, because they are encrypted, for instance."""
        is_whole = True
        if metadata.HasField("chunk_id"):
            is_whole, digested = self._chunk(metadata, payload, (*handle, _text(metadata.uuid)))
            messages: tuple[MessageFields, ...] = (
                MessageFields(-1, metadata.sequence_id, key_of(metadata), digested, metadata.total_chunk_msg_size),
            )
        else:
            try:
                parts = parts_of(metadata, payload)
            except HarnessError:
                return None
            messages = tuple(
                _message_fields(index, metadata, single, part)
                for index, single, part in parts
                if single is None or not single.compacted_out
            )
        return Contents(
            messages=messages,
            key=key_of(metadata),
            batch_size=metadata.num_messages_in_batch if metadata.HasField("num_messages_in_batch") else 0,
            is_delayed=metadata.HasField("deliver_at_time"),
            is_transactional=metadata.HasField("txnid_most_bits"),
            is_whole=is_whole,
        )

    def _chunk(
        self, metadata: pb.MessageMetadata, payload: memoryview, message: tuple[str, int, str]
    ) -> tuple[bool, int | None]:
        """Whether a chunk completes its message, as far as is known, and then the digest of the whole payload."""
        chunk = metadata.chunk_id
        if chunk == 0:
            self._unfinished.pop(message, None)
            self._is_too_much |= len(self._unfinished) >= MOST_UNFINISHED
            if len(self._unfinished) < MOST_UNFINISHED:
                self._unfinished[message] = (0, hasher())
        following, hashed = self._unfinished.get(message, (-1, None))
        if hashed is None:
            return self._is_too_much and chunk + 1 == metadata.num_chunks_from_msg, None
        if chunk != following:
            if chunk > following:  # one is missing: the client waits for a redelivery from the first one on
                del self._unfinished[message]
            return False, None
        hashed.update(payload)
        self._unfinished[message] = (chunk + 1, hashed)
        if chunk + 1 < metadata.num_chunks_from_msg:
            return False, None
        del self._unfinished[message]
        return True, number_of(hashed)

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
        return {
            **named,
            "consumer_id": subscribe.consumer_id,
            "request_id": subscribe.request_id,
            "subscription": _text(subscribe.subscription),
            "subscription_type": _SUBSCRIPTION_TYPES.get(subscribe.sub_type),
            "is_durable": subscribe.durable,
            "is_replicated": subscribe.replicate_subscription_state,
        }

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
            facts["is_transactional"] = body.HasField("txnid_most_bits")
            if any(one.ack_set for one in body.message_id):
                facts["ack_sets"] = tuple(tuple(one.ack_set) for one in body.message_id)
        if ids := fields & {"message_id", "message_ids"}:
            facts["positions"] = _positions(getattr(body, *ids))
        return facts


def _positions(ids: pb.MessageIdData | Sequence[pb.MessageIdData]) -> tuple[Position | None, ...]:
    many = (ids,) if isinstance(ids, pb.MessageIdData) else ids
    return tuple(position_of(one) for one in many)


def _message_fields(
    index: int, metadata: pb.MessageMetadata, single: pb.SingleMessageMetadata | None, payload: bytes | memoryview
) -> MessageFields:
    own = metadata if single is None or not single.HasField("sequence_id") else single
    return MessageFields(index, own.sequence_id, key_of(single or metadata), digest(payload), len(payload))


def _text(value: str | bytes) -> str:
    """The protobuf runtime returns invalid UTF-8 as bytes."""
    return value if isinstance(value, str) else value.decode(errors="replace")
