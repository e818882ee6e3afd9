"""The observer's state of a Key_Shared subscription, apart from the pending acks of its consumers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from model.immutable.map import Map
from model.log import Position

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Joined:
    """The read position when a consumer joined lies between two entries: the last one delivered by then, and the last
    one in the log."""

    delivered: Position
    last: Position


@dataclass(frozen=True, slots=True)
class Keyed:
    """The state since the dispatcher last began to read: after a reset, an unload, or the leave of the last consumer.

    A *look* is the operation that receives everything in flight and reads the stats.
    """

    got: Map[Position, str] = Map()
    """The delivered entries, and the last consumer of each."""
    nacked: Map[bytes, None] = Map()
    """The hashed keys of redelivery requests: their delivered messages have no guaranteed order."""
    replays: Map[Position, bool] = Map()
    """Entries of consumers that left or nacked, which are in the replay queue; false while an earlier dispatch may be
    in flight."""
    joined: Map[str, Joined] = Map()
    """The consumers that joined while there were others."""
    is_gathered: bool = False
    """No operation happened since the last look."""
    has_left: bool = False
    """A consumer left since the last look. A hash may have moved to another consumer and back."""
    may_have_permits: bool = False
    """A consumer had permits at the last look, or sent some since."""
    draining: Map[int, str] = Map()
    """As of the last look: the draining hashes and their consumers."""
    back: Map[int, str] = Map()
    """As of the last look: hashes that the stats still show as draining although they returned to their consumer."""
    blocked: frozenset[int] = frozenset()
    """As of the last look: hashes that blocked a message."""
    cleared: Map[str, int] = Map()
    """As of the last look: how many cleared hashes the stats show by consumer."""
    acked_by_others: Map[Position, str] = Map()
    """Entries that were delivered although others acknowledged them, and to which consumer. The broker counts them as
    pending there until the consumer leaves or acknowledges them too."""

    def freed(self, positions: Iterable[Position], *, is_gone: bool) -> Keyed:
        """The same when pending entries return to the replay queue because their consumer left or nacked them."""
        return replace(self, replays=self.replays.updated(dict.fromkeys(positions, is_gone or self.is_gathered)))

    def delivered(self, position: Position, consumer: str) -> Keyed:
        """The same once a consumer has an entry, which is in no replay queue any more."""
        replays = self.replays.delete(position) if position in self.replays else self.replays
        return replace(self, got=self.got.set(position, consumer), replays=replays)

    def without(self, consumer: str) -> Keyed:
        acked_by_others = Map({position: name for position, name in self.acked_by_others.items() if name != consumer})
        cleared, joined = _without(self.cleared, consumer), _without(self.joined, consumer)
        return replace(self, cleared=cleared, joined=joined, acked_by_others=acked_by_others)


def _without(names: Map[str, T], name: str) -> Map[str, T]:
    return names.delete(name) if name in names else names
