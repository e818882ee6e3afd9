"""Where a reset or a seek goes: to a message, after it, or to a publish time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from conformance.lockstep.cursors.admin import CursorAdmin
from conformance.lockstep.positions import Positions
from model.events import Refused, Skipped
from model.log import Position

NO_MESSAGE: Final = Skipped("no such message is known to be in the topic")
DELETED: Final = Skipped("the message was deleted")
_NOT_FOUND: Final = "404"


@dataclass(frozen=True, slots=True)
class Published:
    """An entry, and a time at or before its publish time."""

    position: Position
    time_ms: int


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a reset: the next entry to read (None: the first), by time if there is one."""

    to: Position | None
    time_ms: int | None = None


def following(position: Position) -> Position:
    """The position after an entry, which need not have an entry itself."""
    return Position(position.ledger, position.entry + 1)


def first_published(
    admin: CursorAdmin, positions: Positions, topic: str, position: Position, later_ms: int = 0
) -> Published | Refused | Skipped:
    """The first known entry with the publish time of this one, or ``later_ms`` than that, or a later time.

    After the last entry, the position after it.
    """
    time_ms = admin.publish_time_ms(topic, position)
    if isinstance(time_ms, Refused):
        return DELETED if time_ms.code == _NOT_FOUND else time_ms
    time_ms, first = time_ms + later_ms, position
    for earlier in positions.entries_before(topic, position):
        published_ms = admin.publish_time_ms(topic, earlier)
        if isinstance(published_ms, Refused) or published_ms < time_ms:
            break
        first = earlier
    if first != position or later_ms <= 0:
        return Published(first, time_ms)
    last = position
    for later in (position, *positions.entries_after(topic, position)):
        published_ms = admin.publish_time_ms(topic, later)
        if isinstance(published_ms, Refused):
            return published_ms
        if published_ms >= time_ms:
            return Published(later, time_ms)
        last = later
    return Published(following(last), time_ms)


def target_of(
    admin: CursorAdmin, positions: Positions, topic: str, to: str | None, later_ms: int | None
) -> Target | Refused | Skipped:
    """The target of a reset, or why there is none. ``later_ms``: by time, so much later than the message's."""
    if to is None:
        return Target(None, None if later_ms is None else 0)
    found = positions.find(to, topic=topic)
    if found is None:
        return NO_MESSAGE
    if later_ms is None:
        return Target(found.position)
    first = first_published(admin, positions, topic, found.position, later_ms)
    return Target(first.position, first.time_ms) if isinstance(first, Published) else first
