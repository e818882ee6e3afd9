"""The faults of the network, as plain values: they can be chosen, compared, and written into a history.

A fault acts on commands that are named by what they are, not by when they come, so the same fault does the same again.
It counts from the moment when it is set, over all connections of its proxy. What sets and carries them out is in
:mod:`~conformance.proxy.armed` and :mod:`~conformance.proxy.direction`.
"""

from __future__ import annotations

import math
from typing import Final, Literal

from msgspec import Struct

from conformance.harness_error import HarnessError
from conformance.proxy.events import KINDS, Command, Direction


class Which(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which commands: of those that are like this, the ``count`` ones from the ``nth`` on (counted from 1).

    What is None is not asked for; with ``count`` None it is all of them from there on, until the fault is lifted.
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
        """Whether a command is one of those that are counted."""
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

    All that was passed on before still arrives. ``within_bytes`` of the command's frame arrive where it ends within.
    """

    which: Which
    where: Literal["before", "within", "after"]
    within_bytes: int = 1


class CutAfterBytes(Struct, frozen=True, kw_only=True, tag="cut-after-bytes"):
    """The first connection that has passed on so many more bytes in this direction ends there, be it within a frame."""

    direction: Direction
    size_bytes: int


LOSS_LASTS_S: Final = 0.05
"""How long after the first command that was lost a connection may go on."""


class Lose(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="lose"):
    """The commands are not passed on; with ``then_cut`` the connection ends with the last one.

    If that does not come, it ends ``LOSS_LASTS_S`` after the first: no network loses anything of what goes on.
    Receipts lost and the connection cut is what clients know as a lost confirmation.
    """

    which: Which
    then_cut: bool = False


class Delay(Struct, frozen=True, kw_only=True, tag="delay"):
    """The commands, and with them all that comes behind them, are passed on so much later."""

    which: Which
    delay_s: float


class Hold(Struct, frozen=True, kw_only=True, tag="hold"):
    """The command, and all that comes behind it on its way, stays in the proxy until the fault is lifted."""

    which: Which


class Refuse(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="refuse"):
    """Whoever comes is turned away: the next ``connections`` of them, for ``for_s`` seconds, or until it is lifted."""

    connections: int | None = None
    for_s: float | None = None


class Repeat(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="repeat"):
    """The commands are passed on so many times more than once, at once."""

    which: Which
    times: int = 1


class Swap(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="swap"):
    """The command is passed on behind the next one on its way that is like it, or like what it is to be ``behind``."""

    which: Which
    behind: Which | None = None


class PayloadByte(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="payload-byte"):
    """One byte of the payload is another one. ``at`` wraps around; ``flipped`` are the bits that change."""

    at: int = 0
    flipped: int = 0xFF


class OtherChunkId(Struct, frozen=True, kw_only=True, tag="chunk-id"):
    """The chunk says that it is another one."""

    chunk_id: int


class OtherUuid(Struct, frozen=True, kw_only=True, tag="uuid"):
    """The chunk says that it belongs to another message."""

    uuid: str


class FewerIds(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="fewer-ids"):
    """The command's last ``count`` message ids are not in it, as in an ACK; it is lost if that leaves none.

    One ``of_at_least`` so many; those of fewer have nothing to change.
    """

    count: int = 1
    of_at_least: int = 1


class LowerLimit(Struct, frozen=True, kw_only=True, tag="lower-limit"):
    """The broker says to a client that connects that a message may be this large, where it takes larger ones."""

    max_message_bytes: int


Change = PayloadByte | OtherChunkId | OtherUuid | FewerIds | LowerLimit


class Corrupt(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="corrupt"):
    """The commands are passed on changed. The checksum fits the change, unless it is not to be ``mended``.

    A command that has nothing to change of that kind is passed on as it is, and the fault did not act on it.
    """

    which: Which
    change: Change
    mended: bool = True


OnCommands = Cut | Lose | Delay | Hold | Repeat | Swap | Corrupt
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
            if isinstance(fault, Delay):
                _require(0 < fault.delay_s < math.inf, "delay in seconds", fault.delay_s)
            if isinstance(fault, Cut):
                _require(fault.within_bytes > 0, "bytes to pass on of a command that is cut", fault.within_bytes)
            if isinstance(fault, Repeat):
                _require(fault.times > 0, "number of repetitions", fault.times)


def _require(is_so: bool, what: str, value: object) -> None:
    if not is_so:
        raise HarnessError(f"no {what}: {value!r}")
