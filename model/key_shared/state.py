"""What an observer remembers of a Key_Shared subscription, besides what consumers have unacknowledged."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from immutables import Map

from model.key_shared.hashing import AUTO_SPLIT_HASHES
from model.log import Position
from model.vocabulary import HashRange

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Joined:
    """Where a subscription was when a consumer joined: the last entry that was delivered by then, so all up to it was
    read, and the last one that was there, so nothing behind it was.
    """

    delivered: Position
    last: Position


@dataclass(frozen=True, slots=True)
class Keyed:
    """Since the subscription was last read from anew (it was set back, its topic moved, or its last consumer left):

    ``got``: the entries that were delivered, and who got each last. ``failed``: the keys, by what they are hashed by,
    of which a consumer asked for messages again: no order is promised of what was delivered of them before.
    ``replays``: the entries that were taken from a consumer that left or failed, and wait to be sent again; false while
    something may be on its way that was sent before that. ``joined``: the consumers that joined since while others were
    there. ``is_gathered``: nothing happened since all was gathered that was on its way. ``unread``: the ranges of
    consumers that left with nothing unacknowledged, as long as the broker may not have read what was held up there.
    ``may_be_read``: the broker may have been sending something to the last consumer when it left, and nothing was
    delivered since. ``has_left``: a consumer left since all was gathered, so a hash may have gone to another consumer
    and come back meanwhile. ``left_reading``: one left, and nothing was delivered since, so what was there then, up
    to this entry, may have been on its way.

    As of the last gathering: ``draining``, the hashes that waited for a consumer, and for whom; ``back``, those that
    were shown to although they had come back to it; ``held_up``, those that kept a message from being delivered;
    ``cleared``, how many hashes of a consumer the broker says to have cleared; ``ranges``, those of each consumer.

    ``passed``: the entries that were acknowledged while they waited to come again. ``outdone``: those that came all the
    same, and to whom: for the broker that consumer has them until it leaves, or acknowledges them once more.

    ``on_top``: the hashes that were counted on top of themselves, which is a deviation: they never drain.
    ``uncounted``: those that came back, and to whom, without being counted as cleared, which is one too.
    ``stalled``: the entries that do not come although they should, and the deviation that holds up each.

    ``read_to``: the last entry at the last look at which the broker had read all, and waited for a new entry. Since the
    last look: ``is_woken``, a consumer permitted more, left, acknowledged, or asked for messages again, each of which
    has the broker read the replay queue; ``is_permitted``, one permitted more.

    ``ready``: the consumers with permits at the last look, if messages were in the replay queue then. ``is_skip_kept``:
    the last one of them left, and no consumer had permits at a look since. If the broker had set its flag to skip the
    next replay, no read has cleared it.

    Since the last look: ``came``, the entries that came from the replay queue; and ``last``, the last entry that was
    there at the last look at which something had come. ``read_twice``: those that came beside new messages, so they may
    have been read for replay once more, and wait again until their consumer has permits.
    """

    got: Map[Position, str] = Map()
    failed: Map[bytes, None] = Map()
    replays: Map[Position, bool] = Map()
    joined: Map[str, Joined] = Map()
    is_gathered: bool = False
    unread: tuple[HashRange, ...] = ()
    may_be_read: bool = False
    has_left: bool = False
    left_reading: Position | None = None
    has_replays: bool = False
    """Whether messages were in the replay queue at the last look."""
    draining: Map[int, str] = Map()
    back: Map[int, str] = Map()
    held_up: frozenset[int] = frozenset()
    cleared: Map[str, int] = Map()
    ranges: Map[str, tuple[HashRange, ...]] = Map()
    passed: frozenset[Position] = frozenset()
    outdone: Map[Position, str] = Map()
    on_top: frozenset[int] = frozenset()
    uncounted: frozenset[tuple[int, str]] = frozenset()
    stalled: Map[Position, str] = Map()
    read_to: Position | None = None
    is_woken: bool = False
    is_permitted: bool = False
    ready: frozenset[str] = frozenset()
    is_skip_kept: bool = False
    came: frozenset[Position] = frozenset()
    read_twice: frozenset[Position] = frozenset()
    last: Position | None = None

    def freed(self, positions: Iterable[Position], *, is_gone: bool) -> Keyed:
        """The same when entries were taken from a consumer; what others get of their keys once it is gone, is later."""
        return replace(self, replays=self.replays.update(dict.fromkeys(positions, is_gone or self.is_gathered)))

    def ranges_of(self, consumer: str) -> tuple[HashRange, ...]:
        """The ranges that a consumer may have had since the last look: all, if it joined since, or others left."""
        return self.ranges.get(consumer, (AUTO_SPLIT_HASHES,)) if not self.has_left else (AUTO_SPLIT_HASHES,)

    def without(self, consumer: str) -> Keyed:
        """The same when a consumer is gone."""
        outdone = Map({position: name for position, name in self.outdone.items() if name != consumer})
        cleared, joined = _without(self.cleared, consumer), _without(self.joined, consumer)
        return replace(self, cleared=cleared, joined=joined, outdone=outdone)


def _without(names: Map[str, T], name: str) -> Map[str, T]:
    return names.delete(name) if name in names else names
