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
class Leaver:
    """A consumer that left. ``may_be_ready``: it may have had permits, so messages may have been sent to it unseen."""

    name: str
    may_be_ready: bool


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
    leavers: tuple[Leaver, ...] = ()
    """The consumers that left since the last look, in this order. A hash may have moved to another consumer and
    back."""
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
    read_to: Position | None = None
    """The last entry of the log at the last look at which the broker had read all and waited for a new entry."""
    permitted: frozenset[str] = frozenset()
    """The consumers that sent permits since the last look."""
    permits: Map[str, int] = Map()
    """Those of each consumer at the last look."""
    recent: frozenset[str] = frozenset()
    """The consumers that were recently joined at the last look, in the classic implementation."""
    replayed: frozenset[Position] = frozenset()
    """The entries that were delivered from the replay queue since the last look."""
    read_twice: frozenset[Position] = frozenset()
    """Entries that were replayed together with new messages. They may have been read twice, and the second copy
    waits until their consumer has permits."""
    last: Position | None = None
    """The last entry of the log at the last look with deliveries."""

    @property
    def has_left(self) -> bool:
        """Whether a consumer left since the last look."""
        return bool(self.leavers)

    @property
    def is_permitted(self) -> bool:
        """Whether a consumer sent permits since the last look."""
        return bool(self.permitted)

    @property
    def ready(self) -> frozenset[str]:
        """The consumers that had permits at the last look and are still there."""
        return frozenset(name for name, count in self.permits.items() if count > 0)

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
        permits = _without(self.permits, consumer)
        return replace(self, cleared=cleared, joined=joined, permits=permits, acked_by_others=acked_by_others)


def _without(names: Map[str, T], name: str) -> Map[str, T]:
    return names.delete(name) if name in names else names
