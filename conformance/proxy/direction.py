"""One direction of one connection: frames arrive, are recorded, meet faults, and are passed on in order.

Delayed and held frames wait in a FIFO queue, so that nothing overtakes them: only a swap reorders frames. A queue that
is too long stops reading from its source.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from typing import Final, Literal, Protocol, assert_never

from msgspec import Struct
from msgspec.structs import replace

from conformance.clients.wire.frames import FrameSplitter, MalformedFrame
from conformance.proxy.armed import ArmedFault
from conformance.proxy.changes import changed
from conformance.proxy.events import Blind, Command, Direction, Event
from conformance.proxy.faults import (
    LOSS_LASTS_S,
    Corrupt,
    Cut,
    CutAfterBytes,
    DelayFrames,
    HoldFrames,
    Lose,
    Refuse,
    Repeat,
    Swap,
)
from conformance.proxy.frame_reader import Reader

MOST_WAITING_BYTES: Final = 64 * 1024 * 1024
"""How many bytes one direction may hold before it stops reading from its source."""

Raw = memoryview | bytes
Ending = Literal["client", "broker", "proxy"]


class Guard(Protocol):
    """The proxy, for one half of a session."""

    @property
    def is_armed(self) -> bool:
        """Whether any fault is set."""

    def next_number(self) -> int:
        """The number of the next command."""

    def record(self, event: Event) -> None: ...

    def fault_for(self, command: Command) -> ArmedFault | None:
        """Have every fault count a command; returns the one that acts on it."""

    def limits(self, direction: Direction) -> list[ArmedFault]:
        """The faults that count bytes in this direction."""

    def rerouted(self, kind: str, raw: memoryview) -> memoryview | bytes:
        """A command for the client, with the proxy's address instead of a broker's."""


class Ends(Protocol):
    """The connection, for one half of a session."""

    @property
    def number(self) -> int:
        """The connection's number."""

    def end(self, by: Ending) -> None:
        """End the connection; written bytes still arrive."""

    def end_half(self, by: Ending) -> None:
        """End one direction, whose source has ended."""


class _Waiting(Struct):
    """A queued frame: it may leave at ``due_s``, once it is the head."""

    due_s: float
    raw: Raw
    command: Command | None = None
    ends: Ending | None = None
    is_half: bool = False
    held_by: ArmedFault | None = None


class HalfConnection:
    """Passes frames on from ``source`` to ``sink``."""

    def __init__(
        self,
        direction: Direction,
        *,
        guard: Guard,
        ends: Ends,
        reader: Reader,
        source: asyncio.Transport,
        sink: asyncio.Transport,
        max_frame_size_bytes: int,
    ) -> None:
        self.direction: Final = direction
        self._guard = guard
        self._ends = ends
        self._reader = reader
        self._source = source
        self._sink = sink
        self._splitter = FrameSplitter(max_frame_size_bytes=max_frame_size_bytes)
        self._is_blind = False
        self._is_over = False
        self._out: list[Raw] = []
        self._queue: deque[_Waiting] = deque()
        self._waiting_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._swapped: tuple[ArmedFault, memoryview, Command] | None = None
        self._is_sink_full = False
        self._is_paused = False

    def take(self, data: bytes) -> None:
        now_s = time.monotonic()
        if self._is_blind:
            self._go(data, None)
        else:
            try:
                for raw in self._splitter.feed(data):
                    self._take_frame(raw, now_s)
                    if self._is_over:
                        return
            except MalformedFrame as malformed:
                self._go_blind(str(malformed), now_s)
        self._flush()

    def finish(self, by: Ending, *, is_half: bool) -> None:
        """The source has ended: the sink ends, too, when all frames are passed on.

        With ``is_half`` the source may still receive from the other side.
        """
        if not self._is_blind:
            self._go(self._splitter.take_rest(), None)
        self._go(b"", None, ends=by, is_half=is_half)
        self._flush()

    def drop(self) -> None:
        """Write what is allowed; queued frames are lost."""
        self._flush()
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
        for waiting in self._queue:
            if waiting.command is not None:
                self._guard.record(waiting.command)
        self._queue.clear()
        if self._swapped is not None:
            self._guard.record(self._swapped[2])
            self._swapped = None

    def release(self, armed: ArmedFault) -> None:
        """Release the frames that this fault holds."""
        for waiting in self._queue:
            if waiting.held_by is armed:
                waiting.due_s = 0.0
        if self._swapped is not None and self._swapped[0] is armed:
            _, raw, command = self._swapped
            self._swapped = None
            self._go(raw, command)
        self._drain()

    def sink_is_full(self, is_full: bool) -> None:
        """The sink accepts no more for now, or does again."""
        self._is_sink_full = is_full
        self._regulate()

    # ----------------------------------------------------------------------------------------------------- in private

    def _take_frame(self, raw: memoryview, now_s: float) -> None:
        guard = self._guard
        kind, facts = self._reader.read(raw)
        # Usually there is nothing to do: the throughput of the proxy depends on this path.
        is_free = not guard.is_armed and not self._queue and self._swapped is None
        command = Command(
            number=guard.next_number(),
            connection=self._ends.number,
            direction=self.direction,
            kind=kind,
            size_bytes=len(raw),
            came_at_s=now_s,
            passed_at_s=now_s if is_free else None,
            **facts,
        )
        passed = raw if self.direction == "to-broker" else memoryview(guard.rerouted(kind, raw))
        if is_free:
            self._out.append(passed)
            guard.record(command)
        else:
            self._meet(passed, command)

    def _meet(self, raw: memoryview, command: Command) -> None:
        """Have the faults count a command, and act on it."""
        swapped = self._swapped
        if swapped is not None and _fits_swap(swapped[0], command):
            self._swapped = None
            self._guard.fault_for(command)  # only counted
            self._go(raw, command)
            self._go(swapped[1], swapped[2])
            return
        armed = self._guard.fault_for(command)
        if armed is None:
            self._go(raw, command)
        else:
            self._suffer(armed, raw, command)

    def _suffer(self, armed: ArmedFault, raw: memoryview, command: Command) -> None:
        """Act on a command for a fault, and record when it fired."""
        fault = armed.fault
        marked = replace(command, fault=armed.number)
        match fault:
            case Lose(then_cut=then_cut):
                self._guard.record(marked)
                if then_cut and armed.is_spent:
                    self._go(b"", None, ends="proxy")
                elif then_cut:
                    asyncio.get_running_loop().call_later(LOSS_LASTS_S, self._ends.end, "proxy")
            case Cut(where="after"):
                self._go(raw, marked, ends="proxy")
            case Cut(where=where, within_bytes=within_bytes):
                self._guard.record(marked)
                passed = raw[: min(within_bytes, len(raw) - 1)] if where == "within" else b""
                self._go(passed, None, ends="proxy")
            case DelayFrames(delay_s=delay_s):
                self._wait(_Waiting(command.came_at_s + delay_s, raw, marked))
            case HoldFrames():
                self._wait(_Waiting(math.inf, raw, marked, held_by=armed))
            case Repeat(times=times):
                for _ in range(1 + times):
                    self._go(raw, marked)
            case Swap():
                if self._swapped is not None:
                    self._go(raw, command)  # one waits already
                    return
                self._swapped = (armed, raw, marked)
            case Corrupt():
                other = changed(raw, fault)
                if other is None:
                    self._go(raw, command)
                    return
                self._go(other, marked) if other else self._guard.record(marked)
            case CutAfterBytes() | Refuse():
                raise AssertionError("these do not act on commands")
            case _:
                assert_never(fault)
        armed.fire(self._ends.number, command.number)

    def _go(self, raw: Raw, command: Command | None, *, ends: Ending | None = None, is_half: bool = False) -> None:
        """Pass on after the queue."""
        if self._is_over:
            if command is not None:
                self._guard.record(command)
        elif self._queue:
            self._wait(_Waiting(0.0, raw, command, ends, is_half))
        else:
            self._pass(raw, command, ends, is_half=is_half)

    def _pass(self, raw: Raw, command: Command | None, ends: Ending | None, *, is_half: bool) -> None:
        limit = self._limit(len(raw))
        if limit is not None:
            armed, size_bytes = limit
            self._out.append(raw[:size_bytes])
            if command is not None:
                passed_at_s = time.monotonic() if size_bytes == len(raw) else None
                self._guard.record(replace(command, fault=armed.number, passed_at_s=passed_at_s))
            self._ends.end("proxy")
            armed.fire(self._ends.number, None if command is None else command.number)
            return
        if raw:
            self._out.append(raw)
        if command is not None:
            self._guard.record(replace(command, passed_at_s=time.monotonic()))
        if ends is not None and is_half:
            self._flush()
            self._ends.end_half(ends)
        elif ends is not None:
            self._ends.end(ends)

    def _limit(self, size_bytes: int) -> tuple[ArmedFault, int] | None:
        """Have the faults that count bytes count these; returns the one that ends the connection here, and where."""
        for armed in self._guard.limits(self.direction):
            left_bytes = armed.left_bytes(self._ends.number, size_bytes)
            if left_bytes is not None:
                return armed, left_bytes
        return None

    def _wait(self, waiting: _Waiting) -> None:
        self._queue.append(waiting)
        self._waiting_bytes += len(waiting.raw)
        self._drain()

    def _drain(self) -> None:
        """Pass on the frames at the queue's head that are due, and schedule the next one."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._queue and not self._is_over and self._queue[0].due_s <= time.monotonic():
            waiting = self._queue.popleft()
            self._waiting_bytes -= len(waiting.raw)
            self._pass(waiting.raw, waiting.command, waiting.ends, is_half=waiting.is_half)
        self._flush()
        if self._queue and not self._is_over and self._queue[0].due_s < math.inf:
            self._timer = asyncio.get_running_loop().call_at(self._queue[0].due_s, self._drain)
        self._regulate()

    def _flush(self) -> None:
        if self._out and not self._sink.is_closing():
            self._sink.write(self._out[0] if len(self._out) == 1 else b"".join(self._out))
        self._out.clear()

    def _go_blind(self, reason: str, now_s: float) -> None:
        self._is_blind = True
        self._guard.record(Blind(connection=self._ends.number, at_s=now_s, direction=self.direction, reason=reason))
        self._go(self._splitter.take_rest(), None)

    def _regulate(self) -> None:
        """Stop reading from the source while too much is queued."""
        pause = self._is_sink_full or self._waiting_bytes > MOST_WAITING_BYTES
        if pause != self._is_paused and not self._source.is_closing():
            self._is_paused = pause
            if pause:
                self._source.pause_reading()
            else:
                self._source.resume_reading()


def _fits_swap(armed: ArmedFault, command: Command) -> bool:
    return isinstance(armed.fault, Swap) and (armed.fault.behind or armed.fault.which).fits(command)
