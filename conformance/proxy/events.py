"""What the proxy tells: connections that come and go, and each command with what identifies it. Plain values.

What is said here of a command is what it was when it came to the proxy, also where a fault then changed it.
"""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

from conformance.clients import protocol_pb2 as pb
from model.log import Position

Direction = Literal["to-broker", "to-client"]

UNREADABLE: Final = "UNREADABLE"
"""The kind of a frame whose command cannot be read; it is passed on as it is."""

KINDS: Final = frozenset({*pb.BaseCommand.Type.keys(), UNREADABLE})
"""The names of all commands, as the protocol has them: ``SEND``, ``SEND_RECEIPT``, ``MESSAGE``, ``ACK``, ..."""


class Chunk(Struct, frozen=True, gc=False):
    """What makes a message a chunk (CHUNK-02)."""

    uuid: str
    chunk_id: int
    chunks: int
    total_size_bytes: int


class Command(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="command"):
    """One command, told when it is clear whether it is passed on; what it does not say is None.

    Times are seconds on this machine's monotonic clock. One that never got through has no ``passed_at_s``.
    """

    number: int
    """Counts the commands of a proxy as they came, from 1. A repeated command has an event each time."""
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
    """The producer's name; of a MESSAGE, whose message it is."""
    consumer_id: int | None = None
    consumer: str | None = None
    topic: str | None = None
    sequence_id: int | None = None
    """Of a SEND, its receipt, its error and a MESSAGE. Of a PRODUCER_SUCCESS: the last one known; -1 for none."""
    highest_sequence_id: int | None = None
    chunk: Chunk | None = None
    positions: tuple[Position | None, ...] = ()
    """The message ids in it, without batch indexes; None is -1:-1, in a receipt a duplicate."""
    is_cumulative: bool | None = None
    """Of an ACK."""
    redelivery_count: int | None = None
    permits: int | None = None
    error: str | None = None
    """The error's name in the protocol."""
    digest: str | None = None
    """Of the payload as it is on the wire, where the proxy was asked for digests."""


class Opened(Struct, frozen=True, kw_only=True, tag="opened"):
    """A client came, and was connected with the broker."""

    connection: int
    at_s: float
    client_port: int
    """Where the client's end is."""
    broker_port: int
    """Where the broker sees the client, on the proxy's machine."""


class TurnedAway(Struct, frozen=True, kw_only=True, tag="turned-away"):
    """A client came, and was not let in."""

    at_s: float
    client_port: int
    reason: str


class Closed(Struct, frozen=True, kw_only=True, tag="closed"):
    """A connection ended."""

    connection: int
    at_s: float
    by: Literal["client", "broker", "proxy"]


class Blind(Struct, frozen=True, kw_only=True, tag="blind"):
    """What came in one direction of a connection is no stream of frames; from here on it is passed on as it is."""

    connection: int
    at_s: float
    direction: Direction
    reason: str


Event = Command | Opened | TurnedAway | Closed | Blind
