"""The observer's state of a Key_Shared subscription, apart from the pending acks of its consumers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from model.immutable.map import Map
from model.key_shared.hashes import AUTO_SPLIT_HASHES
from model.log import Position
from model.vocabulary import HashRange

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Joined:
    """The read position when a consumer joined lies between two entries: the last one delivered by then, and the last
    one in the log. ``replays``: the entries in the replay queue that nobody has had since.
    """

    delivered: Position
    last: Position
    replays: frozenset[Position] = frozenset()


@dataclass(frozen=True, slots=True)
class Unread:
    """The hashes of a consumer that left without pending messages, and the last entry of the log then.

    The broker reads none of their messages in the replay queue until something else triggers a read.
    """

    hashes: tuple[HashRange, ...]
    last: Position

    def has(self, position: Position, hashed: int) -> bool:
        return position <= self.last and any(hashed in own for own in self.hashes)


@dataclass(frozen=True, slots=True)
class CountedTwice:
    """A hash that drains at a consumer, where the broker counts so many pending messages too many."""

    consumer: str
    surplus: int


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
    unread: tuple[Unread, ...] = ()
    """The consumers that left since the last look without pending messages, and perhaps without permits, if nothing
    triggered a read since."""
    may_be_read_to: Position | None = None
    """The last entry of the log when the last consumer left, if a read may have been pending then and nothing was
    delivered since, or its result may be left in the replay queue."""
    may_be_replay_read: bool = False
    """That read may have been a replay read."""
    had_leavers: bool = False
    """Another consumer had left before the last one."""
    leavers: tuple[Leaver, ...] = ()
    """The consumers that left since the last look, in this order. A hash may have moved to another consumer and
    back."""
    reading_at_leave: Position | None = None
    """A consumer left and nothing was delivered since, so a read of entries up to this one may have been pending."""
    joined_until_leave: Map[str, Joined] = Map()
    """The only consumer left, if it was in ``joined`` until the last other one left, and nothing was delivered
    since."""
    has_replays: bool = False
    """Whether messages were in the replay queue at the last look."""
    draining: Map[int, str] = Map()
    """As of the last look: the draining hashes and their consumers."""
    back: Map[int, str] = Map()
    """As of the last look: hashes that the stats still show as draining although they returned to their consumer."""
    blocked: frozenset[int] = frozenset()
    """As of the last look: hashes that blocked a message."""
    cleared: Map[str, int] = Map()
    """As of the last look: how many cleared hashes the stats show by consumer."""
    ranges: Map[str, tuple[HashRange, ...]] = Map()
    """As of the last look: the ranges of each consumer."""
    passed: frozenset[Position] = frozenset()
    """Entries that were acknowledged while they were in the replay queue."""
    acked_by_others: Map[Position, str] = Map()
    """Those that were delivered all the same, and to which consumer. The broker counts them as pending there until the
    consumer leaves or acknowledges them too."""
    counted_twice: Map[int, CountedTwice] = Map()
    """Hashes that a deviation counts twice, so they never drain at their consumer."""
    uncounted: frozenset[tuple[int, str]] = frozenset()
    """Hashes that returned to this consumer without being counted as cleared, by another deviation."""
    stalled: Map[Position, str] = Map()
    """Due entries that are not dispatched, and the deviation that stalls each."""
    read_to: Position | None = None
    """The last entry of the log at the last look at which the broker had read all and waited for a new entry."""
    is_woken: bool = False
    """Since the last look, a permit, a leave, an ack or a redelivery request triggered a read of the replay queue."""
    permitted: frozenset[str] = frozenset()
    """The consumers that sent permits since the last look."""
    skipped_to: Position | None = None
    """The mark-delete position after an administrator skipped messages that a recently joined consumer may wait for.
    Since then no consumer left or was sent a message, and only recently joined ones sent permits."""
    dropped: frozenset[Position] = frozenset()
    """Entries that may have been read for the first time while no consumer claimed their hash."""
    is_left_unread: bool = False
    """The consumer was recently joined until the last other one left, and nothing triggered a read since."""
    permits: Map[str, int] = Map()
    """Those of each consumer at the last look."""
    is_last_gone: bool = False
    """The last consumer with permits left, and no consumer had permits at a look since."""
    is_skip_kept: bool = False
    """It left while the replay queue had messages, or after a redelivery request. If the broker had set its flag to
    skip the next replay, no read has cleared it."""
    recent: frozenset[str] = frozenset()
    """The consumers that were recently joined at the last look, in the classic implementation."""
    replayed: frozenset[Position] = frozenset()
    """The entries that were delivered from the replay queue since the last look."""
    read_twice: frozenset[Position] = frozenset()
    """Entries that were replayed together with new messages. They may have been read twice, and the second copy
    waits until their consumer has permits."""
    last: Position | None = None
    """The last entry of the log at the last look with deliveries."""
    is_asked: bool = False
    """A consumer requested redelivery since the last look."""
    is_replaying: bool = False
    """At the last look a read of blocked messages in the replay queue may not have ended (draining hashes)."""
    read_ahead: frozenset[Position] = frozenset()
    """Entries that a read which outlived the last consumers dispatched before earlier ones of their keys."""

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

    @property
    def may_be_back(self) -> Map[int, str]:
        """The draining hashes that may have returned to their consumer, and that may have moved away again since."""
        return self.back.updated(self.draining) if self.has_left else self.back

    def never_drains(self, hashed: int, consumer: str) -> bool:
        """Whether a hash stays blocked for this consumer, because another one has it and it is counted twice."""
        twice = self.counted_twice.get(hashed)
        return twice is not None and twice.consumer != consumer

    def was_sent_unseen(self, consumer: str) -> bool:
        """Whether the messages of a consumer that left may have been sent to another one since, which left as well."""
        return any(one.may_be_ready for one in self.leavers[self._place_of(consumer) + 1 :])

    def is_after_others(self, consumer: str) -> bool:
        """Whether a consumer left since the last look after others to which messages may have been sent unseen."""
        return any(one.may_be_ready for one in self.leavers[: max(self._place_of(consumer), 0)])

    def _place_of(self, consumer: str) -> int:
        """The place of a consumer among those that left since the last look; -1 if it left before or not at all."""
        names = [one.name for one in self.leavers]
        return names.index(consumer) if consumer in names else -1

    def freed(self, positions: Iterable[Position], *, is_gone: bool) -> Keyed:
        """The same when pending entries return to the replay queue because their consumer left or nacked them."""
        return replace(self, replays=self.replays.updated(dict.fromkeys(positions, is_gone or self.is_gathered)))

    def delivered(self, position: Position, consumer: str) -> Keyed:
        """The same once a consumer has an entry, which is in no replay queue any more."""
        replays = self.replays.delete(position) if position in self.replays else self.replays
        joined = {
            one: replace(there, replays=there.replays - {position})
            for one, there in self.joined.items()
            if position in there.replays
        }
        return replace(self, got=self.got.set(position, consumer), replays=replays, joined=self.joined.updated(joined))

    def ranges_of(self, consumer: str) -> tuple[HashRange, ...]:
        """The possible ranges of a consumer since the last look: all, if it joined since or others left."""
        return self.ranges.get(consumer, (AUTO_SPLIT_HASHES,)) if not self.has_left else (AUTO_SPLIT_HASHES,)

    def without(self, consumer: str) -> Keyed:
        acked_by_others = Map({position: name for position, name in self.acked_by_others.items() if name != consumer})
        cleared, joined = _without(self.cleared, consumer), _without(self.joined, consumer)
        permits = _without(self.permits, consumer)
        return replace(self, cleared=cleared, joined=joined, permits=permits, acked_by_others=acked_by_others)


def _without(names: Map[str, T], name: str) -> Map[str, T]:
    return names.delete(name) if name in names else names
