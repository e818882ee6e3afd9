"""The log of a topic as its subscriptions need it: the entries and their messages.

Positions come from the broker, and ACK-06 is judged when they become known. A topic contains only messages of the
suite, so the entry ids of a ledger are consecutive from 0, and the next position is known. The topics of replicated
subscriptions also contain markers, which no consumer receives and which count as acknowledged (REPL-10). They are no
entries here: other positions are passed over.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace

from model.immutable.map import Map
from model.judgement import Broken
from model.key_shared.hashes import key_of_message
from model.log import EARLIEST, Position
from model.rules.catalogue import carries
from model.vocabulary import ChunkNumber, Entry


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """The place of a message: its entry and its batch index (-1: no batch)."""

    position: Position
    batch_index: int = -1


@dataclass(frozen=True, slots=True)
class EntryKey:
    """An entry's key, if it has one, and the bytes that Key_Shared subscriptions hash."""

    key: str | None
    hashed_by: bytes


def key_of(entry: Entry, producer: str) -> EntryKey:
    """The key of an entry that this producer sends."""
    key = None if entry.sticky_key is None else entry.sticky_key.encode()
    return EntryKey(entry.sticky_key, key_of_message(key=key, producer=producer, sequence_id=entry.lowest))


@dataclass(frozen=True, slots=True)
class TopicLog:
    """The entries of a topic: the number of each ledger, in order, and of each entry the ids of its messages, its key,
    and its chunk number.

    ``room``: the maximum number of entries in a ledger (None: unknown). ``ledgers``: only ledgers with entries.
    ``has_markers``: clusters may write markers between the entries. ``markers``: of each ledger, the entry ids of those
    before its last entry, in order. ``counts`` includes these. ``is_kept_open``: the metadata store is away, so that a
    full ledger is not replaced. ``kept_open``: the ledgers that may have more entries for that reason.
    """

    room: int | None = None
    has_markers: bool = False
    ledgers: tuple[int, ...] = ()
    counts: Map[int, int] = Map()
    entries: Map[Position, tuple[str, ...]] = Map()
    places: Map[str, Place] = Map()
    keys: Map[Position, EntryKey] = Map()
    chunks: Map[Position, ChunkNumber] = Map()
    markers: Map[int, tuple[int, ...]] = Map()
    is_kept_open: bool = False
    kept_open: frozenset[int] = frozenset()

    @property
    def first(self) -> Position:
        """The position of the first entry; EARLIEST if the log is empty."""
        return self.after(EARLIEST) or EARLIEST

    @property
    def last(self) -> Position:
        """The position of the last entry; EARLIEST if the log is empty."""
        return Position(self.ledgers[-1], self.counts[self.ledgers[-1]] - 1) if self.ledgers else EARLIEST

    @property
    def ends_full(self) -> bool:
        """Whether the last entry fills its ledger, so that another one replaces it."""
        return bool(self.ledgers) and self.room is not None and self.last.entry + 1 >= self.room

    def without_rollover(self) -> TopicLog:
        """The same while the metadata store is away: brokers keep a full ledger open until it is back."""
        return replace(self, is_kept_open=True, kept_open=self.kept_open | {*self.ledgers[-1:]})

    def with_rollover(self) -> TopicLog:
        """The same when the store is back. A ledger that was kept open is replaced after its next entry."""
        return replace(self, is_kept_open=False)

    def size(self, position: Position) -> int:
        return len(self.entries[position])

    def places_at(self, position: Position) -> list[Place]:
        size = self.size(position)
        return [Place(position, index if size > 1 else -1) for index in range(size)]

    def after(self, position: Position) -> Position | None:
        """The next entry after a position, which need not have an entry itself; None at the end."""
        if position.entry + 1 < self.counts.get(position.ledger, 0):
            return self._past_markers(Position(position.ledger, max(0, position.entry + 1)))
        following = bisect_right(self.ledgers, position.ledger)
        return self._past_markers(Position(self.ledgers[following], 0)) if following < len(self.ledgers) else None

    def _past_markers(self, position: Position) -> Position:
        """The first entry at or after a position before the end of its ledger, whose last entry is no marker."""
        if not self.markers:  # as on most topics
            return position
        entry, markers = position.entry, self.markers.get(position.ledger, ())
        for marker in markers[bisect_left(markers, entry) :]:
            if marker != entry:
                break
            entry += 1
        return Position(position.ledger, entry)

    @property
    def before_last_ledger(self) -> Position:
        """The last entry before the last ledger."""
        return self.at_or_before(Position(self.last.ledger, -1))

    def at_or_before(self, position: Position) -> Position:
        """The last entry at or before a position; EARLIEST if there is none."""
        if (count := self.counts.get(position.ledger, 0)) and position.entry >= 0:
            entry, markers = min(position.entry, count - 1), self.markers.get(position.ledger, ())
            for marker in reversed(markers[: bisect_right(markers, entry)]):
                if marker != entry:
                    break
                entry -= 1
            if entry >= 0:
                return Position(position.ledger, entry)
        preceding = bisect_left(self.ledgers, position.ledger)
        if not preceding:
            return EARLIEST
        ledger = self.ledgers[preceding - 1]
        return Position(ledger, self.counts[ledger] - 1)

    def all_after(self, position: Position) -> Iterator[Position]:
        """All entries after a position, in order."""
        following = self.after(position)
        while following is not None:
            yield following
            following = self.after(following)

    def markers_after(self, position: Position) -> int:
        """How many markers there are after a position, before the last entries of their ledgers."""
        later = sum(len(markers) for ledger, markers in self.markers.items() if ledger > position.ledger)
        here = self.markers.get(position.ledger, ())
        return later + len(here) - bisect_right(here, position.entry)

    def may_have_more_markers_after(self, position: Position) -> bool:
        """Whether markers may be at the end of a ledger between a position and the last entry, or fill one."""
        return self.has_markers and (self.after(position) or self.last).ledger != self.last.ledger

    def count_after(self, position: Position) -> int:
        later = self.ledgers[bisect_right(self.ledgers, position.ledger) :]
        here = max(0, self.counts.get(position.ledger, 0) - 1 - max(-1, position.entry))
        return here + sum(self.counts[ledger] for ledger in later) - self.markers_after(position)

    def __contains__(self, position: Position) -> bool:
        return position in self.entries


@carries("ACK-06")
def appended(
    log: TopicLog,
    position: Position,
    ids: tuple[str, ...],
    key: EntryKey | None = None,
    chunk: ChunkNumber | None = None,
) -> TopicLog | Broken:
    """An entry with these messages was confirmed at a position, which must be the next position of its ledger.

    Where clusters write markers, there may be some of them before it.
    """
    expected = log.counts.get(position.ledger, 0)
    if position.entry < expected or (position.entry > expected and not log.has_markers):
        return Broken(
            "ACK-06", f"{position} was confirmed, and {position.ledger}:{expected} was the ledger's next entry"
        )
    if position <= log.last:
        return Broken("ACK-06", f"{position} was confirmed after {log.last}, which is not before it")
    is_full = log.room is not None and position.entry >= log.room
    if is_full and not (log.is_kept_open or position.ledger in log.kept_open):
        return Broken("ACK-06", f"{position} was confirmed in a ledger that takes {log.room} entries")
    longer = replace(
        log,
        kept_open=log.kept_open | {position.ledger} if is_full else log.kept_open,
        ledgers=log.ledgers if expected else (*log.ledgers, position.ledger),
        counts=log.counts.set(position.ledger, position.entry + 1),
        entries=log.entries.set(position, ids),
        keys=log.keys if key is None else log.keys.set(position, key),
        chunks=log.chunks if chunk is None else log.chunks.set(position, chunk),
        markers=_with_markers(log.markers, position, expected),
    )
    return replace(longer, places=log.places.updated(dict(zip(ids, longer.places_at(position), strict=True))))


def _with_markers(markers: Map[int, tuple[int, ...]], position: Position, expected: int) -> Map[int, tuple[int, ...]]:
    """The markers with those between the last entry of a ledger and the next one."""
    if position.entry == expected:
        return markers
    return markers.set(position.ledger, (*markers.get(position.ledger, ()), *range(expected, position.entry)))
