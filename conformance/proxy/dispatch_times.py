"""What a proxy saw on its way to consumers: when the broker sent each message, as histories want to know it.

It is given to a :class:`~conformance.proxy.proxy.Proxy` as ``record``, and asked by the recorder when a message has
come to the application. Of each entry only the last sending is kept, and of all together only the latest.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from conformance.proxy.events import Chunk, Closed, Command, Event
from model.log import Position

KEPT_AT_MOST: Final = 50_000
"""How many entries may be on their way to applications; what came earlier than those is forgotten."""

Consumer = tuple[str, str]
"""A topic and the name of a consumer of it, which is the only one of this name there."""


class DispatchTime(Struct, frozen=True):
    """A message on its way: when the broker sent it, on the machine's monotonic clock, and what it is a chunk of."""

    sent_ns: int
    chunk: Chunk | None


def _nobody(_topic: str, _consumer: str, _at_ns: int) -> None: ...


class DispatchTimes:
    """Keeps what passed; for any thread.

    ``on_gone`` is called, on the proxy's thread, for each consumer whose connection has ended, or which the broker has
    closed: with its topic, its name, and when that was noticed in ns.
    """

    def __init__(self, *, on_gone: Callable[[str, str, int], None] = _nobody) -> None:
        self._on_gone = on_gone
        self._lock = threading.Lock()
        self._sent: dict[tuple[Consumer, Position], DispatchTime] = {}
        self._connected: dict[int, dict[int, Consumer]] = {}

    def __call__(self, event: Event) -> None:
        """Take an event of the proxy."""
        match event:
            case Command(kind="MESSAGE"):
                self._message(event)
            case Command(kind="SUBSCRIBE"):
                self._connected.setdefault(event.connection, {})[event.consumer_id or 0] = _consumer(event)
            case Command(kind="CLOSE_CONSUMER", direction="to-client"):
                gone = self._connected.get(event.connection, {}).pop(event.consumer_id or 0, None)
                if gone is not None:
                    self._on_gone(*gone, _ns(event.came_at_s))
            case Closed():
                for gone_with_it in self._connected.pop(event.connection, {}).values():
                    self._on_gone(*gone_with_it, _ns(event.at_s))
            case _:
                pass

    def of(self, topic: str, consumer: str, position: Position) -> DispatchTime | None:
        """When what has come to the application was last sent to it; None if that was not seen, or is forgotten.

        It can be asked again: the messages of a batch come one by one.
        """
        with self._lock:
            return self._sent.get(((topic, consumer), position))

    def _message(self, event: Command) -> None:
        position = event.positions[0]
        if position is None or event.passed_at_s is None:
            return
        key = (_consumer(event), position)
        with self._lock:
            self._sent.pop(key, None)  # so that it stands at the end, among the latest
            self._sent[key] = DispatchTime(_ns(event.came_at_s), event.chunk)
            if len(self._sent) > KEPT_AT_MOST:
                del self._sent[next(iter(self._sent))]


def _consumer(event: Command) -> Consumer:
    return event.topic or "", event.consumer or ""


def _ns(at_s: float) -> int:
    return round(at_s * 1e9)
