"""The faults of the network, as plain values that can be drawn, compared, and written into a history.

A fault selects commands by their fields, not by time, so it does the same in a replay. It counts from the moment when
it is set, over all connections of its proxy. :mod:`~conformance.proxy.armed` and :mod:`~conformance.proxy.direction`
set and execute faults.
"""

from __future__ import annotations

import math
from typing import Final, Literal

from msgspec import Struct

from conformance.harness_error import HarnessError
from conformance.proxy.events import KINDS, Command, Direction


class Which(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A selection of commands: of those that match, ``count`` ones from the ``nth`` on (counted from 1).

    A field that is None matches everything; ``count`` None selects all from there on, until the fault is lifted.
    """

    kind: str | None = None
    direction: Direction | None = None
    topic: str | None = None
    producer: str | None = None
    consumer: str | None = None
    chunk_id: int | None = None
    nth: int = 1
    count: int | None = 1

    def fits(self, command: Command) -> bool:
        """Whether a command matches."""
        return (
            (self.kind is None or command.kind == self.kind)
            and (self.direction is None or command.direction == self.direction)
            and (self.topic is None or command.topic == self.topic)
            and (self.producer is None or command.producer == self.producer)
            and (self.consumer is None or command.consumer == self.consumer)
            and (self.chunk_id is None or (command.chunk is not None and command.chunk.chunk_id == self.chunk_id))
        )


class Cut(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="cut"):
    """The connection ends ``before`` the command is passed on, ``within`` it, or ``after`` it.

    Everything passed on before still arrives. If it ends within, ``within_bytes`` of the command's frame arrive.
    """

    which: Which
    where: Literal["before", "within", "after"]
    within_bytes: int = 1


class CutAfterBytes(Struct, frozen=True, kw_only=True, tag="cut-after-bytes"):
    """The first connection that has passed on so many more bytes in this direction ends there, even within a frame."""

    direction: Direction
    size_bytes: int


LOSS_LASTS_S: Final = 0.05
"""How long a connection may go on after the first lost command."""


class Lose(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="lose"):
    """The commands are not passed on; with ``then_cut`` the connection ends with the last one.

    Otherwise it ends ``LOSS_LASTS_S`` after the first one: TCP loses nothing on a living connection. Lost receipts
    and a cut connection are a lost confirmation to the client.
    """

    which: Which
    then_cut: bool = False


class DelayFrames(Struct, frozen=True, kw_only=True, tag="delay"):
    """The commands, and all frames after them, are delayed."""

    which: Which
    delay_s: float


class HoldFrames(Struct, frozen=True, kw_only=True, tag="hold"):
    """The proxy holds the command, and all frames after it, until the fault is lifted."""

    which: Which


class Refuse(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="refuse"):
    """New connections are refused: the next ``connections``, for ``for_s`` seconds, or until it is lifted."""

    connections: int | None = None
    for_s: float | None = None


class Repeat(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="repeat"):
    """The commands are repeated so many times, at once."""

    which: Which
    times: int = 1


class Swap(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="swap"):
    """The command is passed on after the next one that matches it, or that matches ``behind``."""

    which: Which
    behind: Which | None = None


class PayloadByte(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="payload-byte"):
    """One byte of the payload is changed. ``at`` wraps around; ``flipped``: the bits that change."""

    at: int = 0
    flipped: int = 0xFF


class OtherChunkId(Struct, frozen=True, kw_only=True, tag="chunk-id"):
    """The chunk has another chunk id."""

    chunk_id: int


class OtherUuid(Struct, frozen=True, kw_only=True, tag="uuid"):
    """The chunk has another uuid."""

    uuid: str


class FewerIds(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="fewer-ids"):
    """The last ``count`` message ids are removed from the command, such as an ACK; it is lost if none is left.

    It applies to commands with ``of_at_least`` so many ids.
    """

    count: int = 1
    of_at_least: int = 1


class LowerLimit(Struct, frozen=True, kw_only=True, tag="lower-limit"):
    """The broker's CONNECTED has this ``maxMessageSize``, if it is lower."""

    max_message_bytes: int


Change = PayloadByte | OtherChunkId | OtherUuid | FewerIds | LowerLimit


class Corrupt(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="corrupt"):
    """The commands are passed on with a change. The checksum is corrected if ``mended``.

    A command without anything to change passes unchanged, and the fault does not fire.
    """

    which: Which
    change: Change
    mended: bool = True


OnCommands = Cut | Lose | DelayFrames | HoldFrames | Repeat | Swap | Corrupt
Fault = OnCommands | CutAfterBytes | Refuse


def require_sensible(fault: Fault) -> None:
    """Raise :class:`HarnessError` for a fault that could never act."""
    match fault:
        case CutAfterBytes(size_bytes=size_bytes):
            _require(size_bytes > 0, "bytes to pass on before a cut", size_bytes)
        case Refuse(connections=connections, for_s=for_s):
            _require(connections is None or connections > 0, "connections to refuse", connections)
            _require(for_s is None or for_s > 0, "seconds to refuse connections for", for_s)
        case _:
            which = fault.which
            _require(which.kind is None or which.kind in KINDS, "kind of command", which.kind)
            _require(which.nth > 0, "place of a command, counted from 1", which.nth)
            _require(which.count is None or which.count > 0, "number of commands", which.count)
            if isinstance(fault, DelayFrames):
                _require(0 < fault.delay_s < math.inf, "delay in seconds", fault.delay_s)
            if isinstance(fault, Cut):
                _require(fault.within_bytes > 0, "bytes to pass on of a command that is cut", fault.within_bytes)
            if isinstance(fault, Repeat):
                _require(fault.times > 0, "number of repetitions", fault.times)


def _require(is_so: bool, what: str, value: object) -> None:
    if not is_so:
        raise HarnessError(f"no {what}: {value!r}")
