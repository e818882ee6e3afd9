"""The events of the proxy, as plain values: connections that begin and end, and each command.

A command is described as it arrived at the proxy, even if a fault changed it afterwards.
"""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

from conformance.clients import protocol_pb2 as pb
from model.log import Position

Direction = Literal["to-broker", "to-client"]

UNREADABLE: Final = "UNREADABLE"
"""The kind of a frame whose command cannot be read; the proxy passes it on unchanged."""

KINDS: Final = frozenset({*pb.BaseCommand.Type.keys(), UNREADABLE})
"""The names of all commands in the protocol: ``SEND``, ``SEND_RECEIPT``, ``MESSAGE``, ``ACK``, ..."""


class ChunkFields(Struct, frozen=True, gc=False):
    """The chunk fields of a message (CHUNK-02)."""

    uuid: str
    chunk_id: int
    chunks: int
    total_size_bytes: int


class MessageFields(Struct, frozen=True, gc=False):
    """One message of an entry; ``batch_index`` -1: it is not in a batch. ``digest``: of its payload, as stored."""

    batch_index: int
    sequence_id: int
    key: str | None
    digest: int | None
    """None for a chunk, unless it is the last one of a message that passed whole: then that of the whole payload."""
    size_bytes: int


class Contents(Struct, frozen=True):
    """What a SEND or MESSAGE carries."""

    messages: tuple[MessageFields, ...]
    key: str | None
    """The entry's key, by which the broker chooses a consumer; that of a message in a batch may be another."""
    batch_size: int = 0
    """How many messages the batch has, including those that compaction removed; 0: it is no batch."""
    is_delayed: bool = False
    is_transactional: bool = False
    is_whole: bool = True
    """Whether, with a chunk, all of its message have passed on this connection, in order."""


class Command(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="command"):
    """One command, recorded when it is decided whether it passes; fields that it lacks are None.

    Times are seconds on this machine's monotonic clock. A command that never passed has no ``passed_at_s``.
    """

    number: int
    """Numbers the commands of a proxy in the order of arrival, from 1. A repeated command has an event each time."""
    connection: int
    direction: Direction
    kind: str
    size_bytes: int
    """The whole frame's."""
    came_at_s: float
    passed_at_s: float | None = None
    fault: int | None = None
    """The number of the fault that acted on it."""
    request_id: int | None = None
    producer_id: int | None = None
    producer: str | None = None
    """The producer's name; of a MESSAGE, the name of its publisher."""
    consumer_id: int | None = None
    consumer: str | None = None
    topic: str | None = None
    sequence_id: int | None = None
    """Of SEND, SEND_RECEIPT, SEND_ERROR and MESSAGE. Of PRODUCER_SUCCESS: the last sequence id; -1 for none."""
    highest_sequence_id: int | None = None
    chunk: ChunkFields | None = None
    positions: tuple[Position | None, ...] = ()
    """The message ids in it, without batch indexes; None is -1:-1, in a receipt a duplicate."""
    is_cumulative: bool | None = None
    """Of an ACK."""
    redelivery_count: int | None = None
    permits: int | None = None
    error: str | None = None
    """The error's name in the protocol."""
    digest: str | None = None
    """Of the payload on the wire, if the proxy records digests."""
    contents: Contents | None = None
    """If the proxy records contents; None also if they cannot be read."""
    ack_sets: tuple[tuple[int, ...], ...] = ()
    """Of MESSAGE and ACK, for each position the words of its ack set; empty if no position has one."""
    is_transactional: bool | None = None
    """Of an ACK."""
    subscription: str | None = None
    """Of SUBSCRIBE, as are the next three."""
    subscription_type: str | None = None
    is_durable: bool | None = None
    is_replicated: bool | None = None


class ConnectionOpened(Struct, frozen=True, kw_only=True, tag="opened"):
    """A client connected, and the proxy connected it with the broker."""

    connection: int
    at_s: float
    client_port: int
    """The client's address."""
    broker_port: int
    """The proxy's address for the broker, as that sees the client."""


class ConnectionRefused(Struct, frozen=True, kw_only=True, tag="turned-away"):
    """A client connected, and was refused."""

    at_s: float
    client_port: int
    reason: str


class ConnectionClosed(Struct, frozen=True, kw_only=True, tag="closed"):
    """A connection ended."""

    connection: int
    at_s: float
    by: Literal["client", "broker", "proxy"]


class Blind(Struct, frozen=True, kw_only=True, tag="blind"):
    """One direction of a connection has malformed frames; its bytes are passed on unchanged from here on."""

    connection: int
    at_s: float
    direction: Direction
    reason: str


Event = Command | ConnectionOpened | ConnectionRefused | ConnectionClosed | Blind
