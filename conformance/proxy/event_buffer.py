"""A buffer with the last events of a proxy."""

from __future__ import annotations

from collections import deque
from typing import Final

from conformance.proxy.events import Command, Event

USUAL_CAPACITY: Final = 100_000


class EventBuffer:
    """Keeps the last ``capacity`` events; it may be read while the proxy writes to it."""

    def __init__(self, capacity: int = USUAL_CAPACITY) -> None:
        self._events: deque[Event] = deque(maxlen=capacity)
        self.count = 0
        """How many events there were, including dropped ones."""

    def __call__(self, event: Event) -> None:
        self._events.append(event)
        self.count += 1

    def events(self) -> tuple[Event, ...]:
        """The buffered events, the oldest first."""
        return tuple(self._events.copy())

    def commands(self, *kinds: str) -> list[Command]:
        """The buffered commands, of these kinds or of all."""
        return [event for event in self.events() if isinstance(event, Command) and (not kinds or event.kind in kinds)]
