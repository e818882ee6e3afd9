"""The dispatch times of messages to consumers, as a proxy observed them, for histories.

It is the ``record`` of a :class:`~conformance.proxy.proxy.Proxy`; the recorder reads it for each received message. It
keeps only the last dispatch of each entry, and a limited number of entries.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from conformance.proxy.events import ChunkFields, Command, ConnectionClosed, Event
from model.log import Position

KEPT_AT_MOST: Final = 50_000
"""How many entries may be in flight to applications; older ones are dropped."""

Consumer = tuple[str, str]
"""A topic and the unique name of a consumer of it."""


class DispatchTime(Struct, frozen=True):
    """A dispatched message: its time on the machine's monotonic clock, and its chunk."""

    sent_ns: int
    chunk: ChunkFields | None


def _nobody(_topic: str, _consumer: str, _at_ns: int) -> None: ...


class DispatchTimes:
    """Stores dispatch times; thread-safe.

    ``on_gone`` is called, on the proxy's thread, for each consumer whose connection has ended or that the broker has
    closed, with its topic, its name, and the time in ns.
    """

    def __init__(self, *, on_gone: Callable[[str, str, int], None] = _nobody) -> None:
        self._on_gone = on_gone
        self._lock = threading.Lock()
        self._sent: dict[tuple[Consumer, Position], DispatchTime] = {}
        self._connected: dict[int, dict[int, Consumer]] = {}

    def __call__(self, event: Event) -> None:
        """Record an event of the proxy."""
        match event:
            case Command(kind="MESSAGE"):
                self._message(event)
            case Command(kind="SUBSCRIBE"):
                self._connected.setdefault(event.connection, {})[event.consumer_id or 0] = _consumer(event)
            case Command(kind="CLOSE_CONSUMER", direction="to-client"):
                gone = self._connected.get(event.connection, {}).pop(event.consumer_id or 0, None)
                if gone is not None:
                    self._on_gone(*gone, _ns(event.came_at_s))
            case ConnectionClosed():
                for gone_with_it in self._connected.pop(event.connection, {}).values():
                    self._on_gone(*gone_with_it, _ns(event.at_s))
            case _:
                pass

    def of(self, topic: str, consumer: str, position: Position) -> DispatchTime | None:
        """The last dispatch of an entry to a consumer; None if not observed or dropped.

        The messages of a batch ask for it one by one.
        """
        with self._lock:
            return self._sent.get(((topic, consumer), position))

    def _message(self, event: Command) -> None:
        position = event.positions[0]
        if position is None or event.passed_at_s is None:
            return
        key = (_consumer(event), position)
        with self._lock:
            self._sent.pop(key, None)  # so that it moves to the end
            self._sent[key] = DispatchTime(_ns(event.came_at_s), event.chunk)
            if len(self._sent) > KEPT_AT_MOST:
                del self._sent[next(iter(self._sent))]


def _consumer(event: Command) -> Consumer:
    return event.topic or "", event.consumer or ""


def _ns(at_s: float) -> int:
    return round(at_s * 1e9)
